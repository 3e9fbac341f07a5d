//! What others notice while a status is brought to very many followers: a client that sends
//! heartbeats, one that joins, and one that pings Redis. Each does so again and again, and notes
//! how long it took.

use std::time::Duration;

use anyhow::Context;
use fred::clients::Client;
use fred::interfaces::ClientLike;
use serde::Serialize;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::client::{self, WebSocket, connect, send, send_close};
use crate::report::Quantiles;
use crate::tally::Latencies;
use crate::target::Target;

/// The live that the probes join.
pub(super) const LIVE: &str = "probed";

const WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// What all three found, in microseconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Noticed {
    pub(super) joins: Quantiles,
    pub(super) acks: Quantiles,
    pub(super) pings: Quantiles,
}

/// Three clients at work.
pub(super) struct Probes {
    stop: CancellationToken,
    joins: JoinHandle<anyhow::Result<Latencies>>,
    acks: JoinHandle<anyhow::Result<Latencies>>,
    pings: JoinHandle<anyhow::Result<Latencies>>,
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
            joins: Quantiles::of(&self.joins.await?.context("a join failed")?),
            acks: Quantiles::of(&self.acks.await?.context("a heartbeat failed")?),
            pings: Quantiles::of(&self.pings.await?.context("a PING failed")?),
        })
    }
}

async fn again(
    stop: CancellationToken,
    once: impl AsyncFn(u64) -> anyhow::Result<Duration>,
) -> anyhow::Result<Latencies> {
    let mut times = Latencies::default();
    while !stop.is_cancelled() {
        times.record(once(times.count()).await?);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(times)
}

async fn expect(socket: &mut WebSocket, kind: &str) -> anyhow::Result<()> {
    let heard = timeout(WITHIN, client::until(socket, kind)).await;
    Ok(heard.with_context(|| format!("no {kind}"))??)
}

/// From the upgrade to `joined`, with a socket of its own.
async fn join(gateway: &Target, n: u64) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let query = format!("user_id=j{n}&role=viewer&live_id={LIVE}");
    let mut socket = connect(gateway, None, &query, WITHIN).await?;
    expect(&mut socket, "joined").await?;
    let took = began.elapsed();
    send_close(&mut socket).await?;
    Ok(took)
}

async fn acks(stop: CancellationToken, gateway: Target) -> anyhow::Result<Latencies> {
    let mut socket = connect(
        &gateway,
        None,
        &format!("user_id=a&role=viewer&live_id={LIVE}"),
        WITHIN,
    )
    .await?;
    expect(&mut socket, "joined").await?;
    let mut times = Latencies::default();
    while !stop.is_cancelled() {
        let began = Instant::now();
        send(&mut socket, r#"{"type":"heartbeat"}"#).await?;
        expect(&mut socket, "heartbeat_ack").await?;
        times.record(began.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    Ok(times)
}
