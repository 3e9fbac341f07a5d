//! The same lives on every gateway, while nobody joins or leaves: what each further gateway costs
//! Redis, beside as many naive servers with the same viewers.

use super::Crowd;
use super::four_calls::Cost;
use super::hosts::{Hosts, Work};
use crate::bench::figures::{Figures, Who};
use crate::bench::generator::order::{self, Enter, Order};
use crate::bench::generator::{Generator, together};
use crate::bench::servers::{Redis, Server};
use crate::bench::settings::Bench;

pub(crate) const NAME: &str = "many-gateways";

pub(crate) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let every = bench.heartbeat();
    for (step, &gateways) in bench.gateways.iter().enumerate() {
        let lives = bench.shared_lives;
        let crowd = Crowd {
            viewers: lives * bench.shared_viewers * gateways,
            lives,
            every,
            track_online: false,
        };
        let place = if gateways == 1 {
            "1 gateway".to_owned()
        } else {
            format!("{gateways} gateways")
        };
        figures.note(
            NAME,
            Who::Rollcall,
            (&format!("{place}: viewers"), ""),
            crowd.viewers as f64,
        );
        let (ours, idle) = rollcall(bench, crowd, gateways).await?;
        let naive = naive(bench, crowd, gateways, step).await?;
        for (who, heartbeats, redis_cpu, commands, servers_cpu) in [
            (
                Who::Rollcall,
                ours.heartbeats,
                ours.redis_cpu - idle,
                ours.commands,
                ours.gateways_cpu,
            ),
            (
                Who::Naive,
                naive.cost.per_second,
                naive.redis_cpu(crowd),
                naive.commands,
                naive.servers_cpu,
            ),
        ] {
            for (measure, unit, value) in [
                (
                    "heartbeats answered, of those due",
                    "",
                    heartbeats / crowd.due(),
                ),
                ("Redis CPU", "cores", redis_cpu),
                ("Redis commands, inner ones too", "1/s", commands),
                ("CPU, all gateways", "cores", servers_cpu),
            ] {
                figures.note(NAME, who, (&format!("{place}: {measure}"), unit), value);
            }
        }
    }
    Ok(())
}

/// The work of Rollcall, and the cores that its Redis uses when idle.
async fn rollcall(bench: &Bench, crowd: Crowd, gateways: usize) -> anyhow::Result<(Work, f64)> {
    let redis = Redis::start().await?;
    let idle = redis.idle(crowd.every).await?;
    redis.follow(crowd.viewers, crowd.lives).await?;
    let mut hosts = Hosts::start(&redis, crowd, gateways).await?;
    hosts.join().await?;
    // By then joins are flushed and told to the other gateways, and the first leases are renewed.
    tokio::time::sleep(crowd.every * bench.pick(4, 3)).await;
    Ok((hosts.measure(&redis, bench.measured()).await?, idle))
}

/// The work of the naive servers.
struct Naive {
    cost: Cost,
    commands: f64,
    servers_cpu: f64,
}

impl Naive {
    /// Cores of Redis for all heartbeats that are due, even if a busy machine could not send all of
    /// them.
    fn redis_cpu(&self, crowd: Crowd) -> f64 {
        self.cost.redis_cpu * crowd.due() / 1e6
    }
}

/// Each naive server has its share of the viewers, on sockets; `step` keeps the addresses of the
/// rounds apart.
async fn naive(bench: &Bench, crowd: Crowd, servers: usize, step: usize) -> anyhow::Result<Naive> {
    let redis = Redis::start().await?;
    let idle = redis.idle(crowd.every).await?;
    redis.follow(crowd.viewers, crowd.lives).await?;
    let mut all = Vec::new();
    let mut generators = Vec::new();
    for _ in 0..servers {
        all.push(bench.programs.naive(&redis).await?);
        generators.push(Generator::start()?);
    }
    let share = crowd.viewers / servers;
    let mut orders = Vec::new();
    for (place, server) in all.iter().enumerate() {
        let connecting = order::Crowd::new(server.addr, share, Enter::Joined, 190 + step as u8);
        orders.push(Order::Connect(order::Crowd {
            first: place * share,
            lives: crowd.lives,
            in_flight: 16,
            ..connecting
        }));
    }
    together(&mut generators, &orders).await?;
    let every_s = crowd.every.as_secs_f64();
    let pace = |rounds: f64| {
        vec![
            Order::Pace {
                every_s,
                seconds: every_s * rounds
            };
            servers
        ]
    };
    // A round without measurement puts the members into their sets and warms the connections.
    together(&mut generators, &pace(1.0)).await?;
    let redis_cpu = redis.server.cpu()?;
    let servers_cpu = sum_cpu(&all)?;
    let commands = redis.commands().await?;
    let outcome = together(&mut generators, &pace(bench.pick(4.0, 2.0))).await?;
    let redis_cpu = redis.server.cpu()? - redis_cpu - idle * outcome.seconds;
    let executed = redis.commands().await?.total_since(&commands);
    let answered = outcome.answered as f64;
    anyhow::ensure!(answered > 0.0, "no heartbeat was answered");
    Ok(Naive {
        cost: Cost {
            redis_cpu: redis_cpu * 1e6 / answered,
            per_second: answered / outcome.seconds,
        },
        commands: executed / outcome.seconds,
        servers_cpu: (sum_cpu(&all)? - servers_cpu) / outcome.seconds,
    })
}

fn sum_cpu(servers: &[Server]) -> anyhow::Result<f64> {
    servers.iter().map(Server::cpu).sum()
}
