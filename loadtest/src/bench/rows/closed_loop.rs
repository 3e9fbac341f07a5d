//! How many heartbeats a second a server answers when each socket sends the next one as soon as it
//! can.

use std::path::Path;

use crate::bench::figures::{Figures, Who};
use crate::bench::generator::Generator;
use crate::bench::generator::order::{Crowd, Enter, Order};
use crate::bench::servers::{Redis, Server};
use crate::bench::settings::Bench;

pub(super) const NAME: &str = "closed-loop";
const SOCKETS: usize = 200;

/// A server and its generator, whose sockets have entered.
struct Contender<'a> {
    who: Who,
    server: &'a Server,
    generator: Generator,
}

impl<'a> Contender<'a> {
    async fn enter(
        who: Who,
        server: &'a Server,
        block: u8,
        secret: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let mut generator = Generator::start()?;
        let crowd = Crowd::new(server.addr, SOCKETS, Enter::of(who), block);
        generator
            .carry_out(&Order::Connect(Crowd {
                secret: secret.map(Path::to_owned),
                ..crowd
            }))
            .await?;
        Ok(Self {
            who,
            server,
            generator,
        })
    }

    async fn turn(&mut self, seconds: f64, figures: &mut Figures) -> anyhow::Result<()> {
        let before = self.server.cpu()?;
        let outcome = self.generator.carry_out(&Order::Loop { seconds }).await?;
        let cpu = self.server.cpu()? - before;
        let answered = outcome.answered as f64;
        figures.note(
            NAME,
            self.who,
            ("heartbeats", "1/s"),
            answered / outcome.seconds,
        );
        figures.note(
            NAME,
            self.who,
            ("server CPU per heartbeat", "µs"),
            cpu * 1e6 / answered,
        );
        figures.note(
            NAME,
            self.who,
            ("generator CPU per heartbeat", "µs"),
            outcome.cpu_seconds * 1e6 / answered,
        );
        figures.note(
            NAME,
            self.who,
            ("ack latency p99", "ms"),
            outcome.latency.at(0.99) as f64 / 1e3,
        );
        Ok(())
    }
}

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let ours = Redis::start().await?;
    let theirs = Redis::start().await?;
    for redis in [&ours, &theirs] {
        redis.follow(SOCKETS, 1).await?;
    }
    // No person sends a thousand heartbeats a second. The gateway counts them all the same.
    let gateway = bench
        .programs
        .gateway_with(&ours, bench.secret(), &["--message-rate", "0"])
        .await?;
    let bare = bench.programs.bare().await?;
    let naive = bench.programs.naive(&theirs).await?;
    gateway.open(1, None).await?;
    let mut contenders = [
        Contender::enter(Who::Rollcall, &gateway.server, 0, bench.secret()).await?,
        Contender::enter(Who::Bare, &bare, 1, None).await?,
        Contender::enter(Who::Naive, &naive, 2, None).await?,
    ];
    let warm_up = bench.pick(1.0, 0.1);
    let seconds = bench.pick(3.0, 0.2);
    for contender in &mut contenders {
        contender
            .generator
            .carry_out(&Order::Loop { seconds: warm_up })
            .await?;
    }
    for round in 0..bench.rounds {
        for step in 0..contenders.len() {
            // Each round begins with another contender.
            let turn = (round + step) % contenders.len();
            contenders[turn].turn(seconds, figures).await?;
        }
    }
    Ok(())
}
