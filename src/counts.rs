//! Owns the answer to "when do counts update?": the pace at which figures go out to dashboards.
//!
//! Throttled, never debounced. The first change, and any change to or from zero, goes out at once; later ones at most
//! once per [`GAP`] a live, the newest always within it. What a dashboard is told is the newest figures when its socket
//! gets to it, so a slow one skips figures instead of falling behind.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Millis;
use crate::core::Core;
use crate::rooms::Room;
use crate::rooms::room::Figures;

/// Least time between two counts of one live, in ms.
pub const GAP: Millis = 500;

/// Least time between two counts of one live that go out because a figure came to or from zero, in ms. Bounds what a
/// viewer who flaps can cost.
pub const ZERO_GAP: Millis = 50;

/// How far to trust figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// The store confirmed every slice within the lease.
    Exact,
    /// A slice has not been heard of within its lease.
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

impl Pace {
    /// Decides, and notes what is sent.
    pub fn step(&mut self, now: Millis, figures: Figures, quality: Quality) -> Step {
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
        let due = shown.at + if zero || shown.quality != quality { ZERO_GAP } else { GAP };
        if now < due {
            return Step::At(due);
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
            let step = room.pace.lock().step(now, room.figures(), core.quality(&room));
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
mod tests {
    use super::*;

    fn figures(viewers: u64, fans: u64) -> Figures {
        Figures { viewers, fans }
    }

    #[test]
    fn the_first_change_goes_out_at_once_and_the_rest_are_throttled() {
        let mut pace = Pace::default();
        assert_eq!(pace.step(0, figures(1, 1), Quality::Exact), Step::Send);
        assert_eq!(pace.step(1_000, figures(2, 1), Quality::Exact), Step::Send);
        assert_eq!(pace.step(1_010, figures(3, 1), Quality::Exact), Step::At(1_500));
        assert_eq!(pace.step(1_400, figures(9, 1), Quality::Exact), Step::At(1_500));
        assert_eq!(pace.step(1_500, figures(9, 1), Quality::Exact), Step::Send);
        assert_eq!(pace.step(1_501, figures(9, 1), Quality::Exact), Step::Nothing);
    }

    #[test]
    fn who_begins_to_watch_is_not_left_with_what_it_was_told_first() {
        let mut pace = Pace::default();
        assert!(!pace.told(1_000, figures(1, 0), Quality::Exact));
        assert_eq!(pace.step(1_001, figures(2, 0), Quality::Exact), Step::Send, "the first change goes out at once");
        assert!(pace.told(1_100, figures(3, 0), Quality::Exact));
        assert_eq!(pace.step(1_200, figures(2, 0), Quality::Exact), Step::At(1_501));
        assert_eq!(pace.step(1_501, figures(2, 0), Quality::Exact), Step::Send, "it was told 3");
        assert_eq!(pace.step(2_100, figures(2, 0), Quality::Exact), Step::Nothing);
    }

    #[test]
    fn people_who_keep_joining_do_not_starve_it() {
        let mut pace = Pace::default();
        let sent = (0..10_000).filter(|now| pace.step(*now, figures(1 + now, 1), Quality::Exact) == Step::Send).count();
        assert_eq!(sent, 20);
    }

    #[test]
    fn zero_goes_out_at_once_but_flapping_is_bounded() {
        let mut pace = Pace::default();
        pace.step(0, figures(1, 1), Quality::Exact);
        assert_eq!(pace.step(60, figures(1, 0), Quality::Exact), Step::Send);
        assert_eq!(pace.step(70, figures(0, 0), Quality::Exact), Step::At(110));
        let flaps = (200..1_200).filter(|n| pace.step(*n, figures(n % 2, 0), Quality::Exact) == Step::Send).count();
        assert!(flaps <= 21, "{flaps}");
    }
}
