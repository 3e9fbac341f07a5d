//! Those beside the crowd who make it a day in the life: callers of the HTTP API, and streamers who
//! watch their own live and reconnect. Each has a random generator of its own, seeded by the run's
//! seed and a number.
//!
//! An errand that fails counts as wrong, unless its live closed or its gateway was restarted
//! meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use futures_util::FutureExt;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::errands::{Errand, ErrandVisit};
use crate::chaos::backend::Backend;
use crate::chaos::run_state::{RunState, mix};
use crate::client;
use simulation::expectation::Live;

/// Maximum failures that a report tells one by one.
const TOLD: usize = 20;
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A call of the HTTP API may take so long.
const CALL: Duration = Duration::from_secs(10);
const LONGEST_STAY_MS: u64 = 30_000;
/// Every wait of an errand has a deadline of its own.
const LONGEST_ERRAND: Duration = Duration::from_secs(180);

/// What came of errands of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Outcomes {
    pub(super) done: u64,
    /// The live closed, or the gateway was restarted, before the end.
    pub(super) interrupted: u64,
    pub(super) wrong: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Ledger {
    pub(super) errands: BTreeMap<&'static str, Outcomes>,
    /// The first failures.
    pub(super) wrong: Vec<String>,
}

/// They stop when this is dropped, in the middle of whatever they do.
pub(super) struct Staff {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    ledger: Arc<Mutex<Ledger>>,
}

impl Staff {
    /// So many callers, each with an errand every so often, and a streamer for each live that
    /// people wander among.
    pub(super) fn hire(
        state: &Arc<RunState>,
        callers: usize,
        pace: Duration,
    ) -> anyhow::Result<Self> {
        let mut tasks = JoinSet::new();
        let stop = CancellationToken::new();
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        for number in 0..callers {
            let rng = seeded(state, number);
            let caller = ApiCaller {
                state: state.clone(),
                http: Backend::with_patience(CALL)?,
                rng,
                number,
                ledger: ledger.clone(),
            };
            let stopped = stop.clone();
            tasks.spawn(async move { caller.run(pace, &stopped).await });
        }
        for live in 0..state.busy {
            let streamer = stream(state.clone(), live, seeded(state, callers + live));
            tasks.spawn(stop.clone().run_until_cancelled_owned(streamer).map(drop));
        }
        Ok(Self {
            tasks,
            stop,
            ledger,
        })
    }

    /// Waits until all of them have finished what they do, and returns what came of it.
    pub(super) async fn dismiss(mut self) -> anyhow::Result<Ledger> {
        self.stop.cancel();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        timeout(LONGEST_ERRAND, all)
            .await
            .context("an errand that does not end")?;
        Ok(self.ledger.lock().clone())
    }
}

/// One of each errand, so that whatever begins with its first use has begun.
pub(super) async fn rehearse(state: &RunState, live: Live) -> anyhow::Result<()> {
    let http = Backend::with_patience(CALL)?;
    for errand in Errand::ALL {
        let name = format!("first-{}", errand.name());
        let visit = ErrandVisit::new(state, &http, live, &mut seeded(state, usize::MAX), &name);
        visit.run(errand).await.with_context(|| name.clone())?;
    }
    Ok(())
}

fn seeded(state: &RunState, number: usize) -> StdRng {
    StdRng::seed_from_u64(mix(!state.seed).wrapping_add(number as u64))
}

struct ApiCaller {
    state: Arc<RunState>,
    http: Backend,
    rng: StdRng,
    number: usize,
    ledger: Arc<Mutex<Ledger>>,
}

impl ApiCaller {
    async fn run(mut self, pace: Duration, stop: &CancellationToken) {
        for visit in 0_u64.. {
            let pause = pace.mul_f64(self.rng.random::<f64>() * 2.0);
            if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
            let errand = Errand::ALL[self.rng.random_range(0..Errand::ALL.len())];
            let live = self.rng.random_range(0..self.state.busy);
            let before = circumstances(&self.state, live);
            let name = format!("{}-{visit}", self.number);
            let outcome = ErrandVisit::new(&self.state, &self.http, live, &mut self.rng, &name)
                .run(errand)
                .await;
            let disturbed = before.is_none() || before != circumstances(&self.state, live);
            let mut ledger = self.ledger.lock();
            let outcomes = ledger.errands.entry(errand.name()).or_default();
            match outcome {
                Ok(()) => outcomes.done += 1,
                Err(_) if disturbed => outcomes.interrupted += 1,
                Err(error) => {
                    outcomes.wrong += 1;
                    if ledger.wrong.len() < TOLD {
                        ledger
                            .wrong
                            .push(format!("{} {name}: {error:#}", errand.name()));
                    }
                }
            }
        }
    }
}

/// Which opening of the live it is, and which starts of the gateways; `None` unless the live is
/// open and all run.
fn circumstances(state: &RunState, live: Live) -> Option<(u64, Vec<u32>)> {
    let gateways = 0..state.targets.len();
    let all_up = gateways.clone().all(|gateway| state.crowd.is_up(gateway));
    let starts = gateways
        .map(|gateway| state.crowd.start_of(gateway))
        .collect();
    let truth = state.truth();
    let live = &truth.lives[live];
    if all_up && live.epoch.is_some() {
        Some((live.version, starts))
    } else {
        None
    }
}

/// A streamer connects to some gateway, watches the live for a while, goes with or without a close,
/// and comes back.
async fn stream(state: Arc<RunState>, live: Live, mut rng: StdRng) {
    loop {
        let target = &state.targets[rng.random_range(0..state.targets.len())];
        let until =
            Instant::now() + Duration::from_millis(rng.random_range(1_000..LONGEST_STAY_MS));
        let closes = rng.random_bool(0.5);
        let query = format!("user_id={}&role=streamer", state.streamer_id(live));
        if let Ok(mut socket) = client::connect(target, None, &query, CONNECT_WITHIN).await {
            let watch = format!(r#"{{"type":"watch","live_id":"{}"}}"#, state.live_id(live));
            // A socket that ends early is opened again: gateways are restarted.
            let _ = client::send(&mut socket, watch).await;
            while let Ok(Ok(_)) = timeout_at(until, client::receive(&mut socket)).await {}
            if closes {
                let _ = client::send_close(&mut socket).await;
            }
        }
        sleep_until(until).await;
    }
}
