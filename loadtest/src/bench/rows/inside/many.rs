//! A hundred thousand small lives, all their viewers fans: there leases and words, not members, are Redis's work.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::Inside;
use crate::bench::Bench;
use crate::bench::figures::{Figures, Who};
use crate::bench::pump::Pump;
use crate::bench::pump::order::{Crowd, Enter, Order};
use crate::bench::stage::Redis;

pub(in crate::bench::rows) const NAME: &str = "small-lives";
const OPENED_AT_ONCE: usize = 64;
/// A room that nobody uses is let go after 30 s; who joins then makes the gateway read four keys of the live again, and
/// more than some thousand calls at once are refused.
const JOINING_AT_ONCE: u64 = 200;
const NAIVE_SOCKETS: usize = 200;

pub(in crate::bench::rows) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let viewers = bench.lives * bench.per_live;
    let every = bench.pick(Duration::from_secs(5), Duration::from_secs(1));
    let redis = Redis::start().await?;
    redis.follow(viewers, bench.lives).await?;
    let mut inside = Inside::start(&redis, every, bench.lives).await?;
    let open = (0..bench.lives).map(|number| inside.open(number, None));
    stream::iter(open).buffer_unordered(OPENED_AT_ONCE).try_collect::<Vec<()>>().await?;
    inside.make_wires(viewers);
    let clients = inside.beat(every);
    let took = inside.join(JOINING_AT_ONCE).await?;
    figures.note(NAME, Who::Rollcall, ("viewers", ""), viewers as f64);
    figures.note(NAME, Who::Rollcall, ("joins", "1/s"), viewers as f64 / took.as_secs_f64());

    // Joins are flushed, first leases renewed.
    tokio::time::sleep(every * 14).await;
    let (cpu, commands, began) = (redis.server.cpu()?, redis.commands().await?, Instant::now());
    let acks = inside.heard.acks.load(std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(every * 4).await;
    let seconds = began.elapsed().as_secs_f64();
    let beats = (inside.heard.acks.load(std::sync::atomic::Ordering::Relaxed) - acks) as f64 / seconds;
    let cores = (redis.server.cpu()? - cpu) / seconds;
    let executed: u64 = redis.commands().await?.since(&commands).values().sum();
    drop(clients);
    figures.note(NAME, Who::Rollcall, ("heartbeats", "1/s"), beats);
    figures.note(NAME, Who::Rollcall, ("Redis CPU at a heartbeat each 5 s", "cores"), cores);
    figures.note(NAME, Who::Rollcall, ("commands run by Redis", "1/s"), executed as f64 / seconds);
    let in_time = beats / (viewers as f64 / every.as_secs_f64());
    figures.note(NAME, Who::Rollcall, ("heartbeats answered, of those due", ""), in_time);
    inside.end().await;
    drop(redis);

    // More than one Redis can do: what it would take, from what one heartbeat takes it under full load, where it is
    // cheapest.
    let naive = naive_redis_cpu(bench).await?;
    let due = viewers as f64 / every.as_secs_f64();
    figures.note(NAME, Who::Naive, ("Redis CPU per heartbeat", "µs"), naive);
    figures.note(NAME, Who::Naive, ("Redis CPU at a heartbeat each 5 s", "cores"), naive * due / 1e6);
    Ok(())
}

/// Microseconds of Redis's time for one heartbeat of the naive server, in the closed loop.
async fn naive_redis_cpu(bench: &Bench) -> anyhow::Result<f64> {
    let redis = Redis::start().await?;
    redis.follow(NAIVE_SOCKETS, NAIVE_SOCKETS / 10).await?;
    let naive = bench.programs.naive(&redis).await?;
    let mut pump = Pump::start()?;
    let crowd = Crowd {
        server: naive.addr,
        first: 0,
        count: NAIVE_SOCKETS,
        lives: NAIVE_SOCKETS / 10,
        enter: Enter::Joined,
        per_second: None,
        in_flight: 64,
        block: 190,
    };
    pump.carry_out(&Order::Connect(crowd)).await?;
    let before = redis.server.cpu()?;
    let outcome = pump.carry_out(&Order::Loop { seconds: bench.pick(3.0, 0.3) }).await?;
    Ok((redis.server.cpu()? - before) * 1e6 / outcome.answered as f64)
}
