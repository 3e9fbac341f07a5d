//! The number of viewers of a room on this gateway, and on all gateways how many of them are away and
//! how many watch. Never awaits.

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
    /// Counts as a viewer who watches: a socket that counts says so.
    Watching,
}

/// The state of a seat before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeatChange {
    pub(crate) before: SeatState,
    pub(crate) after: SeatState,
}

/// The viewers of one gateway, or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewerCount {
    /// All of them.
    pub viewers: u64,
    /// Viewers among them who are away.
    pub away: u64,
    /// Viewers among them who watch.
    pub watching: u64,
}

impl ViewerCount {
    /// The same, with no more away or watching than there are viewers.
    pub(crate) fn bounded(self) -> Self {
        Self {
            away: self.away.min(self.viewers),
            watching: self.watching.min(self.viewers),
            ..self
        }
    }

    /// The viewers of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            viewers: self.viewers.saturating_add(other.viewers),
            away: self.away.saturating_add(other.away),
            watching: self.watching.saturating_add(other.watching),
        }
    }

    fn apply(&mut self, change: SeatChange) {
        if change.before == change.after {
            return;
        }
        match change.before {
            SeatState::Uncounted => self.viewers += 1,
            SeatState::Here => {}
            SeatState::Away => self.away -= 1,
            SeatState::Watching => self.watching -= 1,
        }
        match change.after {
            SeatState::Uncounted => self.viewers -= 1,
            SeatState::Here => {}
            SeatState::Away => self.away += 1,
            SeatState::Watching => self.watching += 1,
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
    elsewhere: ViewerCount,
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

    /// Of this many viewers on all gateways, how many are away, and how many watch. A user with
    /// sockets on two gateways may count twice.
    pub(crate) fn looks_of(&self, viewers: u64) -> ViewerCount {
        let counted = self.counted.lock();
        let both = counted.here.and(counted.elsewhere);
        ViewerCount { viewers, ..both }.bounded()
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

    /// Sets the viewers on the other gateways. `read` runs under the lock, so that an older sum
    /// never replaces a newer one.
    pub(crate) fn set_elsewhere(&self, read: impl FnOnce() -> ViewerCount) {
        let mut counted = self.counted.lock();
        counted.elsewhere = read();
    }

    pub(crate) fn clear(&self) {
        *self.counted.lock() = CountedViewers::default();
        self.viewers_here.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::SeatState::{Away, Here, Uncounted, Watching};
    use super::*;

    #[test]
    fn who_is_away_or_watches_counts_as_before_and_is_told_apart() {
        let tally = ViewerTally::default();
        let turn = |before, after| {
            tally.apply(SeatChange { before, after });
            let looks = tally.looks_of(9);
            (tally.here().viewers, looks.away, looks.watching)
        };
        tally.set_elsewhere(|| ViewerCount {
            viewers: 5,
            away: 1,
            watching: 3,
        });
        assert_eq!(turn(Uncounted, Here), (1, 1, 3));
        assert_eq!(turn(Here, Away), (1, 2, 3));
        assert_eq!(turn(Uncounted, Watching), (2, 2, 4));
        assert_eq!(turn(Away, Watching), (2, 1, 5));
        assert_eq!(turn(Watching, Away), (2, 2, 4));
        assert_eq!(turn(Away, Uncounted), (1, 1, 4));
        assert_eq!(turn(Watching, Uncounted), (0, 1, 3));
        assert_eq!(tally.looks_of(2).watching, 2);
    }
}
