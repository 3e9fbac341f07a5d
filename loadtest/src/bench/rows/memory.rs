//! Resident memory per socket: idle, and after a long message each way.

use crate::bench::figures::{Figures, Who};
use crate::bench::generator::order::{Crowd, Enter, Order};
use crate::bench::generator::{Generator, together};
use crate::bench::servers::{Redis, Server};
use crate::bench::settings::Bench;

pub(super) const NAME: &str = "memory";
const LIVES: usize = 10;
const GENERATORS: usize = 2;
/// These sockets come and go first, so that the one-time allocations of a server do not count as
/// memory of sockets.
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

async fn fill(
    bench: &Bench,
    figures: &mut Figures,
    (who, server): (Who, &Server),
    block: u8,
) -> anyhow::Result<()> {
    let sockets = bench.pick(18_000, 400);
    let settle = Order::Rest {
        seconds: bench.pick(3.0, 0.1),
    };
    let mut generators = [Generator::start()?, Generator::start()?];
    let crowd = |generator: usize, all: usize| {
        let crowd = Crowd::new(server.addr, all / GENERATORS, Enter::of(who), block);
        Order::Connect(Crowd {
            first: generator * crowd.count,
            lives: LIVES,
            in_flight: 32,
            ..crowd
        })
    };
    let every = |order: &Order| vec![order.clone(); GENERATORS];

    together(&mut generators, &[crowd(0, WARM_UP), crowd(1, WARM_UP)]).await?;
    together(&mut generators, &every(&Order::Leave)).await?;
    together(&mut generators, &every(&settle)).await?;
    let empty = server.rss()?;
    let entered = together(&mut generators, &[crowd(0, sockets), crowd(1, sockets)]).await?;
    together(&mut generators, &every(&settle)).await?;
    let idle = (server.rss()? - empty) / entered.sockets as f64;
    together(
        &mut generators,
        &every(&Order::Large {
            per_second: 5_000.0,
        }),
    )
    .await?;
    together(&mut generators, &every(&settle)).await?;
    let after = (server.rss()? - empty) / entered.sockets as f64;
    figures.note(NAME, who, ("RSS per idle socket", "B"), idle);
    figures.note(
        NAME,
        who,
        ("RSS per socket after 4 KiB each way", "B"),
        after,
    );
    figures.note(
        NAME,
        who,
        ("after 4 KiB each way, of idle", ""),
        after / idle,
    );
    together(&mut generators, &every(&Order::Leave)).await?;
    Ok(())
}
