//! `rollcall lives` shows the open lives as a gateway tells them: on a terminal in a table that changes, like `top`;
//! for scripts once, as a table or as lines of JSON. No text of a gateway reaches the terminal as it came.

mod board;
mod look;
mod plain;
mod screen;
mod terminal;

use std::io::{self, IsTerminal};

use self::look::Look;
use super::gateways::{self, GatewayApi};
use crate::base::exit;
use crate::config::{LivesArgs, LivesView};

/// Pages of a thousand lives that are read for a table that is printed once.
const ALL: usize = 100;

/// Shows the lives and answers the exit code.
pub async fn run(args: &LivesArgs) -> anyhow::Result<u8> {
    let gateways = gateways::open(&args.gateways)?;
    if args.view == LivesView::Screen && io::stdout().is_terminal() {
        terminal::show(&gateways, args.sort).await?;
        return Ok(exit::STOPPED);
    }
    let look = first_answer(&gateways, args).await?;
    if look.more {
        exit::say(exit::STOPPED, format_args!("there are more lives than the {} that are shown", look.lives.len()));
    }
    match args.view {
        LivesView::Json => plain::print_lines(&look),
        LivesView::Screen | LivesView::Table => plain::print_table(&look),
    }
    Ok(exit::STOPPED)
}

/// Asks one gateway after the other, until one answers.
async fn first_answer(gateways: &[GatewayApi], args: &LivesArgs) -> anyhow::Result<Look> {
    let mut last = anyhow::anyhow!("no gateway is named");
    for gateway in gateways {
        match look::at(gateway, args.sort, ALL).await {
            Ok(look) => return Ok(look),
            Err(why) => {
                let told = format!("{} does not tell the lives: {}", gateway.url, why.root_cause());
                last = why.context(told);
            }
        }
    }
    Err(last)
}
