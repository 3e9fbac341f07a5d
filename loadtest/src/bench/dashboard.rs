//! A dashboard that keeps every count it is shown, with the time, for rows that measure when counts
//! arrive.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::bail;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::generator::order::live;
use crate::client::{self, Failure, WebSocket};
use crate::dashboard::{Dashboard, DashboardCounts, Update};
use crate::tally::unix_micros;
use crate::target::Target;

const DEADLINE: Duration = Duration::from_secs(30);

/// Counts, and when they came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimedCounts {
    /// Unix microseconds.
    pub(crate) at: u64,
    pub(crate) viewers: u64,
    pub(crate) fans: u64,
}

/// A dashboard of one live; it closes when this is dropped.
pub(crate) struct DashboardLog {
    shown: UnboundedReceiver<TimedCounts>,
    now: Option<TimedCounts>,
    /// What came since [`DashboardLog::take`].
    since: Vec<TimedCounts>,
    _reader: AbortOnDropHandle<()>,
}

/// A socket to a gateway.
pub(crate) async fn socket(server: SocketAddr, query: &str) -> anyhow::Result<WebSocket> {
    client::connect(&Target::gateway(server), None, query, DEADLINE)
        .await
        .map_err(failed)
}

pub(crate) async fn send(socket: &mut WebSocket, text: String) -> anyhow::Result<()> {
    client::send(socket, text).await.map_err(failed)
}

fn failed(failure: Failure) -> anyhow::Error {
    anyhow::Error::new(failure).context("a socket to the gateway")
}

impl DashboardLog {
    pub(crate) async fn open(server: SocketAddr, live_number: usize) -> anyhow::Result<Self> {
        let mut dashboard = Dashboard::connect(&Target::gateway(server), "dashboard", DEADLINE)
            .await
            .map_err(failed)?;
        dashboard.watch(&live(live_number)).await.map_err(failed)?;
        let (to_log, shown) = unbounded_channel();
        let reader = tokio::spawn(async move {
            while let Ok(update) = dashboard.next().await {
                let Update::Counts(DashboardCounts { viewers, fans, .. }) = update else {
                    continue;
                };
                let shown = TimedCounts {
                    at: unix_micros(),
                    viewers: viewers.max(0) as u64,
                    fans: fans.max(0) as u64,
                };
                if to_log.send(shown).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            shown,
            now: None,
            since: Vec::new(),
            _reader: AbortOnDropHandle::new(reader),
        })
    }

    /// Everything shown since the last call.
    pub(crate) fn take(&mut self) -> Vec<TimedCounts> {
        while let Ok(shown) = self.shown.try_recv() {
            self.keep(shown);
        }
        std::mem::take(&mut self.since)
    }

    /// Waits until the dashboard shows these counts; returns since when, in Unix microseconds.
    pub(crate) async fn shows(&mut self, viewers: u64, fans: u64) -> anyhow::Result<u64> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            while let Ok(shown) = self.shown.try_recv() {
                self.keep(shown);
            }
            let now = self.now;
            if let Some(now) = now.filter(|now| now.viewers == viewers && now.fans == fans) {
                return Ok(now.at);
            }
            match timeout_at(deadline, self.shown.recv()).await {
                Ok(Some(shown)) => self.keep(shown),
                _ => bail!("a dashboard shows {now:?}, not {viewers} viewers, {fans} fans"),
            }
        }
    }

    fn keep(&mut self, shown: TimedCounts) {
        self.now = Some(shown);
        self.since.push(shown);
    }
}
