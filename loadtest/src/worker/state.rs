//! What a worker's tasks share: the phase of the run, a handle for each joined viewer, and the
//! counters. It starts no task and opens no socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::line::ViewerLines;
use super::messages::Progress;
use crate::error_kind::ErrorName;
use crate::plan::{CrowdPlan, ViewerPart};
use crate::tally::Tally;

const RAMP: u8 = 0;
const STEADY: u8 = 1;
const COOL: u8 = 2;

/// How the worker reaches a viewer that has joined.
#[derive(Debug, Default)]
pub(crate) struct ViewerHandle {
    wake: Notify,
    leaving: AtomicBool,
    cut: AtomicBool,
    bystander: bool,
}

/// Why a viewer was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    Heartbeat,
    Cut,
    Leave,
}

impl ViewerHandle {
    /// A heartbeat is due.
    pub(crate) fn beat(&self) {
        self.wake.notify_one();
    }

    /// Unless the viewer is a bystander, it loses its connection with no close frame, and
    /// reconnects.
    pub(crate) fn cut(&self) {
        if !self.bystander {
            self.cut.store(true, Ordering::Relaxed);
            self.wake.notify_one();
        }
    }

    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Waits until the worker wants something.
    pub(crate) async fn woken(&self) -> Wake {
        self.wake.notified().await;
        match (
            self.cut.load(Ordering::Relaxed),
            self.leaving.load(Ordering::Relaxed),
        ) {
            (true, _) => Wake::Cut,
            (_, true) => Wake::Leave,
            _ => Wake::Heartbeat,
        }
    }
}

pub(crate) struct WorkerState {
    pub(crate) plan: CrowdPlan,
    /// What the viewers' lines share.
    pub(super) lines: ViewerLines,
    roster: Vec<ViewerPart>,
    phase: AtomicU8,
    connected: AtomicU64,
    /// The viewers whose heartbeats are due in each slot of the interval. A viewer's slot follows
    /// from its number, so the whole crowd is spread evenly over the interval, whatever the ramp
    /// was.
    slots: Mutex<Vec<Vec<Arc<ViewerHandle>>>>,
    /// Viewers and fans by live.
    counts: Mutex<Vec<[u32; 3]>>,
    tally: Mutex<Tally>,
}

impl WorkerState {
    pub(super) fn new(plan: CrowdPlan, lines: ViewerLines, slots: usize) -> Self {
        Self {
            lines,
            roster: plan.roster(),
            phase: AtomicU8::new(RAMP),
            connected: AtomicU64::new(0),
            slots: Mutex::new(vec![Vec::new(); slots]),
            counts: Mutex::new(vec![[0; 3]; plan.lives]),
            tally: Mutex::default(),
            plan,
        }
    }

    pub(crate) fn role(&self, number: usize) -> ViewerPart {
        self.roster[number]
    }

    /// Changes the counters under their lock.
    pub(crate) fn tally<T>(&self, change: impl FnOnce(&mut Tally) -> T) -> T {
        change(&mut self.tally.lock())
    }

    /// Starts the measured phase. In the closed loop each viewer begins at once.
    pub(crate) fn start_steady(&self) {
        self.phase.store(STEADY, Ordering::Relaxed);
        if self.plan.closed_loop {
            self.handles().iter().for_each(|viewer| viewer.beat());
        }
    }

    /// Ends the measured phase: no viewer sends a new heartbeat.
    pub(crate) fn cool_down(&self) {
        self.phase.store(COOL, Ordering::Relaxed);
    }

    pub(crate) fn is_steady(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == STEADY
    }

    pub(crate) fn is_cool(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == COOL
    }

    pub(crate) fn is_looping(&self) -> bool {
        self.plan.closed_loop && self.is_steady()
    }

    /// Wakes the viewers of one slot; the slots repeat. Returns how many there were.
    pub(crate) fn wake_slot(&self, slot: u32) -> usize {
        let slots = self.slots.lock();
        let due = &slots[slot as usize % slots.len()];
        due.iter().for_each(|viewer| viewer.beat());
        due.len()
    }

    pub(crate) fn handles(&self) -> Vec<Arc<ViewerHandle>> {
        self.slots.lock().iter().flatten().cloned().collect()
    }

    pub(crate) fn counts(&self) -> Vec<[u32; 3]> {
        self.counts.lock().clone()
    }

    /// How many viewers have a socket that joined.
    pub(crate) fn connected(&self) -> u64 {
        self.connected.load(Ordering::Relaxed)
    }

    pub(crate) fn progress(&self) -> Progress {
        self.tally(|tally| Progress {
            joined: tally.joined,
            failed: tally.failed,
            returned: tally.storm.returned,
            stranded: tally.storm.stranded,
            lost: tally.lost,
            sent: tally.sent,
            acked: tally.acked,
            pending: tally.pending(),
            cool: self.is_cool(),
        })
    }

    pub(crate) fn viewer_joined(&self, number: usize) -> Arc<ViewerHandle> {
        self.tally(|tally| {
            tally.joined += 1;
            tally.joins.mark();
        });
        self.change_counts(self.role(number), |count| *count += 1);
        self.add_handle(number)
    }

    /// A viewer that was cut off is back. Its live counted it all the time.
    pub(crate) fn viewer_returned(&self, number: usize, after: Duration) -> Arc<ViewerHandle> {
        self.tally(|tally| {
            tally.storm.returned += 1;
            tally.storm.returns.mark();
            tally.storm.back.record(after);
        });
        self.add_handle(number)
    }

    fn add_handle(&self, number: usize) -> Arc<ViewerHandle> {
        self.connected.fetch_add(1, Ordering::Relaxed);
        let viewer = Arc::new(ViewerHandle {
            bystander: self.plan.stays(number),
            ..ViewerHandle::default()
        });
        let mut slots = self.slots.lock();
        let slot = (number as u128 * slots.len() as u128 / self.plan.viewers as u128) as usize;
        slots[slot].push(viewer.clone());
        viewer
    }

    /// A viewer that had joined is gone; `record` writes into the tally how it ended.
    pub(crate) fn viewer_ended(&self, role: ViewerPart, record: impl FnOnce(&mut Tally)) {
        self.change_counts(role, |count| *count -= 1);
        self.tally(record);
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    /// A viewer's connection was cut on purpose; its live still counts it.
    pub(crate) fn viewer_was_cut(&self, unanswered: u64) {
        // Nobody knows whether heartbeats that were under way arrived: they are no heartbeats of
        // this run.
        self.tally(|tally| tally.sent -= unanswered);
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    /// A viewer that was cut off gave up reconnecting.
    pub(crate) fn viewer_stranded(&self, role: ViewerPart, kind: ErrorName) {
        self.change_counts(role, |count| *count -= 1);
        self.tally(|tally| {
            tally.storm.stranded += 1;
            tally.error(kind, 1);
        });
    }

    pub(crate) fn viewer_refused(&self, kind: ErrorName) {
        self.tally(|tally| {
            tally.failed += 1;
            tally.error(kind, 1);
        });
    }

    fn change_counts(&self, role: ViewerPart, change: impl Fn(&mut u32)) {
        let mut counts = self.counts.lock();
        let [viewers, fans, guests] = &mut counts[role.live as usize];
        change(viewers);
        if role.fan {
            change(fans);
        }
        if role.guest {
            change(guests);
        }
    }
}
