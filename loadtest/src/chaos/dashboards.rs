//! A dashboard for each live on each gateway, open during the whole run. Each message is checked
//! against what a dashboard must never show; an audit compares the last one with the truth.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rollcall::presence::figures::Quality;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::findings::{Broken, Promise};
use super::run_state::{CONNECT_WITHIN, RunState};
use crate::dashboard::{Dashboard, DashboardCounts, Update};
use crate::error_kind::ErrorName;
use simulation::expectation::{Live, SocketAt};

const RETRY_DELAY: Duration = Duration::from_millis(250);

/// What the dashboards of all lives show, and what they must.
#[derive(Default)]
struct ShownCounts {
    /// By live and gateway.
    now: Vec<Vec<Option<DashboardCounts>>>,
    /// Viewers and fans, by live: no dashboard may show fewer.
    held: Vec<Option<[i64; 2]>>,
}

/// All dashboards of a run; they end when this is dropped.
pub(crate) struct ChaosDashboards {
    shown: Arc<Mutex<ShownCounts>>,
    tasks: JoinSet<()>,
}

impl ChaosDashboards {
    /// Not a single one.
    pub(crate) fn none(state: &RunState) -> Self {
        let lives = state.busy;
        let gateways = state.targets.len();
        let shown = ShownCounts {
            now: vec![vec![None; gateways]; lives],
            held: vec![None; lives],
        };
        Self {
            shown: Arc::new(Mutex::new(shown)),
            tasks: JoinSet::new(),
        }
    }

    pub(crate) fn open(state: &Arc<RunState>) -> Self {
        // A dashboard makes its gateway hold the live, and a quiet live must be held by one gateway
        // only.
        let lives = state.busy;
        let mut all = Self::none(state);
        for live in 0..lives {
            for gateway in 0..state.targets.len() {
                all.tasks.spawn(
                    Watcher {
                        state: state.clone(),
                        live,
                        gateway,
                        shown: all.shown.clone(),
                    }
                    .run(),
                );
            }
        }
        all
    }

    /// What the dashboard of a live on a gateway shows.
    pub(crate) fn of(&self, live: Live, gateway: usize) -> Option<DashboardCounts> {
        self.shown.lock().now[live][gateway]
    }

    /// From now on no dashboard of these lives may show fewer viewers or fans than this.
    pub(crate) fn hold(&self, counts: impl IntoIterator<Item = (Live, [i64; 2])>) {
        let mut shown = self.shown.lock();
        for (live, counts) in counts {
            shown.held[live] = Some(counts);
        }
    }

    pub(crate) fn release(&self) {
        self.shown.lock().held.fill(None);
    }

    /// Lives whose dashboard on that gateway calls its figures exact.
    pub(crate) fn exact_on(&self, gateway: usize) -> Vec<Live> {
        let shown = &self.shown.lock().now;
        (0..shown.len())
            .filter(|live| {
                shown[*live][gateway].is_some_and(|shown| shown.quality == Quality::Exact)
            })
            .collect()
    }
}

struct Watcher {
    state: Arc<RunState>,
    live: Live,
    gateway: usize,
    shown: Arc<Mutex<ShownCounts>>,
}

impl Watcher {
    async fn run(self) {
        loop {
            if self.state.crowd.is_up(self.gateway) {
                let place = self.state.crowd.place(self.gateway);
                let target = &self.state.targets[self.gateway];
                let user_id = format!("dash-{}-{}", self.live, self.gateway);
                if let Ok(dashboard) = Dashboard::connect(target, &user_id, CONNECT_WITHIN).await {
                    let why = Box::pin(self.watch(dashboard)).await;
                    self.show(None);
                    self.ended(place, &why);
                }
            }
            sleep(RETRY_DELAY).await;
        }
    }

    fn ended(&self, place: SocketAt, why: &str) {
        // A socket may end just before the run state knows of the kill.
        if !self.state.crowd.may_lose(place) {
            let broken = Broken::new(Promise::SocketLost, format!("a dashboard's: {why}"));
            self.state.broke(
                broken
                    .live(self.state.live_id(self.live))
                    .gateway(self.gateway),
            );
        }
    }

    async fn watch(&self, mut dashboard: Dashboard) -> ErrorName {
        let mut watching = false;
        let mut next_try = Instant::now();
        loop {
            tokio::select! {
                update = dashboard.next() => match update {
                    Ok(Update::Counts(counts)) => {
                        watching = true;
                        self.check(counts);
                    }
                    Ok(Update::LiveClosed | Update::Refused(_)) => {
                        watching = false;
                        self.show(None);
                    }
                    Err(failure) => return failure.kind,
                },
                () = sleep_until(next_try) => {
                    next_try = Instant::now() + RETRY_DELAY;
                    if !watching && self.state.crowd.epoch(self.live).is_some() {
                        // A broken socket is reported by the next read.
                        let _ = dashboard.watch(&self.state.live_id(self.live)).await;
                        // An answer may take as long as a call to Redis.
                        next_try += 4 * RETRY_DELAY;
                    }
                }
            }
        }
    }

    fn show(&self, shown: Option<DashboardCounts>) {
        self.shown.lock().now[self.live][self.gateway] = shown;
    }

    fn check(&self, now: DashboardCounts) {
        let (before, held) = {
            let mut shown = self.shown.lock();
            (
                shown.now[self.live][self.gateway].replace(now),
                shown.held[self.live],
            )
        };
        self.state.findings().shown += 1;
        let wrong = if now.viewers < 0 || now.fans < 0 {
            "less than nobody"
        } else if now.quality == Quality::Stale && emptied(before, now) {
            "nobody, while Redis is away"
        } else if held.is_some_and(|[viewers, fans]| now.viewers < viewers || now.fans < fans) {
            "fewer than are there"
        } else {
            return;
        };
        let broken = Broken::new(
            Promise::Dashboard,
            format!("{wrong}: {now:?} after {before:?}"),
        );
        self.state.broke(
            broken
                .live(self.state.live_id(self.live))
                .gateway(self.gateway),
        );
    }
}

/// Whether more than a few were there and all are gone at once.
fn emptied(before: Option<DashboardCounts>, now: DashboardCounts) -> bool {
    before.is_some_and(|before| {
        before.epoch == now.epoch
            && ((before.fans > 3 && now.fans == 0) || (before.viewers > 3 && now.viewers == 0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fall_to_zero_within_an_epoch_is_an_emptying() {
        let shown = |epoch, fans| DashboardCounts {
            epoch,
            viewers: 10,
            fans,
            guests: 0,
            quality: Quality::Stale,
        };
        assert!(emptied(Some(shown(1, 9)), shown(1, 0)));
        assert!(!emptied(Some(shown(1, 9)), shown(2, 0)));
        assert!(!emptied(Some(shown(1, 2)), shown(1, 0)));
        assert!(!emptied(Some(shown(1, 9)), shown(1, 5)));
        assert!(!emptied(None, shown(1, 0)));
    }
}
