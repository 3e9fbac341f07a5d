//! The process: reads the settings, starts the gateway, waits for a signal, stops it, and decides
//! the exit codes. It is part of the library, so that the compiler makes code for the gateway's
//! tasks once. `main` calls it.

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Gateway;
use crate::base::ids::GatewayId;
use crate::base::{exit, service_manager, telemetry};
use crate::cli::{self, key, keys, lives, token};
use crate::config::{self, Config, Loaded, Task};
use crate::edge::{admission, banner};
use crate::features;
use crate::gateway::check_config;

/// Runs the task of the command line; returns the exit code.
pub fn run() -> u8 {
    let code = match config::load(std::env::args_os(), std::env::vars_os()) {
        Ok(Loaded::Run(Task::Serve, config)) => serve(&config),
        Ok(Loaded::Run(Task::Keys(args), config)) => inspect(&config, keys::run(&config, &args)),
        Ok(Loaded::Run(Task::CheckConfig(args), config)) => {
            inspect(&config, check_config::run(&config, &args))
        }
        Ok(Loaded::Run(Task::Lives(args), config)) => inspect(&config, lives::run(&args)),
        Ok(Loaded::Run(Task::Token(args), config)) => Ok(token::run(&config, &args)),
        Ok(Loaded::Run(Task::Key(args), _)) => Ok(key::run(&args)),
        Ok(Loaded::Run(task, config)) => inspect(&config, features::run(&task, &config)),
        Ok(Loaded::Print(text)) => Ok(exit::print(exit::STOPPED, text)),
        Err(mistakes) => Ok(exit::say(
            exit::WRONG_SETTINGS,
            format_args!("{mistakes}\nall settings: rollcall --help"),
        )),
    };
    match code {
        Ok(code) => code,
        Err(err) => exit::say(exit::BUG, err),
    }
}

/// Runs a command that reads the store or calls gateways.
fn inspect(
    config: &Config,
    command: impl Future<Output = anyhow::Result<u8>>,
) -> anyhow::Result<u8> {
    // A command may end while the client of Redis still tries something. The client's warnings
    // about that mean nothing.
    let log = if config.log == "info" {
        "info,fred=error"
    } else {
        &config.log
    };
    telemetry::init_command(log, config.log_format)?;
    match Runtime::new()?.block_on(command) {
        Ok(code) => Ok(code),
        Err(why) => Ok(exit::say(cli::code_of(&why), why)),
    }
}

fn serve(config: &Config) -> anyhow::Result<u8> {
    let id = GatewayId::random();
    // Dropped last, so that the last lines and spans go out.
    let _log =
        telemetry::init_gateway(&config.log, config.log_format, config.traces(&id).as_ref())?;
    admission::raise_open_files();
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
    let code = match Runtime::new() {
        Ok(runtime) => {
            let code = runtime.block_on(run_gateway(id, config));
            runtime.shutdown_background();
            code
        }
        Err(why) => Err(why.into()),
    };
    Ok(code.unwrap_or_else(|why| exit::say(exit::BUG, why)))
}

/// Runs the gateway until a signal or a failed task stops it; returns the exit code.
async fn run_gateway(id: GatewayId, config: &Config) -> anyhow::Result<u8> {
    let mut signals = [
        signal(SignalKind::terminate())?,
        signal(SignalKind::interrupt())?,
        signal(SignalKind::quit())?,
    ];
    // Registered now, so that they are ignored before the start is done, and during the stop.
    let mut harmless = [
        signal(SignalKind::hangup())?,
        signal(SignalKind::user_defined1())?,
        signal(SignalKind::user_defined2())?,
    ];
    let started = tokio::select! {
        started = super::start_as(id, config.clone()) => started,
        () = any_of(&mut signals) => return Ok(exit::STOPPED),
    };
    let gateway = match started {
        Ok(gateway) => gateway,
        Err(err) => {
            let code = if err.is_mistake() {
                exit::WRONG_SETTINGS
            } else {
                exit::UNAVAILABLE
            };
            return Ok(exit::say(code, err));
        }
    };
    banner::announce(config, gateway.addr(), gateway.admin_addr());
    service_manager::ready();
    tokio::spawn(service_manager::feed_watchdog());
    tokio::select! {
        () = any_of(&mut signals) => {}
        _ = gateway.failed() => {}
        () = attend(&mut harmless, &gateway) => {}
    }
    service_manager::stopping();
    let failed = tokio::select! {
        failed = gateway.stop() => failed,
        () = any_of(&mut signals) => return Ok(exit::STOPPED_TWICE),
    };
    match failed {
        Some(task) => Ok(exit::say(
            exit::BUG,
            format_args!("the task {task} ended early"),
        )),
        None => Ok(exit::STOPPED),
    }
}

/// Reads keys and certificates again at each SIGHUP, which also comes from a terminal that closes,
/// and ignores the signals for users. Each of them would otherwise end the process. Never ends.
async fn attend([hangup, user1, user2]: &mut [Signal; 3], gateway: &Gateway) {
    loop {
        let ignored = tokio::select! {
            Some(()) = hangup.recv() => {
                tracing::info!(
                    "SIGHUP: reading keys, secrets and certificates again; other settings are read at start only"
                );
                gateway.reload().await;
                continue;
            }
            Some(()) = user1.recv() => "SIGUSR1",
            Some(()) = user2.recv() => "SIGUSR2",
            else => std::future::pending().await,
        };
        tracing::info!("{ignored} has no meaning for a gateway and is ignored");
    }
}

async fn any_of([terminate, interrupt, quit]: &mut [Signal; 3]) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = quit.recv() => {}
    }
}
