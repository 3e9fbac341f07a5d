//! A live with a million fans: how fast a gateway answers reads of its counts, and how long its
//! close blocks Redis.
//!
//! The bench writes the fans through the store's ordinary calls, so that the live looks as in
//! production. A real gateway watches the live, answers the reads and closes it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use reqwest::Method;
use rollcall::base::ids::{LiveId, OnlineSet, UserId};
use rollcall::store::LiveStore;

use super::holder::{LeaseHolder, by_slice};
use crate::bench::dashboard::DashboardLog;
use crate::bench::generator::order::{live, user};
use crate::bench::ping::Pinger;
use crate::bench::servers::Redis;
use crate::bench::settings::Bench;

const SLICES: u32 = 20;
const READERS: usize = 2;
const PIPELINED: usize = 32;

pub(super) async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let fans = bench.pick(1_000_000, 2_000);
    let redis = Redis::start().await?;
    let store = redis.store().await?;
    let opener = bench.programs.gateway(&redis).await?;
    let id = LiveId::parse(&live(0))?;
    for _ in 0..bench.rounds().min(3) {
        opener.open(1, Some(SLICES)).await?;
        let record = store.load_live(&id).await?;
        let record = record.context("the record of the live")?;
        let users: Result<Vec<UserId>, _> = (0..fans).map(|n| UserId::parse(&user(n))).collect();
        let slices = by_slice(&OnlineSet::Live(id.clone()), SLICES, users?.into_iter());
        let _holder = LeaseHolder::start(&store, record.epoch, slices, |_| Vec::new()).await?;
        // A gateway that meets the live now reads its sizes. The opener has read them, and would
        // hear of changes from gateways only.
        let gateway = bench.programs.gateway(&redis).await?;
        let mut dashboard = DashboardLog::open(gateway.server.addr, 0).await?;
        dashboard.shows(fans as u64, fans as u64).await?;

        let sent = gateway.metric("rollcall_store_calls_total").await?;
        let reads = read_counts(gateway.server.addr, bench.pick(2.0, 0.2)).await?;
        let calls = gateway.metric("rollcall_store_calls_total").await? - sent;
        bench.ours("count reads over HTTP, 1/s", reads.per_second);
        bench.ours("commands sent to Redis per read", calls / reads.all);

        let pinger = Pinger::start(redis.server.addr)?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = pinger.seen().await?;
        let pinger = Pinger::start(redis.server.addr)?;
        let asked = Instant::now();
        gateway
            .call(Method::DELETE, &format!("/v1/lives/{}", live(0)), None)
            .await?;
        let answered = asked.elapsed();
        // Redis frees unlinked keys in the background.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let during = pinger.seen().await?;
        bench.ours("close answered after, ms", answered.as_secs_f64() * 1e3);
        bench.ours("PING max during the close, ms", during.ms_at(1.0));
        bench.ours("PING p99 during the close, ms", during.ms_at(0.99));
        bench.ours("PING max just before, ms", before.ms_at(1.0));
    }
    Ok(())
}

struct Reads {
    all: f64,
    per_second: f64,
}

/// Reads over a few connections, each with several requests in flight, like the connection pool of
/// a back end.
async fn read_counts(server: SocketAddr, seconds: f64) -> anyhow::Result<Reads> {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let began = Instant::now();
    let readers: Vec<_> = (0..READERS)
        .map(|_| tokio::task::spawn_blocking(move || read_until(server, until)))
        .collect();
    let mut all = 0;
    for reader in readers {
        all += reader.await.context("a reader")??;
    }
    Ok(Reads {
        all: all as f64,
        per_second: all as f64 / began.elapsed().as_secs_f64(),
    })
}

fn read_until(server: SocketAddr, until: Instant) -> anyhow::Result<u64> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let request = format!(
        "GET /v1/lives/{} HTTP/1.1\r\nHost: {server}\r\n\r\n",
        live(0)
    )
    .repeat(PIPELINED);
    let mut answers = BufReader::with_capacity(64 << 10, stream.try_clone()?);
    let mut reads = 0;
    let mut line = String::new();
    let mut body = Vec::new();
    while Instant::now() < until {
        stream.write_all(request.as_bytes())?;
        for _ in 0..PIPELINED {
            let mut length = 0;
            line.clear();
            answers.read_line(&mut line)?;
            ensure!(
                line.starts_with("HTTP/1.1 200"),
                "a read was answered {line:?}"
            );
            while line.trim_end() != "" {
                line.clear();
                answers.read_line(&mut line)?;
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse()?;
                }
            }
            body.resize(length, 0);
            answers.read_exact(&mut body)?;
            reads += 1;
        }
    }
    Ok(reads)
}
