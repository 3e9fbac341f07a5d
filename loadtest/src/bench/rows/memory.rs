//! What a socket costs in resident memory: idle, and after a long message each way.

use crate::bench::Bench;
use crate::bench::figures::{Figures, Who};
use crate::bench::pump::order::{Crowd, Enter, Order};
use crate::bench::pump::{Pump, together};
use crate::bench::stage::{Redis, Server};

pub(super) const NAME: &str = "memory";
const LIVES: usize = 10;
const PUMPS: usize = 2;
/// So many come and go first, so that what any server allocates once is not counted to a socket.
const WARM_UP: usize = 200;

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let sockets = bench.pick(18_000, 400);
    for round in 0..bench.rounds.min(3) {
        let block = 20 + round as u8 * 2;
        let redis = Redis::start().await?;
        redis.follow(sockets, LIVES).await?;
        let gateway = bench.programs.gateway(&redis).await?;
        gateway.open(LIVES, None).await?;
        fill(bench, figures, (Who::Rollcall, &gateway.server), block).await?;
        gateway.server.end().await;
        let bare = bench.programs.bare().await?;
        fill(bench, figures, (Who::Bare, &bare), block + 1).await?;
        bare.end().await;
    }
    Ok(())
}

async fn fill(bench: &Bench, figures: &mut Figures, (who, server): (Who, &Server), block: u8) -> anyhow::Result<()> {
    let sockets = bench.pick(18_000, 400);
    let settle = Order::Rest { seconds: bench.pick(3.0, 0.3) };
    let mut pumps = [Pump::start()?, Pump::start()?];
    let enter = if who == Who::Bare { Enter::Upgraded } else { Enter::Joined };
    let crowd = |pump: usize, all: usize| {
        let count = all / PUMPS;
        let first = pump * count;
        let per_second = None;
        Order::Connect(Crowd {
            server: server.addr,
            first,
            count,
            lives: LIVES,
            enter,
            per_second,
            in_flight: 32,
            block,
        })
    };
    let every = |order: &Order| vec![order.clone(); PUMPS];

    together(&mut pumps, &[crowd(0, WARM_UP), crowd(1, WARM_UP)]).await?;
    together(&mut pumps, &every(&Order::Leave)).await?;
    together(&mut pumps, &every(&settle)).await?;
    let empty = server.rss()?;
    let entered = together(&mut pumps, &[crowd(0, sockets), crowd(1, sockets)]).await?;
    together(&mut pumps, &every(&settle)).await?;
    let idle = (server.rss()? - empty) / entered.sockets as f64;
    together(&mut pumps, &every(&Order::Large { per_second: 5_000.0 })).await?;
    together(&mut pumps, &every(&settle)).await?;
    let after = (server.rss()? - empty) / entered.sockets as f64;
    figures.note(NAME, who, ("RSS per idle socket", "B"), idle);
    figures.note(NAME, who, ("RSS per socket after 4 KiB each way", "B"), after);
    figures.note(NAME, who, ("after 4 KiB each way, of idle", ""), after / idle);
    together(&mut pumps, &every(&Order::Leave)).await?;
    Ok(())
}
