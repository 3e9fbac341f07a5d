//! A dashboard: a socket that watches one live and writes down what it is shown, and when.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

use super::pump::order::live;
use crate::tally::unix_micros;

const DEADLINE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(1);

/// Counts as they came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    /// Unix microseconds.
    pub(crate) at: u64,
    pub(crate) viewers: u64,
    pub(crate) fans: u64,
}

#[derive(Deserialize)]
struct Counts {
    viewers: u64,
    fans: u64,
}

/// What stands there now, and what came since it was asked last.
#[derive(Default)]
struct View {
    now: Option<Shown>,
    since: Vec<Shown>,
}

/// A dashboard of one live; it closes when this is dropped.
pub(crate) struct Dashboard {
    shown: Arc<Mutex<View>>,
    reader: JoinHandle<()>,
}

/// A socket to a gateway.
pub(crate) async fn socket(server: SocketAddr, query: &str) -> anyhow::Result<WebSocketStream<TcpStream>> {
    let stream = TcpStream::connect(server).await.context("a socket to the gateway")?;
    stream.set_nodelay(true)?;
    let (socket, _) = client_async(format!("ws://{server}/ws?{query}"), stream).await.context("an upgrade")?;
    Ok(socket)
}

impl Dashboard {
    pub(crate) async fn open(server: SocketAddr, live_number: usize) -> anyhow::Result<Self> {
        let mut socket = socket(server, "user_id=dashboard&role=service").await?;
        let watch = format!(r#"{{"type":"watch","live_id":"{}"}}"#, live(live_number));
        socket.send(Message::text(watch)).await?;
        let shown = Arc::new(Mutex::new(View::default()));
        let kept = shown.clone();
        let reader = tokio::spawn(async move {
            while let Some(Ok(message)) = socket.next().await {
                let Message::Text(text) = message else { continue };
                if let Ok(Counts { viewers, fans }) = serde_json::from_str(&text) {
                    let shown = Shown { at: unix_micros(), viewers, fans };
                    let mut view = lock(&kept);
                    view.now = Some(shown);
                    view.since.push(shown);
                }
            }
        });
        Ok(Self { shown, reader })
    }

    /// Everything shown since this was asked last.
    pub(crate) fn take(&self) -> Vec<Shown> {
        std::mem::take(&mut lock(&self.shown).since)
    }

    /// Waits until this is what is shown; answers since when, in Unix microseconds.
    pub(crate) async fn shows(&self, viewers: u64, fans: u64) -> anyhow::Result<u64> {
        let began = Instant::now();
        loop {
            let last = lock(&self.shown).now;
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

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
