//! A hundred thousand small lives, all their viewers fans: there leases and words, not members, are Redis's work. Its CPU is
//! told above what it takes with nothing to do, on both sides.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fred::interfaces::KeysInterface;
use futures_util::{StreamExt, TryStreamExt, stream};
use rollcall::gateway;

use super::four_calls::{self, Cost, Crowd};
use super::{Inside, config};
use crate::bench::Bench;
use crate::bench::figures::{Figures, Who};
use crate::bench::stage::Redis;

pub(in crate::bench::rows) const NAME: &str = "small-lives";
const OPENED_AT_ONCE: usize = 64;
/// More than some thousand calls at once are refused.
const JOINING_AT_ONCE: u64 = 200;

/// What Redis does while viewers do nothing but beat.
struct Work {
    beats: f64,
    cores: f64,
    commands: f64,
}

async fn measure(inside: &Inside, redis: &Redis, span: Duration) -> anyhow::Result<Work> {
    let acks = || inside.heard.acks.load(Ordering::Relaxed);
    let (cpu, commands, before, began) = (redis.server.cpu()?, redis.commands().await?, acks(), Instant::now());
    tokio::time::sleep(span).await;
    let seconds = began.elapsed().as_secs_f64();
    let (beats, cores) = ((acks() - before) as f64 / seconds, (redis.server.cpu()? - cpu) / seconds);
    let executed: u64 = redis.commands().await?.since(&commands).values().sum();
    Ok(Work { beats, cores, commands: executed as f64 / seconds })
}

pub(in crate::bench::rows) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let viewers = bench.lives * bench.per_live;
    let every = bench.pick(Duration::from_secs(5), Duration::from_secs(1));
    let redis = Redis::start().await?;
    // The four calls' CPU is told above this, too.
    let idle = four_calls::idle(&redis, every).await?;
    redis.follow(viewers, bench.lives).await?;
    let mut inside = Inside::start(&redis, every, bench.lives).await?;
    inside.make_wires(viewers);
    let clients = inside.beat(every);
    let began = Instant::now();
    let lives: Vec<usize> = (0..bench.lives).collect();
    for some in lives.chunks(OPENED_AT_ONCE) {
        let open = some.iter().map(|number| inside.open(*number, None));
        stream::iter(open).buffer_unordered(OPENED_AT_ONCE).try_collect::<Vec<()>>().await?;
        let users = (0..bench.per_live).flat_map(|round| some.iter().map(move |live| live + round * bench.lives));
        inside.join(users, JOINING_AT_ONCE, began).await?;
    }
    inside.all_joined(began).await?;
    let took = began.elapsed();
    figures.note(NAME, Who::Rollcall, ("viewers", ""), viewers as f64);
    figures.note(NAME, Who::Rollcall, ("joins", "1/s"), viewers as f64 / took.as_secs_f64());

    // Joins are flushed, first leases renewed.
    tokio::time::sleep(every * 14).await;
    let Work { beats, cores, commands } = measure(&inside, &redis, every * 4).await?;
    figures.note(NAME, Who::Rollcall, ("heartbeats", "1/s"), beats);
    figures.note(NAME, Who::Rollcall, ("Redis CPU at a heartbeat each 5 s", "cores"), cores - idle);
    figures.note(NAME, Who::Rollcall, ("commands run by Redis", "1/s"), commands);
    let in_time = beats / (viewers as f64 / every.as_secs_f64());
    figures.note(NAME, Who::Rollcall, ("heartbeats answered, of those due", ""), in_time);

    // One that nobody is on. It walks over all the lives, for none of them is on it.
    let beside = gateway::start(config(&redis, every)).await?;
    redis.client.set::<(), _, _>("rollcall:sweeper", beside.core().id.as_str(), None, None, false).await?;
    tokio::time::sleep(every * 6).await;
    let Work { cores, commands, .. } = measure(&inside, &redis, every * 12).await?;
    figures.note(NAME, Who::Rollcall, ("Redis CPU with a second gateway beside it", "cores"), cores - idle);
    figures.note(NAME, Who::Rollcall, ("commands run by Redis with a second gateway", "1/s"), commands);
    beside.stop().await;
    drop(clients);
    inside.end().await;
    drop(redis);

    let crowd = Crowd { viewers, lives: bench.lives, every };
    let Cost { redis_cpu, reached } = four_calls::measure(crowd, every * 4).await?;
    let due = viewers as f64 / every.as_secs_f64();
    figures.note(NAME, Who::Naive, ("heartbeats", "1/s"), reached);
    figures.note(NAME, Who::Naive, ("heartbeats answered, of those due", ""), reached / due);
    figures.note(NAME, Who::Naive, ("Redis CPU per heartbeat, above idle", "µs"), redis_cpu);
    // Of those due: what was measured, where all of them were sent.
    figures.note(NAME, Who::Naive, ("Redis CPU at a heartbeat each 5 s", "cores"), redis_cpu * due / 1e6);
    Ok(())
}
