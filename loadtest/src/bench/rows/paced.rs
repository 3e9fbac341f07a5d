//! What a heartbeat costs at an ordinary pace, for the server and for Redis.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::bench::figures::{Figures, Who};
use crate::bench::generator::Generator;
use crate::bench::generator::order::{Crowd, Enter, Order};
use crate::bench::servers::{Gateway, Redis, Server};
use crate::bench::settings::Bench;

pub(super) const NAME: &str = "paced";
const LIVES: usize = 10;
const EVERY_S: f64 = 5.0;
/// After this time the joins are flushed and the other gateways know of them.
const SETTLED: Duration = Duration::from_secs(3);

/// What Redis and the gateway have done so far.
struct Reading {
    redis_cpu: f64,
    commands: crate::redis_stats::CommandCounts,
    sent: f64,
    heartbeats: f64,
}

impl Reading {
    async fn take(redis: &Redis, gateway: Option<&Gateway>) -> anyhow::Result<Self> {
        let (sent, heartbeats) = match gateway {
            Some(gateway) => (
                gateway.metric("rollcall_store_calls_total").await?,
                gateway.metric("rollcall_heartbeats_total").await?,
            ),
            None => (0.0, 0.0),
        };
        Ok(Self {
            redis_cpu: redis.server.cpu()?,
            commands: redis.commands().await?,
            sent,
            heartbeats,
        })
    }
}

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let sockets = bench.pick(10_000, 100);
    let (every_s, seconds) = bench.pick((EVERY_S, 10.0), (0.2, 0.3));
    let ours = Redis::start().await?;
    let theirs = Redis::start().await?;
    // The CPU time of an idle Redis is no cost of heartbeats.
    let idle_redis = ours
        .idle(bench.pick(Duration::from_secs(10), Duration::from_millis(300)))
        .await?;
    figures.note(
        NAME,
        Who::Rollcall,
        ("Redis CPU with nobody there", "cores"),
        idle_redis,
    );
    for redis in [&ours, &theirs] {
        redis.follow(sockets, LIVES).await?;
    }
    let gateway = bench
        .programs
        .gateway_with(&ours, bench.secret(), &[])
        .await?;
    let bare = bench.programs.bare().await?;
    let naive = bench.programs.naive(&theirs).await?;
    gateway.open(LIVES, None).await?;
    let servers: [(Who, &Server); 3] = [
        (Who::Rollcall, &gateway.server),
        (Who::Bare, &bare),
        (Who::Naive, &naive),
    ];
    let mut generators = Vec::new();
    for (block, (who, server)) in servers.iter().enumerate() {
        let mut generator = Generator::start()?;
        let crowd = Crowd::new(server.addr, sockets, Enter::of(*who), 10 + block as u8);
        let secret = bench
            .secret()
            .filter(|_| *who == Who::Rollcall)
            .map(Path::to_owned);
        generator
            .carry_out(&Order::Connect(Crowd {
                lives: LIVES,
                secret,
                ..crowd
            }))
            .await?;
        generators.push(generator);
    }
    tokio::time::sleep(bench.pick(SETTLED, Duration::from_millis(300))).await;

    // A round without measurement comes first: the server pings sockets that rested until now, and
    // sockets at an ordinary pace get no pings.
    let warm_up = Order::Pace {
        every_s,
        seconds: every_s,
    };
    let pace = Order::Pace { every_s, seconds };
    let our_start = Reading::take(&ours, Some(&gateway)).await?;
    let began = Instant::now();
    let mut naive_cpu = 0.0;
    let mut naive_commands = 0.0;
    let mut naive_beats = 0.0;
    for round in 0..bench.rounds {
        for step in 0..servers.len() {
            let turn = (round + step) % servers.len();
            let (who, server) = servers[turn];
            generators[turn].carry_out(&warm_up).await?;
            let theirs_before = Reading::take(&theirs, None).await?;
            let before = server.cpu()?;
            let outcome = generators[turn].carry_out(&pace).await?;
            let cpu = server.cpu()? - before;
            let answered = outcome.answered as f64;
            figures.note(
                NAME,
                who,
                ("server CPU per heartbeat", "µs"),
                cpu * 1e6 / answered,
            );
            figures.note(
                NAME,
                who,
                ("ack latency p99", "ms"),
                outcome.latency.at(0.99) as f64 / 1e3,
            );
            if who == Who::Naive {
                let after = Reading::take(&theirs, None).await?;
                naive_cpu +=
                    after.redis_cpu - theirs_before.redis_cpu - idle_redis * outcome.seconds;
                naive_commands += after.commands.total_since(&theirs_before.commands);
                naive_beats += answered;
            }
        }
    }
    // Rollcall's work in Redis does not come with the heartbeats, so the figures of one short
    // window would depend on luck. They are taken over all rounds; viewers that rest answer pings
    // all that time.
    let our_end = Reading::take(&ours, Some(&gateway)).await?;
    let beats = our_end.heartbeats - our_start.heartbeats;
    let sent = ("commands sent to Redis per heartbeat", "");
    let executed = ("commands run by Redis per heartbeat", "");
    let redis_cpu = ("Redis CPU per heartbeat, above idle", "µs");
    figures.note(
        NAME,
        Who::Rollcall,
        sent,
        (our_end.sent - our_start.sent) / beats,
    );
    figures.note(NAME, Who::Naive, sent, naive_commands / naive_beats);
    figures.note(
        NAME,
        Who::Rollcall,
        executed,
        our_end.commands.total_since(&our_start.commands) / beats,
    );
    figures.note(NAME, Who::Naive, executed, naive_commands / naive_beats);
    let our_cpu =
        our_end.redis_cpu - our_start.redis_cpu - idle_redis * began.elapsed().as_secs_f64();
    figures.note(NAME, Who::Rollcall, redis_cpu, our_cpu * 1e6 / beats);
    figures.note(NAME, Who::Naive, redis_cpu, naive_cpu * 1e6 / naive_beats);
    Ok(())
}
