//! A dashboard that keeps every count it is shown, with the time, for rows that measure when counts
//! arrive.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::generator::order::live;
use crate::client::{self, Failure, Socket};
use crate::dashboard::{Counts, Dashboard, Update};
use crate::tally::unix_micros;
use crate::target::Target;

const DEADLINE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(1);

/// Counts, and when they came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    /// Unix microseconds.
    pub(crate) at: u64,
    pub(crate) viewers: u64,
    pub(crate) fans: u64,
}

#[derive(Default)]
struct View {
    now: Option<Shown>,
    /// What came since [`DashboardLog::take`].
    since: Vec<Shown>,
}

/// A dashboard of one live; it closes when this is dropped.
pub(crate) struct DashboardLog {
    view: Arc<Mutex<View>>,
    reader: JoinHandle<()>,
}

/// A socket to a gateway.
pub(crate) async fn socket(server: SocketAddr, query: &str) -> anyhow::Result<Socket> {
    client::connect(&Target::gateway(server), None, query, DEADLINE)
        .await
        .map_err(failed)
}

pub(crate) async fn send(socket: &mut Socket, text: String) -> anyhow::Result<()> {
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
        let view = Arc::new(Mutex::new(View::default()));
        let kept = view.clone();
        let reader = tokio::spawn(async move {
            while let Ok(update) = dashboard.next().await {
                let Update::Counts(Counts { viewers, fans, .. }) = update else {
                    continue;
                };
                let shown = Shown {
                    at: unix_micros(),
                    viewers: viewers.max(0) as u64,
                    fans: fans.max(0) as u64,
                };
                let mut view = lock(&kept);
                view.now = Some(shown);
                view.since.push(shown);
            }
        });
        Ok(Self { view, reader })
    }

    /// Everything shown since the last call.
    pub(crate) fn take(&self) -> Vec<Shown> {
        std::mem::take(&mut lock(&self.view).since)
    }

    /// Waits until the dashboard shows these counts; returns since when, in Unix microseconds.
    pub(crate) async fn shows(&self, viewers: u64, fans: u64) -> anyhow::Result<u64> {
        let began = Instant::now();
        loop {
            let last = lock(&self.view).now;
            if let Some(last) = last.filter(|last| last.viewers == viewers && last.fans == fans) {
                return Ok(last.at);
            }
            anyhow::ensure!(
                began.elapsed() < DEADLINE,
                "a dashboard shows {last:?}, not {viewers} viewers, {fans} fans"
            );
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Drop for DashboardLog {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
