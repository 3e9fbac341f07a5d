//! Reads every slice from Redis ten times a second, during faults too, and compares it with the
//! truth. A run learns from it when the last member was right.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::findings::{Broken, Promise};
use super::keys::slice_keys;
use super::reader::Reader;
use super::run_state::RunState;
use simulation::expectation::{Live, User, Wrong};

const EVERY: Duration = Duration::from_millis(100);
/// Ended sockets are forgotten after this.
const MEMORY: Duration = Duration::from_secs(180);

/// One reading of all lives.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// Members that are wrong now, excused or not.
    pub(crate) wrong: usize,
    /// One of them, in words.
    pub(crate) example: Option<String>,
    /// Open lives that could not be read.
    pub(crate) unread: usize,
}

/// A live's fans in Redis.
pub(crate) struct FansSnapshot {
    pub(crate) live: Live,
    pub(crate) version: u64,
    pub(crate) began: Instant,
    /// Ids, slice by slice.
    pub(crate) slices: Vec<Vec<String>>,
}

/// Reads a live; `None` if it is closed.
pub(crate) async fn read(
    state: &RunState,
    reader: &Reader,
    live: Live,
) -> Option<anyhow::Result<FansSnapshot>> {
    let (version, count) = {
        let truth = state.truth();
        let live_truth = &truth.lives[live];
        live_truth.epoch?;
        (live_truth.version, live_truth.slices)
    };
    let keys = slice_keys(&state.live_id(live), count);
    let began = Instant::now();
    let slices: anyhow::Result<Vec<_>> = join_all(keys.iter().map(|key| reader.members(key)))
        .await
        .into_iter()
        .collect();
    Some(slices.map(|slices| FansSnapshot {
        live,
        version,
        began,
        slices,
    }))
}

/// Records how late this process's timers are.
pub(crate) async fn measure_timer_lag(state: Arc<RunState>) {
    loop {
        let due = Instant::now() + EVERY / 5;
        sleep_until(due).await;
        let mut findings = state.findings();
        findings.lag = findings.lag.max(due.elapsed());
    }
}

pub(crate) async fn run(
    state: Arc<RunState>,
    reader: Arc<Reader>,
    observations: watch::Sender<Option<Observation>>,
) {
    let mut clock = interval(EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut wrong: HashSet<(Live, User, Wrong)> = HashSet::new();
    loop {
        clock.tick().await;
        let began = Instant::now();
        let lives = state.lives();
        state.crowd.lapse();
        let snapshots = join_all((0..lives).map(|live| read(&state, &reader, live))).await;
        let mut unread = 0;
        let mut now_wrong = HashSet::new();
        let mut example = None;
        for (live, snapshot) in snapshots.into_iter().enumerate() {
            match snapshot {
                None => {}
                Some(Ok(snapshot)) => {
                    judge(&state, &snapshot, &mut now_wrong, &mut example);
                }
                Some(Err(_)) => {
                    unread += 1;
                    // What was wrong is not known to be right.
                    now_wrong.extend(wrong.iter().filter(|(of, ..)| *of == live));
                }
            }
        }
        let ended = Instant::now();
        let corrected = wrong.difference(&now_wrong).count();
        state
            .findings()
            .corrected
            .extend(std::iter::repeat_n(ended, corrected));
        let observation = Observation {
            began,
            ended,
            wrong: now_wrong.len(),
            example,
            unread,
        };
        wrong = now_wrong;
        observations.send_replace(Some(observation));
    }
}

fn judge(
    state: &RunState,
    snapshot: &FansSnapshot,
    wrong: &mut HashSet<(Live, User, Wrong)>,
    example: &mut Option<String>,
) {
    let live = snapshot.live;
    let present = snapshot.slices.iter().flatten();
    let present: BTreeSet<User> = present.filter_map(|id| state.user(id)).collect();
    let mut truth = state.truth();
    // The live closed or opened while it was read.
    if truth.lives[live].version != snapshot.version {
        return;
    }
    let is_fan = |user| state.is_fan(user, live);
    for wronged in truth.lives[live].judge(&present, is_fan, snapshot.began, &truth.rules) {
        let (user, what) = (wronged.user, wronged.wrong);
        wrong.insert((live, user, what));
        let told = || wronged.expectation.tell(snapshot.began);
        let (user_id, live_id) = (state.user_id(user), state.live_id(live));
        example.get_or_insert_with(|| format!("{what:?} of {user_id} in {live_id}: {}", told()));
        let Some(overdue) = wronged.overdue.filter(|overdue| *overdue > state.grace) else {
            continue;
        };
        if state.findings().known.insert((live, user, what)) {
            let promise = match what {
                Wrong::Ghost => Promise::Ghost,
                Wrong::Miss => Promise::Miss,
            };
            let detail = format!("{} ms beyond the promise; {}", overdue.as_millis(), told());
            state.broke(Broken::new(promise, detail).user(user_id).live(live_id));
        }
    }
    truth.lives[live].tidy(snapshot.began, MEMORY);
}
