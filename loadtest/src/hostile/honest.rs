//! The honest ones beside the hostile: a crowd that stays and sends heartbeats, newcomers who join,
//! and somebody who looks into Redis whether every fan of the crowd is there.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{SetsInterface, SortedSetsInterface};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, sleep, timeout};

use crate::client::{self, Failure};
use crate::plan::CrowdPlan;
use crate::tally::Latencies;
use crate::target::Target;

pub(super) const LIVES: usize = 10;

/// A reading of all sets, and a newcomer.
const READ_EVERY: Duration = Duration::from_millis(200);
const COME_AGAIN_AFTER: Duration = Duration::from_millis(500);
const NEWCOMER_EVERY: Duration = Duration::from_millis(500);

/// A newcomer who is not in by then was kept out.
const NEWCOMER_WAITS: Duration = Duration::from_secs(20);

/// Writes who follows whom, as a platform would; `also` follows every streamer.
pub(super) async fn follow(redis: &Client, plan: &CrowdPlan, also: &str) -> anyhow::Result<()> {
    for (live, fans) in (0..).zip(plan.fan_ids()) {
        let followers: Vec<(f64, String)> = fans
            .into_iter()
            .chain([also.to_owned()])
            .map(|fan| (1.0, fan))
            .collect();
        let key = format!("followers:{}", plan.streamer_id(live));
        redis
            .zadd::<(), _, _>(key, None, None, false, false, followers)
            .await?;
    }
    Ok(())
}

/// What was seen beside an attack.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct HonestView {
    /// How often all sets were read.
    pub(super) readings: u64,
    /// Maximum fans that were missing at the same time.
    pub(super) missing_fans: usize,
    /// The most members who are no fans of the crowd.
    pub(super) strangers: usize,
    /// How often Redis did not answer.
    pub(super) unread: u64,
    pub(super) newcomers: u64,
    pub(super) newcomers_kept_out: u64,
    pub(super) slowest_newcomer_ms: u64,
}

impl HonestView {
    /// The worst of this and of what was seen before.
    pub(super) fn after(&self, earlier: &Self) -> Self {
        Self {
            readings: self.readings + earlier.readings,
            missing_fans: self.missing_fans.max(earlier.missing_fans),
            strangers: self.strangers.max(earlier.strangers),
            unread: self.unread + earlier.unread,
            newcomers: self.newcomers + earlier.newcomers,
            newcomers_kept_out: self.newcomers_kept_out + earlier.newcomers_kept_out,
            slowest_newcomer_ms: self.slowest_newcomer_ms.max(earlier.slowest_newcomer_ms),
        }
    }
}

/// Looks on until it is dropped.
pub(super) struct Observer {
    seen: Arc<Mutex<HonestView>>,
    tasks: [JoinHandle<()>; 2],
}

impl Observer {
    pub(super) fn start(redis: Client, plan: &CrowdPlan) -> Self {
        let seen = Arc::new(Mutex::new(HonestView::default()));
        let fans = (0..)
            .zip(plan.fan_ids())
            .map(|(live, fans)| (format!("online-fans:{}", plan.live_id(live)), fans));
        let reader = tokio::spawn(read(redis, fans.collect(), seen.clone()));
        let newcomers = tokio::spawn(newcomers(
            plan.target.clone(),
            plan.live_id(0),
            seen.clone(),
        ));
        Self {
            seen,
            tasks: [reader, newcomers],
        }
    }

    /// What was seen since the last call.
    pub(super) fn take(&self) -> HonestView {
        note(&self.seen, std::mem::take)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn note<T>(seen: &Mutex<HonestView>, change: impl FnOnce(&mut HonestView) -> T) -> T {
    change(&mut seen.lock())
}

async fn read(redis: Client, fans: Vec<(String, HashSet<String>)>, seen: Arc<Mutex<HonestView>>) {
    let mut clock = interval(READ_EVERY);
    loop {
        clock.tick().await;
        let mut missing = 0;
        let mut strangers = 0;
        let mut unread = false;
        for (key, expected) in &fans {
            match redis.smembers::<HashSet<String>, _>(key).await {
                Ok(members) => {
                    missing += expected.difference(&members).count();
                    strangers += members.difference(expected).count();
                }
                Err(_) => unread = true,
            }
        }
        note(&seen, |seen| {
            seen.readings += 1;
            seen.unread += u64::from(unread);
            seen.missing_fans = seen.missing_fans.max(missing);
            seen.strangers = seen.strangers.max(strangers);
        });
    }
}

async fn newcomers(target: Target, live_id: String, seen: Arc<Mutex<HonestView>>) {
    let query = format!("user_id=newcomer&role=viewer&live_id={live_id}");
    loop {
        let began = Instant::now();
        // A viewer who is refused tries again, as every client does.
        let came = async {
            while visit(&target, &query).await.is_err() {
                sleep(COME_AGAIN_AFTER).await;
            }
        };
        let is_in = timeout(NEWCOMER_WAITS, came).await.is_ok();
        let took = began.elapsed();
        note(&seen, |seen| {
            seen.newcomers += 1;
            seen.newcomers_kept_out += u64::from(!is_in);
            seen.slowest_newcomer_ms = seen.slowest_newcomer_ms.max(took.as_millis() as u64);
        });
        sleep(NEWCOMER_EVERY.saturating_sub(took)).await;
    }
}

/// Joins the live and leaves.
async fn visit(target: &Target, query: &str) -> Result<(), Failure> {
    let mut socket = client::connect(target, None, query, NEWCOMER_WAITS).await?;
    client::until(&mut socket, "joined").await?;
    client::send_close(&mut socket).await
}

/// The 99th percentile, in ms.
pub(super) fn p99_ms(acks: &Latencies) -> f64 {
    acks.at(0.99) as f64 / 1e3
}
