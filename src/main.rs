//! The process: reads the settings, starts the gateway, waits for a signal, stops it. The exit codes are decided here.

use std::io::{self, Write};
use std::process::ExitCode;

use rollcall::base::{exit, telemetry};
use rollcall::cli::{audit, explain};
use rollcall::config::{self, Config, Loaded};
use rollcall::edge::{admission, banner};
use rollcall::gateway;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Sockets come and go for weeks: after a crowd left and came back, the system's allocator held two thirds more memory
/// than at first (`docs/profile.md`).
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // Otherwise a panic of this thread would exit with 101.
    std::panic::catch_unwind(run).unwrap_or(exit::BUG).into()
}

fn run() -> u8 {
    match config::load(std::env::args_os(), std::env::vars_os()) {
        Ok(Loaded::Serve(config)) => serve(&config).unwrap_or_else(|err| exit::say(exit::BUG, err)),
        Ok(Loaded::Audit(config, args)) => inspect(&config, audit::run(&config, &args)),
        Ok(Loaded::Explain(config, args)) => inspect(&config, explain::run(&config, &args)),
        // A reader that went away (`rollcall --help | head`) is no failure.
        Ok(Loaded::Print(text)) => writeln!(io::stdout(), "{text}").map_or(exit::STOPPED, |()| exit::STOPPED),
        Err(mistakes) => exit::say(exit::WRONG_SETTINGS, format_args!("{mistakes}\nall settings: rollcall --help")),
    }
}

/// Runs a command that reads the store.
fn inspect(config: &Config, command: impl Future<Output = u8>) -> u8 {
    let ready =
        telemetry::init(&config.log, config.log_format).map_err(anyhow::Error::from).and_then(|()| Ok(Runtime::new()?));
    ready.map_or_else(|err| exit::say(exit::BUG, err), |runtime| runtime.block_on(command))
}

fn serve(config: &Config) -> anyhow::Result<u8> {
    telemetry::init(&config.log, config.log_format)?;
    admission::raise_open_files();
    config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = Runtime::new()?;
    let code = runtime.block_on(async {
        let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
        tokio::spawn(ignore_hangups(signal(SignalKind::hangup())?));
        let gateway = tokio::select! {
            started = gateway::start(config.clone()) => match started {
                Ok(gateway) => gateway,
                Err(err @ (gateway::StartError::Keys(_) | gateway::StartError::Certificate(_))) => {
                    return Ok(exit::say(exit::WRONG_SETTINGS, err));
                }
                Err(err) => return Ok(exit::say(exit::UNAVAILABLE, err)),
            },
            () = any_of(&mut signals) => return Ok(exit::STOPPED),
        };
        banner::announce(config, gateway.addr(), gateway.admin_addr());
        tokio::select! {
            () = any_of(&mut signals) => {}
            _ = gateway.failed() => {}
        }
        tokio::select! {
            failed = gateway.stop() => Ok(failed.map_or(exit::STOPPED, |task| {
                exit::say(exit::BUG, format_args!("the task {task} ended early"))
            })),
            () = any_of(&mut signals) => Ok(exit::STOPPED_TWICE),
        }
    });
    runtime.shutdown_background();
    code
}

/// Otherwise a SIGHUP would end the process: from a terminal that closes, or from an operator who wants the settings
/// re-read.
async fn ignore_hangups(mut hangups: Signal) {
    while hangups.recv().await.is_some() {
        tracing::info!("SIGHUP is ignored: settings are read at start only");
    }
}

async fn any_of([terminate, interrupt]: &mut [Signal; 2]) {
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}
