//! What the naive server's four calls per heartbeat cost Redis, without sockets or a server in
//! between. The viewers are inside this process and send heartbeats at their own pace.
//!
//! The measurement favours the naive server: all members and keys exist before the first heartbeat,
//! the calls of many viewers share each connection without waiting, and a machine that cannot send
//! all due heartbeats sends them as fast as Redis answers, which is when one call is cheapest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::ensure;
use fred::clients::Pool;
use fred::interfaces::{KeysInterface, SetsInterface};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::LocalCrowd;
use crate::bench::generator::order::{live, streamer, user};
use crate::bench::naive::{self, NaiveViewer};
use crate::bench::servers::Redis;

/// Viewers that wait for Redis at one time, over all connections.
const AT_ONCE: usize = 1_000;
const FILLED_AT_ONCE: usize = 64;
/// The sets must live until their first heartbeat.
const FILLED_FOR_S: i64 = 600;

/// What heartbeats cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct BeatCost {
    /// Microseconds of Redis's CPU time per heartbeat, above idle.
    pub(super) redis_cpu: f64,
    /// Answered heartbeats per second.
    pub(super) per_second: f64,
}

/// Fills a Redis of its own, then sends heartbeats and measures them over `span`.
pub(super) async fn measure(crowd: LocalCrowd, span: Duration) -> anyhow::Result<BeatCost> {
    let redis = Redis::start().await?;
    redis.follow(crowd.viewers, crowd.lives).await?;
    fill(&redis, crowd).await?;
    let idle = redis.idle(span / 4).await?;
    let beats = Arc::new(Beats {
        crowd,
        began: Instant::now(),
        next: AtomicU64::new(0),
        answered: AtomicU64::new(0),
    });
    let pool = naive::connect(redis.server.addr).await?;
    let mut viewers = JoinSet::new();
    for _ in 0..AT_ONCE {
        viewers.spawn(beats.clone().send(pool.clone()));
    }
    // The first rounds of calls are not measured.
    tokio::time::sleep(span / 8).await;
    let begun = redis.read().await?;
    let answered = beats.answered.load(Ordering::Relaxed);
    tokio::time::sleep(span).await;
    let work = redis.since(&begun).await?;
    let answered = beats.answered.load(Ordering::Relaxed) - answered;
    if let Some(ended) = viewers.try_join_next() {
        ended??;
    }
    ensure!(answered > 0, "no heartbeat was answered in {span:?}");
    Ok(BeatCost {
        redis_cpu: (work.cpu - idle * work.seconds) * 1e6 / answered as f64,
        per_second: answered as f64 / work.seconds,
    })
}

/// Makes every viewer a member, as a round of heartbeats would.
async fn fill(redis: &Redis, crowd: LocalCrowd) -> anyhow::Result<()> {
    let client = &redis.client;
    let lives = crowd.lives.min(crowd.viewers);
    let fills = (0..lives).map(|number| async move {
        let key = format!("online-fans:{}", live(number));
        let members: Vec<String> = (number..crowd.viewers)
            .step_by(crowd.lives)
            .map(user)
            .collect();
        client.sadd::<(), _, _>(&key, members).await?;
        client.expire::<(), _>(&key, FILLED_FOR_S, None).await
    });
    stream::iter(fills)
        .buffer_unordered(FILLED_AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

/// The heartbeats of a crowd, one after the other, each when it is due. All senders share the
/// sequence.
struct Beats {
    crowd: LocalCrowd,
    began: Instant,
    next: AtomicU64,
    answered: AtomicU64,
}

impl Beats {
    async fn send(self: Arc<Self>, redis: Pool) -> anyhow::Result<()> {
        let LocalCrowd {
            viewers,
            lives,
            every,
            ..
        } = self.crowd;
        loop {
            let beat = self.next.fetch_add(1, Ordering::Relaxed);
            let due = self.began + every.mul_f64(beat as f64 / viewers as f64);
            tokio::time::sleep_until(due).await;
            let number = (beat % viewers as u64) as usize;
            let live_number = number % lives;
            let viewer = NaiveViewer::new(user(number), &live(live_number), &streamer(live_number));
            let heard = viewer.heartbeat(&redis).await?;
            ensure!(heard.fan && heard.fans > 0, "{} is no fan", user(number));
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }
}
