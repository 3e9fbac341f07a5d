//! `rollcall lives` asks a gateway for the open lives and prints them, once or every few seconds. It
//! makes every text of a gateway harmless before it prints it.

mod look;
mod table;

use std::time::{Duration, SystemTime};

use tokio::time::{MissedTickBehavior, interval};

use self::look::LivesLook;
use self::table::LivesTable;
use super::gateways::{self, GatewayApi, KeyRefused};
use crate::base::exit;
use crate::config::LivesArgs;

/// Shows the lives and returns the exit code.
pub async fn run(args: &LivesArgs) -> anyhow::Result<u8> {
    let gateways = gateways::open(&args.gateways())?;
    match args.watch {
        Some(seconds) => watch(&gateways, args, Duration::from_secs(seconds)).await,
        None => Ok(print_once(&first_answer(&gateways, args).await?, args.json)),
    }
}

/// Prints the lives, and returns the exit code.
fn print_once(look: &LivesLook, json: bool) -> u8 {
    if look.more {
        exit::say(
            exit::STOPPED,
            format_args!(
                "there are more lives than the {} that are shown",
                look.lives.len()
            ),
        );
    }
    if !json {
        return exit::print(exit::STOPPED, LivesTable(look));
    }
    let mut lines = Vec::new();
    for live in &look.lives {
        lines.push(serde_json::to_string(live).unwrap_or_default());
    }
    exit::print(exit::STOPPED, lines.join("\n"))
}

/// Prints a line with the time and a table, again and again, until the reader goes away. While no
/// gateway answers, it says so and goes on.
async fn watch(gateways: &[GatewayApi], args: &LivesArgs, every: Duration) -> anyhow::Result<u8> {
    let mut turns = interval(every);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        let answer = first_answer(gateways, args).await;
        let time = humantime::format_rfc3339_seconds(SystemTime::now());
        match answer {
            Ok(look) => {
                if let Err(why) = exit::write(format_args!("{time}\n{}\n", LivesTable(&look))) {
                    return Ok(exit::unwritten(exit::STOPPED, &why));
                }
            }
            Err(why) if why.is::<KeyRefused>() => return Err(why),
            Err(why) => {
                exit::say(exit::UNAVAILABLE, format_args!("{time}: {why}"));
            }
        }
    }
}

/// Asks the gateways one after the other, until one answers.
async fn first_answer(gateways: &[GatewayApi], args: &LivesArgs) -> anyhow::Result<LivesLook> {
    let mut last = anyhow::anyhow!("no gateway is named");
    for gateway in gateways {
        match look::at(gateway, args.sort).await {
            Ok(look) => return Ok(look),
            Err(why) => {
                let told = format!(
                    "{} does not tell the lives: {}",
                    gateway.url,
                    why.root_cause()
                );
                last = why.context(told);
            }
        }
    }
    Err(last)
}
