//! Workers in child processes of this program, over pipes.

use std::process::{ExitCode, Stdio};

use anyhow::{Context, bail};

use super::lines::{self, LONGEST_LINE};
use super::share::{Assignment, Ends, runtime};

pub(super) fn spawn(assignment: Assignment, ends: Ends) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("this program's own path")?;
    let mut child = tokio::process::Command::new(program)
        .arg("crowd-share")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("a child process")?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("a child process without pipes");
    };
    tokio::spawn(lines::command(
        assignment,
        ends.commands,
        lines::writer(input),
    ));
    tokio::spawn(async move {
        lines::listen(lines::reader(output, LONGEST_LINE), ends.events).await;
        // The child's events say how it ended; this only reaps it.
        let _ = child.wait().await;
    });
    Ok(())
}

/// The whole of a child process.
pub(crate) fn child_main() -> ExitCode {
    match child_run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loadtest: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn child_run() -> anyhow::Result<()> {
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        // Ctrl-C reaches the whole process group: the parent alone decides what it means.
        tokio::spawn(async { while tokio::signal::ctrl_c().await.is_ok() {} });
        let input = tokio::io::stdin();
        let output = tokio::io::stdout();
        let mut input = lines::reader(input, LONGEST_LINE);
        let assignment = lines::hear(&mut input)
            .await?
            .context("an assignment on standard input")?;
        lines::obey(assignment, (input, lines::writer(output)), Ok).await
    });
    // The read of standard input cannot be cancelled and would hold the runtime open.
    runtime.shutdown_background();
    done.map(drop)
}
