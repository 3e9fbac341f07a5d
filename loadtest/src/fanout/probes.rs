//! What others notice while a status is brought to very many followers: a client that sends
//! heartbeats, one that joins, and one that pings Redis. Each does so again and again, and notes
//! how long it took.

use std::time::Duration;

use anyhow::{Context, anyhow};
use fred::clients::Client;
use fred::interfaces::ClientLike;
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::client::{Socket, connect, parse, receive, send, send_close};
use crate::target::Target;

/// The live that the probes join.
pub(super) const LIVE: &str = "probed";

const WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// Times in ms.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Times {
    pub(super) count: usize,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) most: f64,
}

impl Times {
    fn of(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        Self {
            count: all.len(),
            p50: time_at(&all, 0.5),
            p99: time_at(&all, 0.99),
            most: time_at(&all, 1.0),
        }
    }
}

/// The time at this share of the sorted times; 0 if there are none.
fn time_at(sorted: &[f64], share: f64) -> f64 {
    let place = ((sorted.len().max(1) - 1) as f64 * share) as usize;
    sorted.get(place).copied().unwrap_or(0.0)
}

/// What all three found.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Noticed {
    pub(super) joins: Times,
    pub(super) acks: Times,
    pub(super) pings: Times,
}

/// Three clients at work.
pub(super) struct Probes {
    stop: CancellationToken,
    joins: JoinHandle<anyhow::Result<Vec<f64>>>,
    acks: JoinHandle<anyhow::Result<Vec<f64>>>,
    pings: JoinHandle<anyhow::Result<Vec<f64>>>,
}

impl Probes {
    pub(super) fn start(gateway: &Target, redis: &Client) -> Self {
        let stop = CancellationToken::new();
        let one = gateway.clone();
        let two = gateway.clone();
        let redis = redis.clone();
        Self {
            joins: tokio::spawn(again(stop.clone(), async move |n| join(&one, n).await)),
            acks: tokio::spawn(acks(stop.clone(), two)),
            pings: tokio::spawn(again(stop.clone(), async move |_| {
                let began = Instant::now();
                redis.ping::<()>(None).await?;
                Ok(began.elapsed())
            })),
            stop,
        }
    }

    pub(super) async fn end(self) -> anyhow::Result<Noticed> {
        self.stop.cancel();
        Ok(Noticed {
            joins: Times::of(self.joins.await?.context("a join failed")?),
            acks: Times::of(self.acks.await?.context("a heartbeat failed")?),
            pings: Times::of(self.pings.await?.context("a PING failed")?),
        })
    }
}

async fn again(
    stop: CancellationToken,
    once: impl AsyncFn(usize) -> anyhow::Result<Duration>,
) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    while !stop.is_cancelled() {
        times.push(once(times.len()).await?.as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(times)
}

async fn expect(socket: &mut Socket, kind: &str) -> anyhow::Result<()> {
    let wait = async {
        loop {
            let text = receive(socket).await?;
            if parse(&text)
                .map_err(|_| anyhow!("no message: {text}"))?
                .kind
                == kind
            {
                return Ok(());
            }
        }
    };
    tokio::time::timeout(WITHIN, wait)
        .await
        .with_context(|| format!("no {kind}"))?
}

/// From the upgrade to `joined`, with a socket of its own.
async fn join(gateway: &Target, n: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let query = format!("user_id=j{n}&role=viewer&live_id={LIVE}");
    let mut socket = connect(gateway, None, &query, WITHIN).await?;
    expect(&mut socket, "joined").await?;
    let took = began.elapsed();
    send_close(&mut socket).await?;
    Ok(took)
}

async fn acks(stop: CancellationToken, gateway: Target) -> anyhow::Result<Vec<f64>> {
    let mut socket = connect(
        &gateway,
        None,
        &format!("user_id=a&role=viewer&live_id={LIVE}"),
        WITHIN,
    )
    .await?;
    expect(&mut socket, "joined").await?;
    let mut times = Vec::new();
    while !stop.is_cancelled() {
        let began = Instant::now();
        send(&mut socket, r#"{"type":"heartbeat"}"#).await?;
        expect(&mut socket, "heartbeat_ack").await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(times)
}
