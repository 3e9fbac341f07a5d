//! How long a join takes to reach Redis and the dashboard, at 2,000 joins a second on a gateway
//! with another live; and how fast a dashboard shows the first fan's join and the last fan's leave.

use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use fred::interfaces::SetsInterface;

use crate::bench::dashboard::{DashboardLog, TimedCounts, send, socket};
use crate::bench::generator::Generator;
use crate::bench::generator::order::{Crowd, Enter, Order, live, user};
use crate::bench::servers::{BenchGateway, Redis};
use crate::bench::settings::Bench;
use crate::client::{self, WebSocket};
use crate::tally::{Latencies, unix_micros};

const PER_SECOND: f64 = 2_000.0;
const POLL: Duration = Duration::from_millis(2);
const DEADLINE: Duration = Duration::from_secs(60);
/// After this time the throttle of counts is over, so that a dashboard hears of the next change at
/// once.
const QUIET: Duration = Duration::from_millis(800);
/// How long the neighbour stays in the live, and then away from it.
const STAY: Duration = Duration::from_millis(100);

pub(super) async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let sockets = bench.pick(6_000, 300);
    let (redis, gateway) = bench.place(sockets, 1, &[]).await?;
    gateway.open(2, None).await?;
    let mut dashboard = DashboardLog::open(gateway.server.addr, 0).await?;
    let neighbour = Neighbour::start(&gateway, user(sockets)).await?;
    for _ in 0..bench.rounds().min(5) {
        dashboard.shows(0, 0).await?;
        dashboard.take();
        let (asked, in_redis) = one_crowd(&redis, &gateway, sockets).await?;
        let in_redis = until_shown(asked.clone(), &in_redis)?;
        let on_dashboard = until_shown(asked, &dashboard.take())?;
        for (what, latency) in [
            ("join to member in Redis", &in_redis),
            ("join to dashboard", &on_dashboard),
        ] {
            for (quantile, name) in [(0.5, "p50"), (0.99, "p99")] {
                bench.ours(&format!("{what}, {name}, ms"), latency.ms_at(quantile));
            }
        }
    }
    drop(neighbour);
    dashboard.shows(0, 0).await?;
    let mut first = Latencies::default();
    let mut last = Latencies::default();
    for _ in 0..bench.pick(20, 1) {
        let (came, left) = come_and_go(&gateway, &mut dashboard).await?;
        first.record(came);
        last.record(left);
    }
    let both = first.ms_at(1.0).max(last.ms_at(1.0));
    bench.ours("first fan to dashboard, max, ms", first.ms_at(1.0));
    bench.ours("last fan's leave to dashboard, max, ms", last.ms_at(1.0));
    bench.ours("0↔1 on the dashboard, max, ms", both);
    Ok(())
}

/// A viewer who joins and leaves another live again and again until this is dropped. It keeps the
/// flusher busy, as on any gateway with several lives, so that the crowd's first join does not
/// decide when a flush begins.
struct Neighbour(tokio::task::JoinHandle<anyhow::Result<()>>);

impl Neighbour {
    async fn start(gateway: &BenchGateway, user: String) -> anyhow::Result<Self> {
        let mut socket = socket(gateway.server.addr, &format!("user_id={user}")).await?;
        Ok(Self(tokio::spawn(async move {
            loop {
                send(
                    &mut socket,
                    format!(r#"{{"type":"join","live_id":"{}"}}"#, live(1)),
                )
                .await?;
                read_for(&mut socket, STAY).await;
                send(&mut socket, r#"{"type":"leave"}"#.to_owned()).await?;
                read_for(&mut socket, STAY).await;
            }
        })))
    }
}

/// Reads, and so answers pings, for this time.
async fn read_for(socket: &mut WebSocket, time: Duration) {
    let _ = tokio::time::timeout(time, client::drain(socket)).await;
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens the sockets, then lets them join at the rate, and leave. Returns when each asked, in Unix
/// microseconds, and what the set in Redis had meanwhile.
async fn one_crowd(
    redis: &Redis,
    gateway: &BenchGateway,
    sockets: usize,
) -> anyhow::Result<(Vec<u64>, Vec<TimedCounts>)> {
    let mut generator = Generator::start()?;
    let crowd = Crowd::new(gateway.server.addr, sockets, Enter::Upgraded);
    generator.carry_out(&Order::Connect(crowd)).await?;
    let join = Order::Join {
        per_second: PER_SECOND,
    };
    let join = generator.carry_out(&join);
    let (joined, in_redis) = tokio::try_join!(join, until_all_are_members(redis, sockets))?;
    // The dashboard gets its last message within twice its throttle.
    generator.carry_out(&Order::Rest { seconds: 1.5 }).await?;
    generator.carry_out(&Order::Leave).await?;
    Ok((joined.asked_at, in_redis))
}

async fn until_all_are_members(redis: &Redis, sockets: usize) -> anyhow::Result<Vec<TimedCounts>> {
    let key = format!("online-fans:{}", live(0));
    let began = Instant::now();
    let mut seen = Vec::new();
    loop {
        let fans: u64 = redis.client.scard(&key).await?;
        seen.push(TimedCounts {
            at: unix_micros(),
            viewers: fans,
            fans,
        });
        if fans == sockets as u64 {
            return Ok(seen);
        }
        ensure!(
            began.elapsed() < DEADLINE,
            "{fans} of {sockets} became members in {DEADLINE:?}"
        );
        tokio::time::sleep(POLL).await;
    }
}

/// A dashboard shows how many fans there are, not who, and so does the size of the set: the k-th join
/// is shown once the number is k or more.
fn until_shown(mut asked: Vec<u64>, shown: &[TimedCounts]) -> anyhow::Result<Latencies> {
    asked.sort_unstable();
    let mut latency = Latencies::default();
    let mut shown = shown.iter();
    let mut now = shown.next();
    for (position, at) in asked.iter().enumerate() {
        while let Some(counts) = now
            && counts.fans <= position as u64
        {
            now = shown.next();
        }
        let counts =
            now.with_context(|| format!("the dashboard never showed {} fans", position + 1))?;
        latency.record(Duration::from_micros(counts.at.saturating_sub(*at)));
    }
    Ok(latency)
}

/// Lets one fan join an empty live and leave it again. Returns how long the dashboard took to show
/// each.
async fn come_and_go(
    gateway: &BenchGateway,
    dashboard: &mut DashboardLog,
) -> anyhow::Result<(Duration, Duration)> {
    let mut fan = socket(gateway.server.addr, &format!("user_id={}", user(0))).await?;
    tokio::time::sleep(QUIET).await;
    let asked = unix_micros();
    send(
        &mut fan,
        format!(r#"{{"type":"join","live_id":"{}"}}"#, live(0)),
    )
    .await?;
    let came = dashboard.shows(1, 1).await?.saturating_sub(asked);
    tokio::time::sleep(QUIET).await;
    let asked = unix_micros();
    send(&mut fan, r#"{"type":"leave"}"#.to_owned()).await?;
    let left = dashboard.shows(0, 0).await?.saturating_sub(asked);
    client::send_close(&mut fan)
        .await
        .map_err(|failure| anyhow!("the fan cannot leave: {}", failure.kind))?;
    client::drain(&mut fan).await;
    Ok((Duration::from_micros(came), Duration::from_micros(left)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_is_shown_by_the_first_number_that_can_hold_it() {
        let asked = vec![1_000, 3_000, 2_000];
        let shown = |at, fans| TimedCounts {
            at,
            viewers: fans,
            fans,
        };
        let latency = until_shown(
            asked.clone(),
            &[shown(1_500, 1), shown(9_000, 2), shown(10_000, 3)],
        )
        .unwrap();
        assert_eq!(
            (latency.count(), latency.max()),
            (3, 7_003),
            "three digits of 7,000"
        );
        assert!(until_shown(asked.clone(), &[shown(1_500, 1), shown(9_000, 2)]).is_err());
    }
}
