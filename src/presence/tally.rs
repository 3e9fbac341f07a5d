//! The number of viewers of a room on this gateway, and the number of viewers who are away on all
//! gateways. Never awaits.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// How a user's seat counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeatState {
    /// Counts in no figure: the seat is empty, or none of its sockets counts.
    Uncounted,
    /// Counts as a viewer.
    Here,
    /// Counts as a viewer who is away: every socket that counts has said so.
    Away,
}

/// The state of a seat before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeatChange {
    pub(crate) before: SeatState,
    pub(crate) after: SeatState,
}

/// The viewers of one gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewerCount {
    /// All of them.
    pub viewers: u64,
    /// Viewers among them who are away.
    pub away: u64,
}

impl ViewerCount {
    fn apply(&mut self, change: SeatChange) {
        if change.before == change.after {
            return;
        }
        match change.before {
            SeatState::Uncounted => self.viewers += 1,
            SeatState::Here => {}
            SeatState::Away => self.away -= 1,
        }
        match change.after {
            SeatState::Uncounted => self.viewers -= 1,
            SeatState::Here => {}
            SeatState::Away => self.away += 1,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct ViewerTally {
    counted: Mutex<CountedViewers>,
    /// A copy of the number of viewers here, for heartbeats, which take no lock.
    viewers_here: AtomicU64,
}

#[derive(Debug, Default)]
struct CountedViewers {
    here: ViewerCount,
    away_elsewhere: u64,
}

impl ViewerTally {
    /// Viewers on this gateway.
    pub(crate) fn here(&self) -> ViewerCount {
        self.counted.lock().here
    }

    /// The number of viewers on this gateway.
    pub(crate) fn viewers_here(&self) -> u64 {
        self.viewers_here.load(Ordering::Relaxed)
    }

    /// The viewers on all gateways who are away. A user who is away on two gateways counts twice.
    pub(crate) fn away(&self) -> u64 {
        let counted = self.counted.lock();
        counted.here.away.saturating_add(counted.away_elsewhere)
    }

    pub(crate) fn apply(&self, change: SeatChange) {
        if change.before != change.after {
            self.apply_all(&[change]);
        }
    }

    /// Applies changes in one step, so that nobody sees one without the others.
    pub(crate) fn apply_all(&self, changes: &[SeatChange]) {
        let mut counted = self.counted.lock();
        for change in changes {
            counted.here.apply(*change);
        }
        self.viewers_here
            .store(counted.here.viewers, Ordering::Relaxed);
    }

    /// Sets the number of viewers who are away on the other gateways. `read` runs under the lock,
    /// so that an older sum never replaces a newer one.
    pub(crate) fn set_away_elsewhere(&self, read: impl FnOnce() -> u64) {
        let mut counted = self.counted.lock();
        counted.away_elsewhere = read();
    }

    pub(crate) fn clear(&self) {
        *self.counted.lock() = CountedViewers::default();
        self.viewers_here.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::SeatState::{Away, Here, Uncounted};
    use super::*;

    #[test]
    fn who_is_away_counts_as_before_and_is_told_apart() {
        let tally = ViewerTally::default();
        let turn = |before, after| {
            tally.apply(SeatChange { before, after });
            (tally.here().viewers, tally.away())
        };
        tally.set_away_elsewhere(|| 1);
        assert_eq!(turn(Uncounted, Here), (1, 1));
        assert_eq!(turn(Here, Away), (1, 2));
        assert_eq!(turn(Uncounted, Away), (2, 3));
        assert_eq!(turn(Away, Here), (2, 2));
        assert_eq!(turn(Away, Uncounted), (1, 1));
        assert_eq!(turn(Here, Uncounted), (0, 1));
    }
}
