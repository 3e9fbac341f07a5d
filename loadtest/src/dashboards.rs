//! CrowdDashboards that watch the lives while the crowd is in them, to hold the gateway's counts against
//! the truth.
//!
//! One socket per live: a dashboard's messages are few, and no per-socket limit gets in the way.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use parking_lot::Mutex;
use rollcall::presence::figures::Quality;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::client::Failure;
use crate::dashboard::{Dashboard, DashboardCounts, Update};
use crate::plan::CrowdPlan;
use crate::report::RunReport;
use crate::tally::unix_micros;

const POLL: Duration = Duration::from_millis(5);

/// What one dashboard shows.
#[derive(Debug, Clone, Default)]
struct DashboardView {
    counts: Option<[i64; 3]>,
    /// Since when it shows these counts, in Unix microseconds.
    since: u64,
    quality: Option<Quality>,
    messages: u64,
    /// What it should keep showing, once it was right.
    held_to: Option<[i64; 3]>,
    wobbles: u64,
    /// The lowest counts since then.
    lowest: Option<[i64; 3]>,
    failure: Option<String>,
}

/// A live whose dashboard did not become right.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WrongLive {
    pub(crate) live_id: String,
    pub(crate) expected_viewers: i64,
    pub(crate) expected_fans: i64,
    pub(crate) expected_guests: i64,
    pub(crate) shown_viewers: Option<i64>,
    pub(crate) shown_fans: Option<i64>,
    pub(crate) shown_guests: Option<i64>,
    pub(crate) quality: Option<Quality>,
    pub(crate) failure: Option<String>,
}

/// One comparison of all dashboards with the truth.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DashboardVerdict {
    pub(crate) correct: usize,
    pub(crate) watched: usize,
    /// From the last change of the crowd until the last dashboard was right; null if one never was.
    pub(crate) time_to_correct_ms: Option<f64>,
    pub(crate) wrong: Vec<WrongLive>,
    /// Since when all are right, in Unix microseconds.
    #[serde(skip)]
    right_since: u64,
}

impl DashboardVerdict {
    /// The verdict with its time counted from the crowd's last change (Unix microseconds).
    pub(crate) fn timed_from(mut self, changed: u64) -> Self {
        let right_after = self.right_since.saturating_sub(changed) as f64 / 1e3;
        self.time_to_correct_ms = if self.wrong.is_empty() {
            Some(right_after)
        } else {
            None
        };
        self
    }

    /// Every dashboard must have been right.
    pub(crate) fn judge(&self, report: &mut RunReport, when: &str) {
        let Self {
            correct, watched, ..
        } = self;
        report.must(
            self.wrong.is_empty(),
            format!("{when}: {correct} of {watched} dashboards right"),
        );
    }
}

/// The dashboards of a run; they close when this is dropped.
pub(crate) struct CrowdDashboards {
    live_ids: Vec<String>,
    views: Arc<Mutex<Vec<DashboardView>>>,
    _sockets: JoinSet<()>,
}

impl CrowdDashboards {
    pub(crate) async fn open(plan: &CrowdPlan, lives: usize) -> anyhow::Result<Self> {
        let lives = lives.min(plan.lives);
        let views = Arc::new(Mutex::new(vec![DashboardView::default(); lives]));
        let live_ids: Vec<String> = (0..lives as u32).map(|live| plan.live_id(live)).collect();
        let mut sockets = JoinSet::new();
        for (live, live_id) in live_ids.iter().enumerate() {
            let user_id = plan.dashboard_id(live as u32);
            let mut dashboard = Dashboard::connect(&plan.target, &user_id, plan.connect_timeout)
                .await
                .map_err(|failure| cannot_connect(&failure))?;
            dashboard
                .watch(live_id)
                .await
                .map_err(|failure| cannot_connect(&failure))?;
            sockets.spawn(record(dashboard, views.clone(), live));
        }
        Ok(Self {
            live_ids,
            views,
            _sockets: sockets,
        })
    }

    /// Waits until every dashboard shows the truth.
    pub(crate) async fn settle(&self, truth: &[[u32; 3]], within: Duration) -> DashboardVerdict {
        let deadline = Instant::now() + within;
        loop {
            let verdict = self.compare(truth);
            if verdict.wrong.is_empty() || Instant::now() >= deadline {
                return verdict;
            }
            sleep(POLL).await;
        }
    }

    /// From now on a message with other counts is a wobble.
    pub(crate) fn hold(&self, truth: &[[u32; 3]]) {
        for (view, truth) in self.views.lock().iter_mut().zip(of_every_live(truth)) {
            view.held_to = Some(truth.map(i64::from));
            view.lowest = view.counts;
        }
    }

    /// The crowd may change again. Returns how many wobbles there were.
    pub(crate) fn release(&self) -> u64 {
        let mut wobbles = 0;
        for view in self.views.lock().iter_mut() {
            view.held_to = None;
            wobbles += view.wobbles;
        }
        wobbles
    }

    /// The lowest counts that were shown since [`Self::hold`], viewers, fans and guests, added up over
    /// the lives.
    pub(crate) fn lowest(&self) -> [i64; 3] {
        let mut sum = [0; 3];
        for view in self.views.lock().iter() {
            let lowest = view.lowest.unwrap_or_default();
            for (sum, lowest) in sum.iter_mut().zip(lowest) {
                *sum += lowest;
            }
        }
        sum
    }

    pub(crate) fn messages(&self) -> u64 {
        self.views.lock().iter().map(|view| view.messages).sum()
    }

    fn compare(&self, truth: &[[u32; 3]]) -> DashboardVerdict {
        let watched = self.live_ids.len();
        let mut verdict = DashboardVerdict {
            correct: 0,
            watched,
            time_to_correct_ms: None,
            wrong: Vec::new(),
            right_since: 0,
        };
        for ((live_id, view), truth) in self
            .live_ids
            .iter()
            .zip(self.views.lock().iter())
            .zip(of_every_live(truth))
        {
            let expected = truth.map(i64::from);
            if view.counts == Some(expected) && view.failure.is_none() {
                verdict.correct += 1;
                verdict.right_since = verdict.right_since.max(view.since);
            } else {
                verdict.wrong.push(WrongLive {
                    live_id: live_id.clone(),
                    expected_viewers: expected[0],
                    expected_fans: expected[1],
                    expected_guests: expected[2],
                    shown_viewers: view.counts.map(|counts| counts[0]),
                    shown_fans: view.counts.map(|counts| counts[1]),
                    shown_guests: view.counts.map(|counts| counts[2]),
                    quality: view.quality,
                    failure: view.failure.clone(),
                });
            }
        }
        verdict
    }
}

async fn record(mut dashboard: Dashboard, views: Arc<Mutex<Vec<DashboardView>>>, live: usize) {
    let failure = loop {
        match dashboard.next().await {
            Ok(Update::Counts(counts)) => views.lock()[live].shown(counts),
            Ok(Update::Refused(kind)) => break kind,
            Ok(Update::LiveClosed) => {}
            Err(failure) => break failure.kind,
        }
    };
    views.lock()[live].failure = Some(failure.into_owned());
}

impl DashboardView {
    fn shown(
        &mut self,
        DashboardCounts {
            viewers,
            fans,
            guests,
            quality,
            ..
        }: DashboardCounts,
    ) {
        let shown = [viewers, fans, guests];
        let counts = Some(shown);
        if self.counts != counts {
            self.since = unix_micros();
        }
        self.counts = counts;
        if let Some(low) = &mut self.lowest {
            for (low, shown) in low.iter_mut().zip(shown) {
                *low = shown.min(*low);
            }
        }
        self.quality = Some(quality);
        self.messages += 1;
        self.wobbles += u64::from(self.held_to.is_some() && counts != self.held_to);
    }
}
/// A live that no worker counted has nobody in it.
fn of_every_live(truth: &[[u32; 3]]) -> impl Iterator<Item = &[u32; 3]> {
    truth.iter().chain(std::iter::repeat(&[0; 3]))
}

fn cannot_connect(failure: &Failure) -> anyhow::Error {
    anyhow!("a dashboard cannot connect: {}", failure.kind)
}
