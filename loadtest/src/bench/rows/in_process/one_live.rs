//! One live with all the viewers. Half of them are fans at first, all of them later.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fred::interfaces::SetsInterface;
use rollcall::base::ids::LiveId;
use rollcall::store::CloseReason;

use super::{InProcessGateway, LocalCrowd, own_cpu, own_rss};
use crate::bench::generator::order::live;
use crate::bench::ping::Pinger;
use crate::bench::servers::Redis;
use crate::bench::settings::Bench;

const SLICES: u32 = 20;
const JOINING_AT_ONCE: u64 = 2_000;

pub(crate) async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let viewers = bench.args.in_process;
    let every = bench.heartbeat() * bench.pick(2, 1);
    let redis = Redis::start().await?;
    redis.follow(viewers / 2, 1).await?;
    let mut gateway = InProcessGateway::start(
        redis.url(),
        &LocalCrowd {
            viewers,
            lives: 1,
            every,
            track_online: false,
        },
    )
    .await?;
    gateway.open(0, Some(SLICES)).await?;
    let bare = own_rss()?;
    gateway.make_sockets(viewers);
    let with_sockets = own_rss()?;
    let clients = gateway.beat(every);

    let began = Instant::now();
    gateway.join(0..viewers, JOINING_AT_ONCE, began).await?;
    gateway.all_joined(began).await?;
    let took = began.elapsed();
    bench.ours("viewers", viewers as f64);
    bench.ours("joins, 1/s", viewers as f64 / took.as_secs_f64());
    all_members(&redis, viewers as u64 / 2).await?;
    bench.ours(
        "last join to all fans in Redis, ms",
        (began.elapsed() - took).as_secs_f64() * 1e3,
    );

    tokio::time::sleep(every).await;
    let per_viewer = |bytes: f64| bytes / viewers as f64;
    let full = own_rss()?;
    bench.ours("RSS per viewer, B", per_viewer(full - with_sockets));
    bench.ours(
        "RSS of the wire that stands for its socket, B",
        per_viewer(with_sockets - bare),
    );
    bench.ours(
        "RSS, all, GiB",
        (full - with_sockets) / (1_u64 << 30) as f64,
    );
    for _ in 0..bench.rounds().min(3) {
        let all = own_cpu()?;
        let played = clients.cpu();
        let redis_cpu = redis.server.cpu()?;
        let acks = gateway.received.acks.load(Ordering::Relaxed);
        let began = Instant::now();
        tokio::time::sleep(every).await;
        let seconds = began.elapsed().as_secs_f64();
        let played = clients.cpu() - played;
        let all = own_cpu()? - all;
        let acks = gateway.received.acks.load(Ordering::Relaxed) - acks;
        bench.ours("heartbeats, 1/s", acks as f64 / seconds);
        bench.ours("CPU, cores", (all - played) / seconds);
        bench.ours(
            "CPU of the thread that plays the clients, cores",
            played / seconds,
        );
        bench.ours(
            "Redis CPU, cores",
            (redis.server.cpu()? - redis_cpu) / seconds,
        );
    }
    read(&gateway, bench)?;

    // Now the other half follows, too. The fan check notices within its time to live.
    redis.follow(viewers, 1).await?;
    all_members(&redis, viewers as u64).await?;
    close(&gateway, &redis, bench).await?;
    drop(clients);
    gateway.end().await;
    Ok(())
}

/// Waits until the slices hold this many fans.
async fn all_members(redis: &Redis, fans: u64) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let mut sum = 0;
        for slice in 1..=SLICES {
            let card: u64 = redis
                .client
                .scard(format!("online-fans:{}_slice{slice}", live(0)))
                .await?;
            sum += card;
        }
        if sum == fans {
            return Ok(());
        }
        ensure!(
            began.elapsed() < Duration::from_secs(120),
            "Redis holds {sum} fans, not {fans}"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Measures how often one thread can read the counts from the room.
fn read(gateway: &InProcessGateway, bench: &mut Bench) -> anyhow::Result<()> {
    let live = LiveId::parse(&live(0))?;
    let began = Instant::now();
    let mut reads = 0_u64;
    while began.elapsed() < Duration::from_millis(500) {
        for _ in 0..1_000 {
            std::hint::black_box(gateway.inner.figures(&live).context("the room is gone")?);
            reads += 1;
        }
    }
    let per_second = reads as f64 / began.elapsed().as_secs_f64();
    bench.ours("count reads in the process, one thread, 1/s", per_second);
    Ok(())
}

async fn close(gateway: &InProcessGateway, redis: &Redis, bench: &mut Bench) -> anyhow::Result<()> {
    let pinger = Pinger::start(redis.server.addr)?;
    let asked = Instant::now();
    gateway
        .inner
        .close_live(&LiveId::parse(&live(0))?, CloseReason::Requested)
        .await
        .context("closing the live")?;
    let answered = asked.elapsed();
    while gateway.received.closed.load(Ordering::Relaxed) < gateway.sockets.len() as u64 {
        ensure!(
            asked.elapsed() < Duration::from_secs(60),
            "not every viewer was told of the close"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let told = asked.elapsed();
    let during = pinger.seen().await?;
    bench.ours("close answered after, ms", answered.as_secs_f64() * 1e3);
    bench.ours(
        "everybody told of the close after, ms",
        told.as_secs_f64() * 1e3,
    );
    bench.ours("PING max during the close, ms", during.ms_at(1.0));
    Ok(())
}
