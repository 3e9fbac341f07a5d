//! Owns the answer to "when do counts update?": the pace at which figures go out to dashboards.
//!
//! Throttled, never debounced. The first change, and any change to or from zero, goes out at once; later ones at most
//! once per [`GAP`] a live, the newest always within it, or with a flush that is about to be over (see [`Underway`]), at
//! most 250 ms later: so dashboards and flusher fall into step. What a dashboard is told is the newest figures
//! when its socket gets to it, so a slow one skips figures instead of falling behind.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::{Millis, millis};
use crate::core::Core;
use crate::rooms::Room;
use crate::rooms::room::Figures;

/// Least time between two counts of one live, in ms.
pub const GAP: Millis = 500;

/// Least time between two counts of one live that go out because a figure came to or from zero, in ms. Bounds what a
/// viewer who flaps can cost.
pub const ZERO_GAP: Millis = 50;

/// Longest wait of counts that are due for a flush, in ms.
const PATIENCE: Millis = GAP / 2;

/// How far to trust figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// The store answers, and every gateway with viewers renews its lease, this one among them.
    Exact,
    /// A part of the store that has something of the live does not answer, or a gateway with viewers is late with its lease.
    Partial,
    /// The store is away: the last known figures.
    Stale,
}

/// Decides when figures go out. Pure.
#[derive(Debug, Default)]
pub struct Pace {
    sent: Option<Shown>,
    /// A dashboard was told other figures than those, when it began to watch.
    owed: bool,
}

/// Figures that were released to dashboards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// When; no two of one live have the same.
    pub at: Millis,
    /// The figures.
    pub figures: Figures,
    /// How far to trust them.
    pub quality: Quality,
}

/// What to do with a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing changed.
    Nothing,
    /// Send now.
    Send,
    /// Look again then.
    At(Millis),
}

/// Changes that the store has not confirmed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Underway {
    /// When the oldest was made.
    pub since: Millis,
    /// They have their turn within so long, in ms.
    pub flush: Millis,
}

impl Underway {
    /// Until when counts that are due at `due` wait for these changes. Told now, the oldest of them would be late by its
    /// age and [`GAP`]; told after their turn, what is known already would be late by the rest of the wait. So the counts
    /// wait when their age is the longer of the two, and not for a flush that takes much longer than it should.
    fn worth_waiting_for(self, now: Millis, due: Millis) -> Option<Millis> {
        let Self { since, flush } = self;
        let until = (since + 2 * flush).min(due + flush.min(PATIENCE));
        (since + flush / 2 <= now && since + flush <= due + PATIENCE && now < until).then_some(until)
    }
}

impl Pace {
    /// Decides, and notes what is sent. `underway` is asked only when it matters.
    pub fn step(
        &mut self,
        now: Millis,
        figures: Figures,
        quality: Quality,
        underway: impl FnOnce() -> Option<Underway>,
    ) -> Step {
        let next = Shown { at: now, figures, quality };
        let Some(shown) = self.sent else {
            self.sent = Some(next);
            return Step::Send;
        };
        if (shown.figures, shown.quality) == (figures, quality) && !self.owed {
            return Step::Nothing;
        }
        let crosses = |a: u64, b: u64| (a == 0) != (b == 0);
        let zero = crosses(shown.figures.viewers, figures.viewers) || crosses(shown.figures.fans, figures.fans);
        let urgent = zero || shown.quality != quality;
        let due = shown.at + if urgent { ZERO_GAP } else { GAP };
        if now < due {
            return Step::At(due);
        }
        if !urgent && let Some(until) = underway().and_then(|changes| changes.worth_waiting_for(now, due)) {
            return Step::At(until);
        }
        self.sent = Some(next);
        self.owed = false;
        Step::Send
    }

    /// A dashboard began to watch and was told these figures. True if the others, or it, must be told again.
    pub fn told(&mut self, now: Millis, figures: Figures, quality: Quality) -> bool {
        match self.sent {
            // Nobody was told before, so the next change is the first and goes out at once.
            None => self.sent = Some(Shown { at: now.saturating_sub(GAP), figures, quality }),
            Some(shown) => self.owed |= (shown.figures, shown.quality) != (figures, quality),
        }
        self.owed
    }

    /// What was released last.
    pub fn shown(&self) -> Option<Shown> {
        self.sent
    }
}

/// Rooms whose figures may have changed; each is in here once, so the queue is bounded by the number of rooms.
#[derive(Debug, Default)]
pub struct Changed {
    rooms: Mutex<Vec<Arc<Room>>>,
    notify: Notify,
}

impl Changed {
    /// The figures of a room may have changed.
    pub fn mark(&self, room: &Arc<Room>) {
        if room.is_watched() && !room.counts_queued.swap(true, Ordering::AcqRel) {
            self.rooms.lock().push(room.clone());
            self.notify.notify_one();
        }
    }
}

/// Runs until told to stop: looks at changed rooms and wakes their dashboards.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    // Rooms to look at again, by time; `waiting` has the newest time of each room, older entries of the heap are void.
    let mut later: BinaryHeap<Reverse<(Millis, usize)>> = BinaryHeap::new();
    let mut waiting: HashMap<usize, (Millis, Arc<Room>)> = HashMap::new();
    let mut health = core.store.health();
    loop {
        let next = later.peek().map(|Reverse((at, _))| *at);
        let due = async {
            match next {
                Some(at) => core.clock.sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = core.changed.notify.notified() => {}
            changed = health.changed() => {
                // A store that is gone for good leaves nothing to watch; the gateway is stopping.
                if changed.is_err() { return }
                for room in core.rooms.all() { core.changed.mark(&room) }
            }
            () = due => {}
        }
        let now = core.clock.now();
        let mut rooms = std::mem::take(&mut *core.changed.rooms.lock());
        while let Some(Reverse((at, key))) = later.peek().copied() {
            if at > now {
                break;
            }
            later.pop();
            if waiting.get(&key).is_some_and(|(newest, _)| *newest == at) {
                rooms.extend(waiting.remove(&key).map(|(_, room)| room));
            }
        }
        for room in rooms {
            // Cleared before the figures are read: what changes from here on queues the room again.
            room.counts_queued.store(false, Ordering::Release);
            let underway = || {
                let since = core.clock.at(room.unconfirmed_since()?);
                Some(Underway { since, flush: millis(core.config.flush) })
            };
            let step = room.pace.lock().step(now, room.figures(), core.quality(&room), underway);
            match step {
                Step::Nothing => {}
                Step::Send => room.signal_counts(),
                Step::At(at) => {
                    let key = Arc::as_ptr(&room) as usize;
                    if waiting.get(&key).is_none_or(|(newest, _)| at < *newest) {
                        waiting.insert(key, (at, room));
                        later.push(Reverse((at, key)));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
