//! Owns how many viewers a room shows: those here, those on other gateways, and those who are on the way between two.
//! Never awaits; what is shown is an atomic, so that a heartbeat takes no lock for it.
//!
//! A gateway that drains keeps the seats of those whom it sent away until they have had time to arrive elsewhere, so
//! that no figure dips. Until then they may be counted twice, there and here. So while somebody is on the way, the
//! figure only rises by those who surely are not: the sum without the seats kept for movers.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How a user's seat counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeatState {
    /// In no figure: nobody sits there, or only sockets that are not counted.
    Uncounted,
    /// As a viewer.
    Here,
    /// As a viewer who was sent to another gateway and may be there already.
    Moving,
}

/// How a seat counted, and how it counts now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeatChange {
    /// Before.
    pub before: SeatState,
    /// From now on.
    pub after: SeatState,
}

/// Viewers, with those among them who are on the way to another gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewerCount {
    /// All.
    pub viewers: u64,
    /// Those who may be counted elsewhere too.
    pub moving: u64,
}

/// The viewers of a room.
#[derive(Debug, Default)]
pub struct Tally {
    counted: Mutex<Counted>,
    shown: AtomicU64,
}

#[derive(Debug, Default)]
struct Counted {
    here: ViewerCount,
    elsewhere: ViewerCount,
}

impl Tally {
    /// Viewers on all gateways.
    pub fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    /// Viewers on this gateway.
    pub fn here(&self) -> ViewerCount {
        self.counted.lock().here
    }

    /// A seat counts otherwise than before.
    pub fn apply(&self, change: SeatChange) {
        if change.before == change.after {
            return;
        }
        let mut counted = self.counted.lock();
        let here = &mut counted.here;
        match change.before {
            SeatState::Uncounted => here.viewers += 1,
            SeatState::Here => {}
            SeatState::Moving => here.moving -= 1,
        }
        match change.after {
            SeatState::Uncounted => here.viewers -= 1,
            SeatState::Here => {}
            SeatState::Moving => here.moving += 1,
        }
        self.update_shown(&counted);
    }

    /// The sum of the other gateways' viewers, as it is read while no other can be set.
    pub fn set_elsewhere(&self, read: impl FnOnce() -> ViewerCount) {
        let mut counted = self.counted.lock();
        counted.elsewhere = read();
        self.update_shown(&counted);
    }

    /// Nobody is here any more.
    pub fn clear(&self) {
        *self.counted.lock() = Counted::default();
        self.shown.store(0, Ordering::Relaxed);
    }

    fn update_shown(&self, Counted { here, elsewhere }: &Counted) {
        let all = here.viewers.saturating_add(elsewhere.viewers);
        let moving = here.moving.saturating_add(elsewhere.moving);
        let shown = match moving {
            0 => all,
            moving => self.shown().min(all).max(all.saturating_sub(moving)),
        };
        self.shown.store(shown, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::SeatState::{Here, Moving, Uncounted};
    use super::*;

    fn turn(tally: &Tally, before: SeatState, after: SeatState) -> u64 {
        tally.apply(SeatChange { before, after });
        tally.shown()
    }

    fn elsewhere(tally: &Tally, viewers: u64, moving: u64) -> u64 {
        tally.set_elsewhere(|| ViewerCount { viewers, moving });
        tally.shown()
    }

    #[test]
    fn who_moves_from_here_to_there_is_one_viewer_all_along() {
        let tally = Tally::default();
        assert_eq!(turn(&tally, Uncounted, Here), 1);
        assert_eq!(turn(&tally, Here, Moving), 1);
        assert_eq!(elsewhere(&tally, 1, 0), 1);
        assert_eq!(turn(&tally, Moving, Uncounted), 1);
    }

    #[test]
    fn who_moves_from_there_to_here_is_one_viewer_all_along() {
        let tally = Tally::default();
        assert_eq!(elsewhere(&tally, 5, 0), 5);
        assert_eq!(elsewhere(&tally, 5, 2), 5);
        assert_eq!(turn(&tally, Uncounted, Here), 5);
        assert_eq!(elsewhere(&tally, 4, 1), 5);
        assert_eq!(turn(&tally, Uncounted, Here), 5);
        assert_eq!(elsewhere(&tally, 3, 0), 5);
    }

    #[test]
    fn who_never_arrives_is_gone_when_the_seat_is_given_up() {
        let tally = Tally::default();
        elsewhere(&tally, 5, 0);
        assert_eq!(elsewhere(&tally, 5, 2), 5);
        assert_eq!(elsewhere(&tally, 3, 0), 3);
    }

    #[test]
    fn who_surely_comes_besides_is_shown_at_the_latest_when_all_have_moved() {
        let tally = Tally::default();
        elsewhere(&tally, 2, 1);
        assert_eq!(turn(&tally, Uncounted, Here), 2, "it may be the one that moves");
        assert_eq!(turn(&tally, Uncounted, Here), 3, "one of the two is not");
        assert_eq!(elsewhere(&tally, 2, 0), 4, "neither was");
    }

    #[test]
    fn who_comes_back_to_the_seat_counts_as_before() {
        let tally = Tally::default();
        turn(&tally, Uncounted, Here);
        turn(&tally, Here, Moving);
        assert_eq!(turn(&tally, Moving, Here), 1);
        assert_eq!(tally.here(), ViewerCount { viewers: 1, moving: 0 });
    }
}
