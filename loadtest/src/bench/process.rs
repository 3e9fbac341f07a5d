//! How a process of the bench runs and ends: its runtime, its error message, its exit code.

use std::process::ExitCode;
use std::time::Duration;

/// Runs a process that has gateways or viewers in it.
pub(super) fn on_runtime(whole: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    end(run(whole))
}

fn run(whole: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = runtime.block_on(Box::pin(whole));
    // A generator's thread or a blocked read must not hold the end up.
    runtime.shutdown_timeout(Duration::from_secs(2));
    done
}

pub(super) fn end(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadtest: {error:#}");
            ExitCode::FAILURE
        }
    }
}
