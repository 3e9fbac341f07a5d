//! The audit after a fault, with the crowd at rest: it compares every set, every dashboard, every
//! key and what every socket was told with the truth, and runs `rollcall audit`. A difference that
//! is left at the deadline is drift.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use rollcall::presence::figures::Quality;
use tokio::time::{Instant, sleep};

use super::findings::{Broken, Promise};
use super::keys::{self, may_exist};
use super::observer::read;
use super::run_state::RunState;
use super::testbed::Testbed;
use crate::dashboard::DashboardCounts;
use simulation::expectation::{Live, User};

const LOOK: Duration = Duration::from_millis(250);

/// What is true of a live at rest.
struct Fact {
    live: Live,
    epoch: u64,
    slices: u32,
    fans: HashSet<User>,
    /// Everybody who is there.
    here: HashSet<User>,
}

/// Compares until all is right or the deadline is over. Returns how long that took, and records
/// what is wrong then.
pub(crate) async fn audit(testbed: &mut Testbed, deadline: Instant) -> anyhow::Result<Duration> {
    let began = Instant::now();
    loop {
        testbed.check_alive()?;
        let looked = Instant::now();
        let mut wrong = differences(testbed).await;
        if wrong.is_empty() {
            wrong = testbed
                .audit_command
                .differences(&testbed.up_but(None))
                .await;
        }
        if wrong.is_empty() {
            return Ok(began.elapsed());
        }
        // A comparison that began earlier may have seen what has been corrected since.
        if looked >= deadline {
            let state = &testbed.state;
            wrong.into_iter().for_each(|broken| state.broke(broken));
            return Ok(began.elapsed());
        }
        sleep(LOOK).await;
    }
}

/// When every user who has left must be out of every set.
pub(crate) fn all_out(state: &RunState) -> Option<Instant> {
    state.crowd.lapse();
    let truth = state.truth();
    let expectations = truth
        .open_lives()
        .flat_map(|(_, live_truth)| live_truth.expectations.values());
    expectations
        .filter(|expectation| !expectation.is_held())
        .filter_map(|expectation| expectation.out_by(&truth.rules))
        .max()
}

/// Viewers and fans of each open live that has dashboards, with the crowd at rest.
pub(crate) fn counts(state: &RunState) -> Vec<(Live, [i64; 2])> {
    let watched = facts(state)
        .into_iter()
        .filter(|fact| fact.live < state.busy);
    watched
        .map(|fact| (fact.live, [fact.here.len() as i64, fact.fans.len() as i64]))
        .collect()
}

async fn differences(testbed: &Testbed) -> Vec<Broken> {
    let state = &testbed.state;
    state.crowd.lapse();
    let mut wrong = Vec::new();
    for fact in facts(state) {
        sets(testbed, &fact, &mut wrong).await;
        if fact.live < state.busy {
            dashboards(testbed, &fact, &mut wrong);
        } else {
            figures(testbed, &fact, &mut wrong).await;
        }
    }
    online(testbed, &mut wrong).await;
    strays(testbed, &mut wrong);
    beliefs(state, &mut wrong);
    wrong
}

fn facts(state: &RunState) -> Vec<Fact> {
    let truth = state.truth();
    let mut facts = Vec::new();
    for (live, live_truth) in truth.open_lives() {
        let here: HashSet<User> = live_truth.held().collect();
        facts.push(Fact {
            live,
            epoch: live_truth.epoch.unwrap_or_default(),
            slices: live_truth.slices,
            fans: here
                .iter()
                .copied()
                .filter(|user| state.is_fan(*user, live))
                .collect(),
            here,
        });
    }
    facts
}

async fn sets(testbed: &Testbed, fact: &Fact, wrong: &mut Vec<Broken>) {
    let state = &testbed.state;
    let id = state.live_id(fact.live);
    let drift = |detail: String| Broken::new(Promise::Drift, detail).live(id.clone());
    let snapshot = match read(state, &testbed.reader, fact.live).await {
        Some(Ok(snapshot)) => snapshot,
        Some(Err(error)) => return wrong.push(drift(format!("cannot be read: {error:#}"))),
        None => return,
    };
    compare(state, &snapshot.slices, &fact.fans, drift, wrong);
    let drift = |detail: String| {
        Broken::new(Promise::Drift, format!("all viewers: {detail}")).live(id.clone())
    };
    let keys = keys::viewer_keys(&id, fact.slices);
    match members(testbed, &keys).await {
        Ok(slices) => compare(state, &slices, &fact.here, drift, wrong),
        Err(error) => wrong.push(drift(format!("cannot be read: {error:#}"))),
    }
}

async fn members(testbed: &Testbed, keys: &[String]) -> anyhow::Result<Vec<Vec<String>>> {
    join_all(keys.iter().map(|key| testbed.reader.members(key)))
        .await
        .into_iter()
        .collect()
}

/// Compares the slices of a set with who must be in it.
fn compare(
    state: &RunState,
    slices: &[Vec<String>],
    right: &HashSet<User>,
    drift: impl Fn(String) -> Broken,
    wrong: &mut Vec<Broken>,
) {
    let set: HashSet<User> = slices
        .iter()
        .flatten()
        .filter_map(|user| state.user(user))
        .collect();
    let listed: usize = slices.iter().map(Vec::len).sum();
    if listed != set.len() {
        wrong.push(drift(format!(
            "{listed} members in its slices, {} of them different users",
            set.len()
        )));
    }
    for user in set.difference(right) {
        wrong
            .push(drift("in the set at rest, and not there".to_owned()).user(state.user_id(*user)));
    }
    for user in right.difference(&set) {
        wrong
            .push(drift("there at rest, and not in the set".to_owned()).user(state.user_id(*user)));
    }
}

/// The users online on the platform: everybody with a socket, in a live or not.
async fn online(testbed: &Testbed, wrong: &mut Vec<Broken>) {
    let drift = |detail: String| Broken::new(Promise::Drift, format!("users online: {detail}"));
    let right: HashSet<User> = {
        let truth = testbed.state.truth();
        truth.online.values().map(|online| online.user).collect()
    };
    match members(testbed, &keys::online_keys()).await {
        Ok(slices) => compare(&testbed.state, &slices, &right, drift, wrong),
        Err(error) => wrong.push(drift(format!("cannot be read: {error:#}"))),
    }
}

fn dashboards(testbed: &Testbed, fact: &Fact, wrong: &mut Vec<Broken>) {
    let fans = fact.fans.len() as i64;
    let viewers = fact.here.len() as i64;
    let right = DashboardCounts {
        epoch: fact.epoch as u32,
        viewers,
        fans,
        guests: 0,
        quality: Quality::Exact,
    };
    for gateway in testbed.state.crowd.gateways_up() {
        let shown = testbed.dashboards.of(fact.live, gateway);
        if shown != Some(right) {
            let detail = format!("a dashboard shows {shown:?} instead of {right:?}");
            wrong.push(
                Broken::new(Promise::Drift, detail)
                    .live(testbed.state.live_id(fact.live))
                    .gateway(gateway),
            );
        }
    }
}

/// A quiet live has no dashboards: each gateway is asked.
async fn figures(testbed: &Testbed, fact: &Fact, wrong: &mut Vec<Broken>) {
    let state = &testbed.state;
    let id = testbed.state.live_id(fact.live);
    let right = (fact.here.len() as i64, fact.fans.len() as i64);
    for gateway in state.crowd.gateways_up() {
        let told = testbed
            .backend
            .figures(state.targets[gateway].address, &id)
            .await;
        if !matches!(told, Ok(told) if told == right) {
            let detail = format!("is told as {told:?} instead of {right:?} (viewers, fans)");
            wrong.push(
                Broken::new(Promise::Drift, detail)
                    .live(id.clone())
                    .gateway(gateway),
            );
        }
    }
}

/// Every key with the name of a live must be one that belongs to its present state.
fn strays(testbed: &Testbed, wrong: &mut Vec<Broken>) {
    let state = &testbed.state;
    let found: BTreeSet<String> = keys::of_lives(&testbed.store).into_iter().collect();
    let lives: Vec<(String, Option<u32>)> = {
        let truth = state.truth();
        let each = truth.lives.iter().enumerate();
        each.map(|(live, live_truth)| {
            (
                state.live_id(live),
                live_truth.epoch.map(|_| live_truth.slices),
            )
        })
        .collect()
    };
    for key in found.iter().filter(|key| !may_exist(key, &lives)) {
        wrong.push(Broken::new(
            Promise::Resurrected,
            format!("{key} exists, of a live or epoch that has closed"),
        ));
    }
}

/// A socket that still believes in a closed epoch was not told of the close.
fn beliefs(state: &RunState, wrong: &mut Vec<Broken>) {
    let truth = state.truth();
    for belief in truth.beliefs.values() {
        if truth.lives[belief.live].epoch != Some(belief.epoch) {
            let detail = format!("never told that epoch {} has closed", belief.epoch);
            let broken = Broken::new(Promise::CloseUntold, detail).user(state.user_id(belief.user));
            let gateway = belief.place.gateway;
            wrong.push(broken.live(state.live_id(belief.live)).gateway(gateway));
        }
    }
}
