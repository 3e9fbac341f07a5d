//! Looks at how many are counted, all the time: what the other gateway answers over HTTP, and what
//! the sets in Redis have, past all gateways.

use std::time::Duration;

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use reqwest::Method;
use serde::Deserialize;
use tokio::time::Instant;

use super::report::Takeover;
use crate::bench::generator::order::live;
use crate::bench::servers::{BenchGateway, Redis, metric_in};
use crate::redis_stats::InlineClient;
use crate::target::Target;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// What the gateway says of a live.
#[derive(Deserialize)]
struct WatchedLive {
    viewers: u64,
    fans: u64,
}

/// What was seen at one moment, over all lives.
struct SeenTotals {
    viewers: u64,
    fans: u64,
    /// Fans in the sets of Redis.
    in_redis: u64,
    /// Sessions on the other gateway.
    here: u64,
}

pub(super) struct Watch<'a> {
    redis: InlineClient,
    gateway: &'a BenchGateway,
    lives: usize,
    sessions: u64,
    began: Instant,
    seen: Takeover,
}

impl<'a> Watch<'a> {
    pub(super) async fn new(
        redis: &Redis,
        gateway: &'a BenchGateway,
        lives: usize,
        sessions: usize,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            redis: InlineClient::connect(&Target::plain(redis.server.addr)).await?,
            gateway,
            lives,
            sessions: sessions as u64,
            began: Instant::now(),
            seen: Takeover::default(),
        })
    }

    pub(super) async fn until_all_are_counted(&mut self, within: Duration) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let seen = self.look().await?;
            if seen.counts_all(self.sessions) {
                return Ok(());
            }
            ensure!(
                began.elapsed() < within,
                "{} of {} are counted after {within:?}",
                seen.viewers,
                self.sessions
            );
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// From now on what is seen is kept.
    pub(super) fn begin(&mut self) {
        self.began = Instant::now();
        self.seen = Takeover {
            sessions: self.sessions,
            lowest: self.sessions,
            lowest_in_redis: self.sessions,
            ..Takeover::default()
        };
    }

    pub(super) async fn for_time(&mut self, time: Duration) -> anyhow::Result<()> {
        while self.began.elapsed() < time {
            let seen = self.look().await?;
            let at_ms = self.began.elapsed().as_secs_f64() * 1e3;
            self.note(&seen, at_ms);
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    pub(super) fn seen(self) -> Takeover {
        self.seen
    }

    fn note(&mut self, seen: &SeenTotals, at_ms: f64) {
        let report = &mut self.seen;
        report.looks += 1;
        report.lowest = report.lowest.min(seen.viewers).min(seen.fans);
        report.highest = report.highest.max(seen.viewers).max(seen.fans);
        report.lowest_in_redis = report.lowest_in_redis.min(seen.in_redis);
        report.highest_in_redis = report.highest_in_redis.max(seen.in_redis);
        let all_here = seen.here == self.sessions;
        if all_here && report.here_ms.is_none() {
            report.here_ms = Some(at_ms);
        }
        // It counts from when it stays so.
        if !all_here || !seen.counts_all(self.sessions) {
            report.counted_ms = None;
        } else if report.counted_ms.is_none() {
            report.counted_ms = Some(at_ms);
        }
    }

    async fn look(&mut self) -> anyhow::Result<SeenTotals> {
        let gateway = self.gateway;
        let asked = (0..self.lives).map(|number| async move {
            let path = format!("/v1/lives/{}", live(number));
            let text = gateway.call(Method::GET, &path, None).await?;
            serde_json::from_str::<WatchedLive>(&text).with_context(|| path)
        });
        let mut seen = SeenTotals {
            viewers: 0,
            fans: 0,
            in_redis: 0,
            here: 0,
        };
        for live in try_join_all(asked).await? {
            seen.viewers += live.viewers;
            seen.fans += live.fans;
        }
        for number in 0..self.lives {
            let size = self
                .redis
                .ask(&format!("SCARD online-fans:{}", live(number)))
                .await?;
            seen.in_redis += size.parse::<u64>().context("the size of a set")?;
        }
        let metrics = gateway.call(Method::GET, "/metrics", None).await?;
        let here = metric_in(&metrics, "rollcall_presences").context("no rollcall_presences")?;
        seen.here = here as u64;
        Ok(seen)
    }
}

impl SeenTotals {
    fn counts_all(&self, sessions: u64) -> bool {
        self.viewers == sessions && self.fans == sessions && self.in_redis == sessions
    }
}
