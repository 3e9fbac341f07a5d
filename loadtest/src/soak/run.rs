//! The course of a soak: a rehearsal, after which the gateways are at rest for the first time; the
//! day, with samples taken all the while; and the end, after which they must be at rest as before.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use super::keys::{KeyStays, counted, kind, stays};
use super::report::{KeptKeys, Measured};
use super::sampler::{Sample, Sampler, is_down};
use super::staff::{self, Ledger, Staff};
use crate::chaos::audit::{all_out, audit, counts};
use crate::chaos::run_state::mix;
use crate::chaos::testbed::Testbed;

/// Time for the crowd to come in, or to get where it wants to be, on a busy machine.
const GATHER: Duration = Duration::from_secs(60);
/// A gateway that was told of a close, or let go of a live, looks at it for the last time after a
/// minute.
const LAST_LOOK: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// Maximum leftover keys that a report names.
const NAMED: usize = 20;

/// How the day goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course {
    pub(super) length: Duration,
    pub(super) sample_every: Duration,
    /// All gateways restart every so often, one after the other.
    pub(super) restart_every: Option<Duration>,
    /// A live closes or opens every so often.
    pub(super) live_every: Duration,
    pub(super) callers: usize,
    /// Each caller has an errand every so often.
    pub(super) errand_every: Duration,
    pub(super) closed_ttl: Duration,
}

/// Runs the whole course. What stops it early is an error.
pub(super) async fn run(testbed: &mut Testbed, course: &Course) -> anyhow::Result<Measured> {
    let gateways = testbed
        .state
        .targets
        .iter()
        .map(|target| target.address)
        .collect();
    let sampler = Sampler::connect(gateways, redis_of(testbed)?).await?;
    let settled = testbed.state.timing.vanished() + LAST_LOOK + GATHER;

    rehearse(testbed).await?;
    let before = sampler.rest(settled, None).await?;
    let follows = counted(&sampler.keys().await?);
    eprintln!("at rest: {before:?}");
    testbed.populate().await?;
    testbed
        .rest(GATHER)
        .await
        .context("the crowd does not come in")?;
    testbed.wander();
    let staff = Staff::hire(&testbed.state, course.callers, course.errand_every)?;
    let (samples, restarts) = day(testbed, &sampler, course).await?;
    eprintln!("the day is over; everybody comes to rest");
    let ledger = end_of_day(testbed, staff).await?;

    testbed.clear().await?;
    eprintln!("everybody has gone");
    let after = sampler.rest(settled, Some(&before)).await?;
    let (leftovers, kept) = keys_at_rest(&sampler, course, &follows, settled).await?;
    eprintln!("at rest: {after:?}");
    let audit = testbed
        .audit_command
        .differences(&testbed.up_but(None))
        .await;
    let findings = testbed.state.findings();
    Ok(Measured {
        seconds: sampler.seconds(),
        samples,
        restarts,
        is_down: is_down(&after, &before),
        rest_before: before,
        rest_after: after,
        leftovers,
        kept,
        ledger,
        broken: findings.broken.clone(),
        broken_by_promise: findings.counts.clone(),
        audit,
        lag_ms: findings.lag.as_millis() as u64,
    })
}

/// Whatever begins with its first use has begun afterwards.
async fn rehearse(testbed: &mut Testbed) -> anyhow::Result<()> {
    testbed.open(0, testbed.state.slices(0), None).await?;
    staff::rehearse(&testbed.state, 0).await?;
    testbed.clear().await
}

/// Lives close and open, and samples are taken, until it is over.
async fn day(
    testbed: &mut Testbed,
    sampler: &Sampler,
    course: &Course,
) -> anyhow::Result<(Vec<Sample>, Vec<f64>)> {
    let mut rng = StdRng::seed_from_u64(mix(testbed.state.seed.rotate_left(32)));
    let began = Instant::now();
    let mut next_sample = began;
    let mut next_live = began + course.live_every;
    let mut samples = Vec::new();
    let mut restarts = Vec::new();
    let mut next_restart = course.restart_every.map(|every| began + every);
    while began.elapsed() < course.length {
        testbed.check_alive()?;
        if Instant::now() >= next_sample {
            next_sample = Instant::now() + course.sample_every;
            samples.push(sampler.sample().await?);
        }
        if Instant::now() >= next_live {
            next_live += course.live_every;
            turn(testbed, &mut rng).await?;
        }
        if let Some((due, every)) = next_restart
            .zip(course.restart_every)
            .filter(|(due, _)| Instant::now() >= *due)
        {
            next_restart = Some(due + every);
            roll(testbed).await?;
            restarts.push(sampler.seconds());
        }
        let next = next_sample.min(next_live).min(began + course.length);
        sleep(next.saturating_duration_since(Instant::now()).min(SECOND)).await;
    }
    samples.push(sampler.sample().await?);
    Ok((samples, restarts))
}

/// A rolling restart, with everybody connected. People only move, so no dashboard may ever show
/// fewer.
async fn roll(testbed: &mut Testbed) -> anyhow::Result<()> {
    // A viewer who waits for a closed live would not come back to the present one.
    testbed.mend().await?;
    testbed.rest(GATHER).await?;
    // Those who left just before still count for a moment, and gateways hear of each other.
    testbed
        .pass(testbed.state.timing.vanished() + testbed.state.timing.told())
        .await?;
    testbed.dashboards.hold(counts(&testbed.state));
    for gateway in 0..testbed.gateways.len() {
        testbed.drain(gateway).await?;
        testbed.start(gateway).await?;
        testbed
            .rest(GATHER)
            .await
            .context("people do not arrive on the other gateways")?;
    }
    testbed
        .pass(testbed.state.timing.moved() + testbed.state.timing.told())
        .await?;
    testbed.dashboards.release();
    testbed.wander();
    Ok(())
}

/// Opens the live that is closed; if none is, closes one.
async fn turn(testbed: &mut Testbed, rng: &mut StdRng) -> anyhow::Result<()> {
    let busy = testbed.state.busy;
    let gateways = testbed.state.targets.len();
    let live = rng.random_range(0..busy);
    let not_through = rng.random_range(0..gateways);
    match (0..busy).find(|live| testbed.state.crowd.epoch(*live).is_none()) {
        Some(live) => {
            testbed
                .open(live, testbed.state.slices(live), Some(not_through))
                .await
        }
        None => testbed.close(live, Some(not_through)).await,
    }
}

/// Those beside the crowd go, the crowd stays where it is, and everything is compared.
async fn end_of_day(testbed: &mut Testbed, staff: Staff) -> anyhow::Result<Ledger> {
    let ledger = staff.dismiss().await?;
    testbed.mend().await?;
    testbed.rest(GATHER).await?;
    let gone = Instant::now() + testbed.state.timing.vanished();
    let said = all_out(&testbed.state).map_or(gone, |out| out.max(gone));
    audit(testbed, said + testbed.state.timing.told()).await?;
    Ok(ledger)
}

/// Waits until no key is left but those that may stay; returns the others, and those by kind.
async fn keys_at_rest(
    sampler: &Sampler,
    course: &Course,
    follows: &BTreeMap<String, u64>,
    within: Duration,
) -> anyhow::Result<(Vec<String>, BTreeMap<String, KeptKeys>)> {
    let deadline = Instant::now() + within;
    loop {
        let keys = sampler.keys().await?;
        let mut leftovers = BTreeSet::new();
        for key in &keys {
            if !may_stay(sampler, key, course.closed_ttl).await? {
                leftovers.insert(key.clone());
            }
        }
        let counts = counted(&keys);
        for edges in ["following:", "followers:"] {
            let had = follows.get(edges);
            let has = counts.get(edges);
            if has > had {
                leftovers.insert(format!("{edges}…: {has:?} keys, {had:?} before"));
            }
        }
        if leftovers.is_empty() || Instant::now() > deadline {
            let kept = counts.into_iter().map(|(kind, keys)| {
                let lifetime = match stays(&kind, course.closed_ttl) {
                    KeyStays::For(lifetime) => Some(lifetime.as_secs()),
                    KeyStays::ForGood | KeyStays::No => None,
                };
                (
                    kind,
                    KeptKeys {
                        keys,
                        lifetime_seconds: lifetime,
                    },
                )
            });
            return Ok((leftovers.into_iter().take(NAMED).collect(), kept.collect()));
        }
        sleep(SECOND).await;
    }
}

async fn may_stay(sampler: &Sampler, key: &str, closed_ttl: Duration) -> anyhow::Result<bool> {
    Ok(match stays(&kind(key), closed_ttl) {
        KeyStays::ForGood => true,
        KeyStays::No => false,
        // A key that has expired since it was listed is kept for no time.
        KeyStays::For(lifetime) => sampler
            .kept_for(key)
            .await?
            .is_some_and(|rest| rest <= lifetime),
    })
}

fn redis_of(testbed: &Testbed) -> anyhow::Result<SocketAddr> {
    testbed
        .store
        .addresses()
        .first()
        .copied()
        .context("the address of Redis")
}
