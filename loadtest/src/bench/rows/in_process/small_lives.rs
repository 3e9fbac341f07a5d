//! A hundred thousand small lives whose viewers are all fans: leases, checks and messages between
//! gateways, not members, cost Redis the most. First all viewers are on one gateway, then each
//! live's viewers are spread over four.

use std::time::Instant;

use fred::interfaces::KeysInterface;
use rollcall::gateway;

use super::four_calls::{self, Cost};
use super::hosts::{Hosts, Work};
use super::{Crowd, config};
use crate::bench::figures::{Figures, Who};
use crate::bench::servers::Redis;
use crate::bench::settings::Bench;

pub(crate) const NAME: &str = "small-lives";
const ALONE: usize = 1;
const TOGETHER: usize = 4;
const REDIS_CPU: &str = "Redis CPU at a heartbeat each 5 s";

pub(crate) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let every = bench.heartbeat();
    let lives = bench.lives;
    let track_online = bench.track_online;
    let crowd = Crowd {
        viewers: lives * bench.per_live,
        lives,
        every,
        track_online,
    };
    for gateways in [ALONE, TOGETHER] {
        on_gateways(bench, crowd, gateways, figures).await?;
    }
    let Cost {
        redis_cpu,
        per_second,
    } = four_calls::measure(crowd, every * bench.pick(4, 3)).await?;
    let mut note = |measure: &str, unit: &str, value: f64| {
        figures.note(NAME, Who::Naive, (measure, unit), value)
    };
    note("heartbeats", "1/s", per_second);
    note(
        "heartbeats answered, of those due",
        "",
        per_second / crowd.due(),
    );
    note("Redis CPU per heartbeat, above idle", "µs", redis_cpu);
    // The figures of Rollcall stand for all heartbeats that are due, so these must, too.
    for gateways in [ALONE, TOGETHER] {
        note(
            &on(gateways, REDIS_CPU),
            "cores",
            redis_cpu * crowd.due() / 1e6,
        );
    }
    Ok(())
}

/// Runs the crowd on this many gateways. The figures of Redis's CPU are above its idle time.
async fn on_gateways(
    bench: &Bench,
    crowd: Crowd,
    gateways: usize,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let mut note = |measure: &str, unit: &str, value: f64| {
        figures.note(NAME, Who::Rollcall, (&on(gateways, measure), unit), value);
    };
    let redis = Redis::start().await?;
    let idle = redis.idle(crowd.every).await?;
    redis.follow(crowd.viewers, crowd.lives).await?;
    let mut hosts = Hosts::start(&redis, crowd, gateways).await?;
    let began = Instant::now();
    hosts.join().await?;
    note("viewers", "", crowd.viewers as f64);
    note(
        "joins",
        "1/s",
        crowd.viewers as f64 / began.elapsed().as_secs_f64(),
    );

    // By then joins are flushed, the first leases are renewed, and every follower was told which
    // lives are on air.
    redis.followers_told().await?;
    tokio::time::sleep(crowd.every * bench.pick(14, 3)).await;
    let Work {
        heartbeats,
        redis_cpu,
        commands,
        gateways_cpu,
    } = hosts.measure(&redis, bench.measured()).await?;
    note("heartbeats", "1/s", heartbeats);
    note(
        "heartbeats answered, of those due",
        "",
        heartbeats / crowd.due(),
    );
    note(REDIS_CPU, "cores", redis_cpu - idle);
    note("commands run by Redis", "1/s", commands);
    note("gateways' CPU", "cores", gateways_cpu);

    if gateways == ALONE {
        // A gateway without viewers. As the sweeper it walks over all lives, none of which is on
        // it.
        let beside = gateway::start(config(redis.url(), &crowd)).await?;
        redis
            .client
            .set::<(), _, _>("rollcall:sweeper", beside.id().as_str(), None, None, false)
            .await?;
        tokio::time::sleep(crowd.every * bench.pick(6, 2)).await;
        let Work {
            redis_cpu,
            commands,
            ..
        } = hosts.measure(&redis, bench.measured()).await?;
        note(
            "Redis CPU with a second gateway beside it",
            "cores",
            redis_cpu - idle,
        );
        note(
            "commands run by Redis with a second gateway",
            "1/s",
            commands,
        );
        beside.stop().await;
    }
    Ok(())
}

/// The name of a measure, with the number of gateways if there are several.
fn on(gateways: usize, measure: &str) -> String {
    if gateways == ALONE {
        measure.to_owned()
    } else {
        format!("{gateways} gateways: {measure}")
    }
}
