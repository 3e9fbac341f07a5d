//! What a heartbeat costs: when each socket sends the next one as soon as the last is answered, and
//! at an ordinary pace.

use std::path::Path;

use crate::bench::figures::Who;
use crate::bench::generator::Generator;
use crate::bench::generator::order::{Crowd, Enter, Order, OrderOutcome};
use crate::bench::servers::{BenchGateway, Redis, Server};
use crate::bench::settings::{Bench, turns};

/// A gateway, the bare server and the naive one, each with a crowd that has entered.
struct Contenders {
    gateway: BenchGateway,
    bare: Server,
    naive: Server,
    /// Of the gateway, and of the naive server.
    ours: Redis,
    theirs: Redis,
    generators: Vec<Generator>,
}

const ALL: [Who; 3] = [Who::Rollcall, Who::Bare, Who::Naive];

impl Contenders {
    async fn enter(
        bench: &Bench,
        sockets: usize,
        lives: usize,
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let ours = Redis::start().await?;
        let theirs = Redis::start().await?;
        for redis in [&ours, &theirs] {
            redis.follow(sockets, lives).await?;
        }
        let programs = &bench.programs;
        let gateway = programs.gateway_with(&ours, bench.secret(), flags).await?;
        gateway.open(lives, None).await?;
        let mut contenders = Self {
            gateway,
            bare: programs.bare().await?,
            naive: programs.naive(&theirs).await?,
            ours,
            theirs,
            generators: Vec::new(),
        };
        for who in ALL {
            let secret = bench.secret().filter(|_| who == Who::Rollcall);
            let crowd = Crowd {
                lives,
                secret: secret.map(Path::to_owned),
                ..Crowd::new(contenders.server(who).addr, sockets, Enter::of(who))
            };
            let mut generator = Generator::start()?;
            generator.carry_out(&Order::Connect(crowd)).await?;
            contenders.generators.push(generator);
        }
        Ok(contenders)
    }

    fn server(&self, who: Who) -> &Server {
        match who {
            Who::Rollcall => &self.gateway.server,
            Who::Bare => &self.bare,
            Who::Naive => &self.naive,
        }
    }

    async fn take(
        &mut self,
        bench: &mut Bench,
        turn: usize,
        order: &Order,
    ) -> anyhow::Result<OrderOutcome> {
        let who = ALL[turn];
        let before = self.server(who).cpu()?;
        let outcome = self.generators[turn].carry_out(order).await?;
        let cpu = self.server(who).cpu()? - before;
        let answered = outcome.answered as f64;
        for (measure, value) in [
            ("heartbeats, 1/s", answered / outcome.seconds),
            ("server CPU per heartbeat, µs", cpu * 1e6 / answered),
            (
                "generator CPU per heartbeat, µs",
                outcome.cpu_seconds * 1e6 / answered,
            ),
            ("ack latency p99, ms", outcome.latency.ms_at(0.99)),
        ] {
            bench.note(who, measure, value);
        }
        Ok(outcome)
    }
}

pub(super) async fn closed_loop(bench: &mut Bench) -> anyhow::Result<()> {
    // No person sends a thousand heartbeats a second. The gateway counts them all the same.
    let flags = ["--message-rate", "0"];
    let mut contenders = Contenders::enter(bench, 200, 1, &flags).await?;
    let warm_up = Order::Loop {
        seconds: bench.pick(1.0, 0.1),
    };
    for generator in &mut contenders.generators {
        generator.carry_out(&warm_up).await?;
    }
    let seconds = bench.pick(3.0, 0.2);
    for (_, turn) in turns(bench.rounds(), ALL.len()) {
        contenders
            .take(bench, turn, &Order::Loop { seconds })
            .await?;
    }
    Ok(())
}

pub(super) async fn paced(bench: &mut Bench) -> anyhow::Result<()> {
    let sockets = bench.pick(10_000, 100);
    let (every_s, seconds) = bench.pick((5.0, 10.0), (0.2, 0.3));
    // The CPU time of an idle Redis is no cost of heartbeats.
    let idle = bench.pick_ms(10_000, 300);
    let idle = Redis::start().await?.idle(idle).await?;
    bench.ours("Redis CPU with nobody there, cores", idle);
    let mut contenders = Contenders::enter(bench, sockets, 10, &[]).await?;
    // The joins are flushed, and the other gateways know of them.
    tokio::time::sleep(bench.pick_ms(3_000, 300)).await;

    let heartbeats = "rollcall_heartbeats_total";
    let calls = "rollcall_store_calls_total";
    let before_beats = contenders.gateway.metric(heartbeats).await?;
    let before_calls = contenders.gateway.metric(calls).await?;
    let ours = contenders.ours.read().await?;
    let theirs = contenders.theirs.read().await?;
    let pace = |seconds| Order::pace(every_s, seconds);
    let mut naive_beats = 0.0;
    for (_, turn) in turns(bench.rounds(), ALL.len()) {
        // A round without measurement comes first: the server pings sockets that rested until now,
        // and sockets at an ordinary pace get no pings.
        let warm_up = contenders.generators[turn]
            .carry_out(&pace(every_s))
            .await?;
        let outcome = contenders.take(bench, turn, &pace(seconds)).await?;
        if ALL[turn] == Who::Naive {
            naive_beats += (warm_up.answered + outcome.answered) as f64;
        }
    }
    // Rollcall's work in Redis does not come with the heartbeats, so the figures of one short
    // window would depend on luck. They are taken over all rounds; viewers that rest answer pings
    // all that time.
    let ours = contenders.ours.since(&ours).await?;
    let theirs = contenders.theirs.since(&theirs).await?;
    let beats = contenders.gateway.metric(heartbeats).await? - before_beats;
    let sent = contenders.gateway.metric(calls).await? - before_calls;
    for (who, work, sent, beats) in [
        (Who::Rollcall, &ours, sent, beats),
        (Who::Naive, &theirs, theirs.commands, naive_beats),
    ] {
        let cpu = work.cpu - idle * work.seconds;
        for (measure, value) in [
            ("commands sent to Redis per heartbeat", sent / beats),
            ("commands run by Redis per heartbeat", work.commands / beats),
            ("Redis CPU per heartbeat, above idle, µs", cpu * 1e6 / beats),
        ] {
            bench.note(who, measure, value);
        }
    }
    Ok(())
}
