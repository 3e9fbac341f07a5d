//! The process: reads the settings, starts the gateway, waits for a signal, stops it. The exit codes are decided here.

use std::io::{self, Write};
use std::process::ExitCode;

use rollcall::config::{self, Config, Loaded};
use rollcall::{gateway, hints, telemetry};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

const STOPPED: u8 = 0;
const WRONG_SETTINGS: u8 = 64;
const UNAVAILABLE: u8 = 69;
const BUG: u8 = 70;
const STOPPED_TWICE: u8 = 130;

fn main() -> ExitCode {
    // By itself, a panic of this thread would end with 101.
    std::panic::catch_unwind(run).unwrap_or(BUG).into()
}

fn run() -> u8 {
    match config::load(std::env::args_os(), std::env::vars_os()) {
        Ok(Loaded::Serve(config)) => serve(&config).unwrap_or_else(|err| say(BUG, format_args!("{err:#}"))),
        // A reader that went away (`rollcall --help | head`) is no failure.
        Ok(Loaded::Print(text)) => writeln!(io::stdout(), "{text}").map_or(STOPPED, |()| STOPPED),
        Err(mistakes) => say(WRONG_SETTINGS, format_args!("{mistakes}\nall settings: rollcall --help")),
    }
}

fn serve(config: &Config) -> anyhow::Result<u8> {
    telemetry::init(config)?;
    config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = Runtime::new()?;
    let code = runtime.block_on(async {
        let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
        let gateway = tokio::select! {
            started = gateway::start(config.clone()) => match started {
                Ok(gateway) => gateway,
                Err(err) => return Ok(say(UNAVAILABLE, format_args!("{err}"))),
            },
            () = any(&mut signals) => return Ok(STOPPED),
        };
        writeln!(io::stdout(), "listening on http://{}", gateway.addr())?;
        let steps = hints::first_steps(config, gateway.addr(), gateway.admin_addr());
        steps.iter().for_each(|step| tracing::info!("{step}"));
        let code = tokio::select! {
            () = any(&mut signals) => STOPPED,
            task = gateway.failed() => say(BUG, format_args!("the task {task} ended early")),
        };
        tokio::select! {
            () = gateway.stop() => Ok(code),
            () = any(&mut signals) => Ok(STOPPED_TWICE),
        }
    });
    runtime.shutdown_background();
    code
}

async fn any([terminate, interrupt]: &mut [Signal; 2]) {
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
}

/// Says why the process ends: plainly, for whoever started it reads this even where logs are off.
fn say(code: u8, why: std::fmt::Arguments<'_>) -> u8 {
    // With nobody to read standard error there is nobody to tell; the code still says it.
    writeln!(io::stderr(), "rollcall: {why}").map_or(code, |()| code)
}
