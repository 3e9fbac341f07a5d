//! How many sockets a second a server lets in: Rollcall up to `joined`, the bare server up to the
//! 101.

use crate::bench::figures::{Figures, Who};
use crate::bench::generator::Generator;
use crate::bench::generator::order::{Crowd, Enter, Order};
use crate::bench::servers::{Redis, Server};
use crate::bench::settings::Bench;

pub(super) const NAME: &str = "connect";
const LIVES: usize = 10;

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let sockets = bench.pick(10_000, 200);
    let redis = Redis::start().await?;
    redis.follow(sockets, LIVES).await?;
    let gateway = bench.programs.gateway(&redis).await?;
    let bare = bench.programs.bare().await?;
    gateway.open(LIVES, None).await?;
    let servers: [(Who, &Server); 2] = [(Who::Rollcall, &gateway.server), (Who::Bare, &bare)];
    let mut generator = Generator::start()?;
    // Round 0 only warms the servers up.
    for round in 0..=bench.rounds {
        for step in 0..servers.len() {
            let (who, server) = servers[(round + step) % servers.len()];
            let crowd = Crowd::new(server.addr, sockets, Enter::of(who), 100 + round as u8);
            let before = server.cpu()?;
            let outcome = generator
                .carry_out(&Order::Connect(Crowd {
                    lives: LIVES,
                    ..crowd
                }))
                .await?;
            let cpu = server.cpu()? - before;
            let entered = outcome.sockets as f64;
            if round > 0 {
                figures.note(NAME, who, ("sockets in", "1/s"), entered / outcome.seconds);
                figures.note(
                    NAME,
                    who,
                    ("server CPU per socket", "µs"),
                    cpu * 1e6 / entered,
                );
                figures.note(
                    NAME,
                    who,
                    ("generator CPU per socket", "µs"),
                    outcome.cpu_seconds * 1e6 / entered,
                );
            }
            generator.carry_out(&Order::Leave).await?;
            generator
                .carry_out(&Order::Rest {
                    seconds: bench.pick(1.0, 0.1),
                })
                .await?;
        }
    }
    Ok(())
}
