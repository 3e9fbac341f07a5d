//! Looks at every gateway and at Redis: memory, open files, tasks and sockets from `/metrics`, keys
//! with SCAN.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use fred::clients::Client;
use fred::interfaces::{ClientLike, KeysInterface};
use fred::types::{ClusterHash, CustomCommand, InfoKind};
use futures_util::future::try_join_all;
use reqwest::StatusCode;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::keys::counted;
use crate::api::http_client;
use crate::bench::servers::metric_in;
use crate::chaos::reader::client_of;

const DEADLINE: Duration = Duration::from_secs(10);
const PAGE: &str = "1000";
/// A gateway is at rest when its figures have stayed the same for so long.
const CALM: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(250);

/// A gateway at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct GatewayFigures {
    pub(super) rss_bytes: u64,
    pub(super) open_files: u64,
    pub(super) tasks: u64,
    pub(super) sockets: u64,
    pub(super) members: u64,
    pub(super) lives: u64,
}

impl GatewayFigures {
    /// Whether nobody is connected and nothing is held.
    fn is_empty(&self) -> bool {
        (self.sockets, self.members, self.lives) == (0, 0, 0)
    }

    /// All but the memory, which is never at rest.
    fn at_rest(&self) -> Self {
        Self {
            rss_bytes: 0,
            ..*self
        }
    }
}

/// All gateways and Redis at one moment.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Sample {
    /// Since the run began.
    pub(super) seconds: f64,
    pub(super) gateways: Vec<GatewayFigures>,
    pub(super) redis_bytes: u64,
    /// By kind.
    pub(super) keys: BTreeMap<String, u64>,
}

pub(super) struct Sampler {
    http: reqwest::Client,
    redis: Client,
    gateways: Vec<SocketAddr>,
    began: Instant,
}

impl Sampler {
    pub(super) async fn connect(
        gateways: Vec<SocketAddr>,
        redis: SocketAddr,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            http: http_client(DEADLINE)?,
            redis: client_of(redis).await?,
            gateways,
            began: Instant::now(),
        })
    }

    pub(super) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    pub(super) async fn sample(&self) -> anyhow::Result<Sample> {
        let gateways = self.gateways().await?;
        let keys = self.keys().await?;
        let memory: String = self.redis.info(Some(InfoKind::Memory)).await?;
        let bytes = memory
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok());
        Ok(Sample {
            seconds: self.seconds(),
            gateways,
            redis_bytes: bytes.context("Redis does not tell its memory")?,
            keys: counted(&keys),
        })
    }

    pub(super) async fn gateways(&self) -> anyhow::Result<Vec<GatewayFigures>> {
        try_join_all(self.gateways.iter().map(|gateway| self.figures(*gateway))).await
    }

    /// Waits until nobody is connected and the figures stay the same, or the time is over; returns
    /// the last figures. With `down_to`, they may not be above these, either.
    pub(super) async fn rest(
        &self,
        within: Duration,
        down_to: Option<&[GatewayFigures]>,
    ) -> anyhow::Result<Vec<GatewayFigures>> {
        let deadline = Instant::now() + within;
        let mut last = Vec::new();
        let mut since = Instant::now();
        loop {
            let now = self.gateways().await?;
            let figures: Vec<GatewayFigures> = now.iter().map(GatewayFigures::at_rest).collect();
            if figures != last {
                (last, since) = (figures, Instant::now());
            }
            let low = down_to.is_none_or(|most| is_down(&now, most));
            if Instant::now() > deadline
                || (low && since.elapsed() >= CALM && now.iter().all(GatewayFigures::is_empty))
            {
                return Ok(now);
            }
            sleep(LOOK).await;
        }
    }

    async fn figures(&self, gateway: SocketAddr) -> anyhow::Result<GatewayFigures> {
        let url = format!("http://{gateway}/metrics");
        let answer = match self.http.get(&url).send().await {
            // The connection was to a gateway that has restarted since.
            Err(error) if error.is_request() && !error.is_timeout() => {
                self.http.get(&url).send().await
            }
            answer => answer,
        };
        let answer = answer.context("/metrics")?;
        ensure!(
            answer.status() == StatusCode::OK,
            "/metrics of {gateway}: {}",
            answer.status()
        );
        let text = answer.text().await?;
        Ok(GatewayFigures {
            rss_bytes: figure(&text, "process_resident_memory_bytes")?,
            open_files: figure(&text, "process_open_fds")?,
            tasks: figure(&text, "rollcall_tasks")?,
            sockets: figure(&text, "rollcall_sockets")?,
            members: figure(&text, "rollcall_members")?,
            lives: figure(&text, "rollcall_lives")?,
        })
    }

    /// Every key. SCAN may name one twice.
    pub(super) async fn keys(&self) -> anyhow::Result<HashSet<String>> {
        let mut keys = HashSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let scan = CustomCommand::new_static("SCAN", ClusterHash::Random, false);
            let words = vec![cursor, "COUNT".to_owned(), PAGE.to_owned()];
            let (next, page): (String, Vec<String>) = self.redis.custom(scan, words).await?;
            keys.extend(page);
            if next == "0" {
                return Ok(keys);
            }
            cursor = next;
        }
    }

    /// How long Redis keeps a key; `None` if it keeps the key for good, zero if the key is gone.
    pub(super) async fn kept_for(&self, key: &str) -> anyhow::Result<Option<Duration>> {
        Ok(match self.redis.pttl::<i64, _>(key).await? {
            -1 => None,
            ms => Some(Duration::from_millis(ms.max(0) as u64)),
        })
    }
}

/// Whether files and tasks are back to what they were.
pub(super) fn is_down(now: &[GatewayFigures], most: &[GatewayFigures]) -> bool {
    now.iter()
        .zip(most)
        .all(|(now, most)| now.open_files <= most.open_files && now.tasks <= most.tasks)
}

/// A figure of the text of `/metrics`.
fn figure(text: &str, name: &str) -> anyhow::Result<u64> {
    metric_in(text, name)
        .map(|value| value as u64)
        .with_context(|| format!("no {name} in /metrics"))
}
