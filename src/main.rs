//! The process: reads the settings, starts the gateway, waits for a signal, stops it. The exit codes are decided here.

use std::io::{self, Write};
use std::process::ExitCode;

use rollcall::base::ids::GatewayId;
use rollcall::base::{exit, service_manager, telemetry};
use rollcall::cli::{audit, events, explain, key, token};
use rollcall::config::{self, Config, Loaded, Task};
use rollcall::edge::{admission, banner};
use rollcall::gateway::{self, Gateway, KeysError, StartError};
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
    let code = match config::load(std::env::args_os(), std::env::vars_os()) {
        Ok(Loaded::Run(Task::Serve, config)) => serve(&config),
        Ok(Loaded::Run(Task::Audit(args), config)) => inspect(&config, audit::run(&config, &args)),
        Ok(Loaded::Run(Task::Explain(args), config)) => inspect(&config, explain::run(&config, &args)),
        Ok(Loaded::Run(Task::Events(args), config)) => inspect(&config, events::run(&config, &args)),
        Ok(Loaded::Run(Task::Token(args), config)) => Ok(token::run(&config, &args)),
        Ok(Loaded::Run(Task::Key(args), _)) => Ok(key::run(&args)),
        Ok(Loaded::Print(text)) => {
            // A reader that went away (`rollcall --help | head`) is no failure.
            let _ = writeln!(io::stdout(), "{text}");
            Ok(exit::STOPPED)
        }
        Err(mistakes) => Ok(exit::say(exit::WRONG_SETTINGS, format_args!("{mistakes}\nall settings: rollcall --help"))),
    };
    code.unwrap_or_else(|err| exit::say(exit::BUG, err))
}

/// Runs a command that reads the store.
fn inspect(config: &Config, command: impl Future<Output = anyhow::Result<u8>>) -> anyhow::Result<u8> {
    let _log = telemetry::init(&config.log, config.log_format, None)?;
    Ok(Runtime::new()?.block_on(command).unwrap_or_else(|why| exit::say(exit::UNAVAILABLE, why)))
}

fn serve(config: &Config) -> anyhow::Result<u8> {
    let id = GatewayId::random();
    // Dropped last, so that the last spans are sent.
    let _log = telemetry::init(&config.log, config.log_format, config.traces(&id).as_ref())?;
    admission::raise_open_files();
    config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = Runtime::new()?;
    let code = runtime.block_on(async {
        let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
        // While there is no gateway yet or no more, a hangup is ignored.
        let mut hangups = signal(SignalKind::hangup())?;
        let gateway = tokio::select! {
            started = gateway::start_as(id, config.clone()) => match started {
                Ok(gateway) => gateway,
                Err(
                    err @ (StartError::Keys(KeysError::File(_)) | StartError::Certificate(_) | StartError::Settings(_)),
                ) => return Ok(exit::say(exit::WRONG_SETTINGS, err)),
                Err(err) => return Ok(exit::say(exit::UNAVAILABLE, err)),
            },
            () = any_of(&mut signals) => return Ok(exit::STOPPED),
        };
        banner::announce(config, gateway.addr(), gateway.admin_addr());
        service_manager::ready();
        tokio::spawn(service_manager::feed_watchdog());
        tokio::select! {
            () = any_of(&mut signals) => {}
            _ = gateway.failed() => {}
            () = reload_on(&mut hangups, &gateway) => {}
        }
        service_manager::stopping();
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

/// Reads keys and certificates again at each SIGHUP, which would otherwise end the process: it also comes from a
/// terminal that closes. Never ends.
async fn reload_on(hangups: &mut Signal, gateway: &Gateway) {
    while hangups.recv().await.is_some() {
        tracing::info!("SIGHUP: reading keys and certificates again; other settings are read at start only");
        gateway.reload().await;
    }
    std::future::pending().await
}

async fn any_of([terminate, interrupt]: &mut [Signal; 2]) {
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}
