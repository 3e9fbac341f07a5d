//! What the naive server's four calls per heartbeat cost Redis, without sockets or a server in
//! between. The viewers are inside this process and send heartbeats at their own pace.
//!
//! The measurement favours the naive server: all members and keys exist before the first heartbeat,
//! the calls of many viewers share each connection without waiting, and a machine that cannot send
//! all due heartbeats sends them as fast as Redis answers, which is when one call is cheapest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fred::clients::Pool;
use fred::interfaces::{KeysInterface, SetsInterface};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::Crowd;
use crate::bench::generator::order::{live, streamer, user};
use crate::bench::naive::{self, Viewer};
use crate::bench::servers::Redis;

/// Viewers that wait for Redis at one time, over all connections.
const AT_ONCE: usize = 1_000;
const FILLED_AT_ONCE: usize = 64;
/// The sets must live until their first heartbeat.
const FILLED_FOR_S: i64 = 600;

/// What heartbeats cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Microseconds of Redis's CPU time per heartbeat, above idle.
    pub(super) redis_cpu: f64,
    /// Answered heartbeats per second.
    pub(super) per_second: f64,
}

/// Fills a Redis of its own, then sends heartbeats and measures them over `span`.
pub(super) async fn measure(crowd: Crowd, span: Duration) -> anyhow::Result<Cost> {
    let redis = Redis::start().await?;
    redis.follow(crowd.viewers, crowd.lives).await?;
    fill(&redis, crowd).await?;
    let idle = redis.idle(span / 4).await?;
    let heartbeats = Heartbeats::start(crowd, &naive::connect(redis.server.addr).await?);
    // The first rounds of calls are not measured.
    tokio::time::sleep(span / 8).await;
    let cpu = redis.server.cpu()?;
    let answered = heartbeats.answered();
    let began = Instant::now();
    tokio::time::sleep(span).await;
    let seconds = began.elapsed().as_secs_f64();
    let answered = (heartbeats.answered() - answered) as f64;
    let cpu = redis.server.cpu()? - cpu - idle * seconds;
    heartbeats.end().await?;
    ensure!(answered > 0.0, "no heartbeat was answered in {span:?}");
    Ok(Cost {
        redis_cpu: cpu * 1e6 / answered,
        per_second: answered / seconds,
    })
}

/// Makes every viewer a member, as a round of heartbeats would.
async fn fill(redis: &Redis, crowd: Crowd) -> anyhow::Result<()> {
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

/// Sends the heartbeats of a crowd until it is dropped.
struct Heartbeats {
    shared: Arc<Shared>,
    workers: Vec<tokio::task::JoinHandle<anyhow::Result<()>>>,
}

struct Shared {
    crowd: Crowd,
    began: tokio::time::Instant,
    next: AtomicU64,
    answered: AtomicU64,
    stop: AtomicBool,
}

impl Heartbeats {
    fn start(crowd: Crowd, redis: &Pool) -> Self {
        let shared = Arc::new(Shared {
            crowd,
            began: tokio::time::Instant::now(),
            next: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        Self {
            workers: (0..AT_ONCE)
                .map(|_| tokio::spawn(shared.clone().work(redis.clone())))
                .collect(),
            shared,
        }
    }

    fn answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    async fn end(mut self) -> anyhow::Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for worker in self.workers.drain(..) {
            worker.await.context("a viewer's task")??;
        }
        Ok(())
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.workers.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Shared {
    /// Sends one heartbeat after the other, each when it is due. The workers share one sequence.
    async fn work(self: Arc<Self>, redis: Pool) -> anyhow::Result<()> {
        let Crowd {
            viewers,
            lives,
            every,
            ..
        } = self.crowd;
        while !self.stop.load(Ordering::Relaxed) {
            let beat = self.next.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep_until(self.began + every.mul_f64(beat as f64 / viewers as f64))
                .await;
            let number = (beat % viewers as u64) as usize;
            let viewer = Viewer::new(
                user(number),
                &live(number % lives),
                &streamer(number % lives),
            );
            let heard = viewer.heartbeat(&redis).await?;
            ensure!(heard.fan && heard.fans > 0, "{} is no fan", user(number));
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}
