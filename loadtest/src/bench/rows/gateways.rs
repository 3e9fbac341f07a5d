//! The same crowd over 1, 2, 4 and 8 gateways: which costs grow with the number of processes.

use std::time::Duration;

use crate::bench::figures::{Figures, Who};
use crate::bench::generator::order::{Crowd, Enter, Order};
use crate::bench::generator::{Generator, together};
use crate::bench::servers::{Gateway, Redis};
use crate::bench::settings::Bench;

pub(super) const NAME: &str = "gateways";
const LIVES: usize = 10;

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let sockets = bench.pick(8_000, 160);
    let counts: &[usize] = bench.pick(&[1, 2, 4, 8], &[1, 2]);
    for (step, &count) in counts.iter().enumerate() {
        let redis = Redis::start().await?;
        redis.follow(sockets, LIVES).await?;
        let mut gateways = Vec::new();
        for _ in 0..count {
            gateways.push(bench.programs.gateway(&redis).await?);
        }
        gateways[0].open(LIVES, None).await?;
        let empty = sum(&gateways, |gateway| gateway.server.rss())?;
        let mut generators = (0..count)
            .map(|_| Generator::start())
            .collect::<anyhow::Result<Vec<_>>>()?;
        let share = sockets / count;
        let mut orders = Vec::new();
        for (place, gateway) in gateways.iter().enumerate() {
            let crowd = Crowd::new(gateway.server.addr, share, Enter::Joined, 180 + step as u8);
            orders.push(Order::Connect(Crowd {
                first: place * share,
                lives: LIVES,
                in_flight: 16,
                ..crowd
            }));
        }
        together(&mut generators, &orders).await?;
        tokio::time::sleep(bench.pick(Duration::from_secs(3), Duration::from_millis(300))).await;

        let full = sum(&gateways, |gateway| gateway.server.rss())?;
        let cpu = sum(&gateways, |gateway| gateway.server.cpu())?;
        let redis_cpu = redis.server.cpu()?;
        let commands = redis.commands().await?;
        let messages = metrics(&gateways, "rollcall_peer_messages_sent_total").await?;
        let (every_s, seconds) = bench.pick((5.0, 15.0), (0.2, 0.4));
        let outcome = together(
            &mut generators,
            &vec![Order::Pace { every_s, seconds }; count],
        )
        .await?;
        let cpu = (sum(&gateways, |gateway| gateway.server.cpu())? - cpu) / outcome.seconds;
        let redis_cpu = (redis.server.cpu()? - redis_cpu) / outcome.seconds;
        let executed = redis.commands().await?.total_since(&commands);
        let messages = metrics(&gateways, "rollcall_peer_messages_sent_total").await? - messages;

        let gateways = if count == 1 {
            "1 gateway".to_owned()
        } else {
            format!("{count} gateways")
        };
        for (what, unit, value) in [
            ("RSS with nobody, all", "MiB", empty / f64::from(1 << 20)),
            ("RSS, all", "MiB", full / f64::from(1 << 20)),
            ("CPU, all", "cores", cpu),
            ("Redis CPU", "cores", redis_cpu),
            (
                "Redis commands, inner ones too",
                "1/s",
                executed / outcome.seconds,
            ),
            (
                "messages between gateways",
                "1/s",
                messages / outcome.seconds,
            ),
            ("ack p99", "ms", outcome.latency.at(0.99) as f64 / 1e3),
        ] {
            figures.note(
                NAME,
                Who::Rollcall,
                (&format!("{gateways}: {what}"), unit),
                value,
            );
        }
    }
    Ok(())
}

fn sum(gateways: &[Gateway], of: impl Fn(&Gateway) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    gateways.iter().map(of).sum()
}

async fn metrics(gateways: &[Gateway], name: &str) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for gateway in gateways {
        sum += gateway.metric(name).await?;
    }
    Ok(sum)
}
