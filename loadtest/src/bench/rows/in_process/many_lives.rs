//! Lives on several gateways, beside the naive server's calls for the same viewers. All viewers are
//! fans.
//!
//! Of many small lives, leases, checks and messages between gateways cost Redis the most, and not
//! members. The same lives on more and more gateways show what each further gateway costs Redis.

use std::time::{Duration, Instant};

use fred::interfaces::KeysInterface;
use rollcall::gateway;

use super::four_calls::{self, BeatCost};
use super::hosts::{BenchHosts, HostWork};
use super::{LocalCrowd, config};
use crate::bench::figures::Who;
use crate::bench::servers::Redis;
use crate::bench::settings::{Bench, on};

/// First all viewers are on one gateway, then those of each live are spread over four.
pub(crate) async fn small_lives(bench: &mut Bench) -> anyhow::Result<()> {
    let crowd = LocalCrowd {
        viewers: bench.args.lives * bench.args.per_live,
        lives: bench.args.lives,
        every: bench.heartbeat(),
        track_online: bench.args.track_online,
    };
    let naive = naive(bench, crowd).await?;
    for gateways in [1, 4] {
        note_naive(bench, crowd, gateways, naive);
        let mut place = CrowdedGateways::fill(bench, crowd, gateways).await?;
        place.redis.followers_told().await?;
        tokio::time::sleep(crowd.every * bench.pick(10, 1)).await;
        place.measure(bench).await?;
        if gateways == 1 {
            place.measure_beside_another(bench).await?;
        }
    }
    Ok(())
}

/// Each live has as many viewers on each gateway.
pub(crate) async fn many_gateways(bench: &mut Bench) -> anyhow::Result<()> {
    let counts = bench.args.gateways.clone();
    for gateways in counts.into_iter().map(usize::from) {
        let lives = bench.args.shared_lives;
        let crowd = LocalCrowd {
            viewers: lives * bench.args.shared_viewers * gateways,
            lives,
            every: bench.heartbeat(),
            track_online: false,
        };
        let naive = naive(bench, crowd).await?;
        note_naive(bench, crowd, gateways, naive);
        let mut place = CrowdedGateways::fill(bench, crowd, gateways).await?;
        place.measure(bench).await?;
    }
    Ok(())
}

async fn naive(bench: &Bench, crowd: LocalCrowd) -> anyhow::Result<BeatCost> {
    four_calls::measure(crowd, crowd.every * bench.pick(4, 3)).await
}

/// The figures of Rollcall stand for all heartbeats that are due, so these must, too.
fn note_naive(bench: &mut Bench, crowd: LocalCrowd, gateways: usize, cost: BeatCost) {
    for (measure, value) in [
        ("heartbeats, 1/s", cost.per_second),
        (ANSWERED, cost.per_second / crowd.due()),
        ("Redis CPU per heartbeat, above idle, µs", cost.redis_cpu),
        (REDIS_CPU, cost.redis_cpu * crowd.due() / 1e6),
    ] {
        let measure = format!("{}: {measure}", on(gateways));
        bench.note(Who::Naive, &measure, value);
    }
}

const ANSWERED: &str = "heartbeats answered, of those due";
const REDIS_CPU: &str = "Redis CPU, cores";

/// Gateways with a crowd that has joined, and their Redis.
struct CrowdedGateways {
    redis: Redis,
    /// Cores that it takes with nobody there.
    idle: f64,
    hosts: BenchHosts,
    crowd: LocalCrowd,
    gateways: usize,
    /// How long it is measured: more than a minute, for some work comes once a minute.
    span: Duration,
}

impl CrowdedGateways {
    async fn fill(bench: &mut Bench, crowd: LocalCrowd, gateways: usize) -> anyhow::Result<Self> {
        let redis = Redis::start().await?;
        let idle = redis.idle(crowd.every).await?;
        redis.follow(crowd.viewers, crowd.lives).await?;
        let mut hosts = BenchHosts::start(&redis, crowd, gateways).await?;
        let began = Instant::now();
        hosts.join().await?;
        let joins = crowd.viewers as f64 / began.elapsed().as_secs_f64();
        let place = Self {
            redis,
            idle,
            hosts,
            crowd,
            gateways,
            span: bench.pick_ms(60_000, 400),
        };
        place.note(bench, "viewers", crowd.viewers as f64);
        place.note(bench, "joins, 1/s", joins);
        // Joins are flushed and told to the other gateways, and the first leases are renewed.
        tokio::time::sleep(crowd.every * bench.pick(4, 3)).await;
        Ok(place)
    }

    fn note(&self, bench: &mut Bench, measure: &str, value: f64) {
        bench.ours(&format!("{}: {measure}", on(self.gateways)), value);
    }

    async fn measure(&mut self, bench: &mut Bench) -> anyhow::Result<()> {
        let work = self.hosts.measure(&self.redis, self.span).await?;
        for (measure, value) in [
            ("heartbeats, 1/s", work.heartbeats),
            (ANSWERED, work.heartbeats / self.crowd.due()),
            (REDIS_CPU, work.redis_cpu - self.idle),
            ("Redis commands, inner ones too, 1/s", work.commands),
            ("CPU, all gateways, cores", work.gateways_cpu),
        ] {
            self.note(bench, measure, value);
        }
        Ok(())
    }

    /// Once more with a gateway without viewers. As the sweeper it walks over all lives, none of
    /// which is on it.
    async fn measure_beside_another(&mut self, bench: &mut Bench) -> anyhow::Result<()> {
        let beside = gateway::start(config(self.redis.url(), &self.crowd)).await?;
        self.redis
            .client
            .set::<(), _, _>("rollcall:sweeper", beside.id().as_str(), None, None, false)
            .await?;
        tokio::time::sleep(self.crowd.every * bench.pick(6, 2)).await;
        let HostWork {
            redis_cpu,
            commands,
            ..
        } = self.hosts.measure(&self.redis, self.span).await?;
        bench.ours(
            "Redis CPU with a second gateway beside it, cores",
            redis_cpu - self.idle,
        );
        bench.ours("Redis commands with a second gateway, 1/s", commands);
        beside.stop().await;
        Ok(())
    }
}
