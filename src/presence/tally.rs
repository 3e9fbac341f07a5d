//! How many viewers a room shows: viewers here, viewers on other gateways, and viewers who are moving between two
//! gateways. Never awaits; the shown figure is an atomic, so that a heartbeat takes no lock for it.
//!
//! A gateway that drains keeps the seats of the users it sent away until they have had time to arrive elsewhere, so
//! that no figure dips. Until then a user may be counted on both gateways. While anybody is moving, the figure
//! therefore rises only to the sum without the moving viewers: those are certain not to be counted twice.

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
    /// Counts as a viewer who was sent to another gateway and may have arrived there.
    Moving,
}

/// How a seat counted before and after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeatChange {
    pub(crate) before: SeatState,
    pub(crate) after: SeatState,
}

/// A number of viewers, and how many of them are moving to another gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ViewerCount {
    /// All viewers.
    pub viewers: u64,
    /// Viewers among them who may also be counted on another gateway.
    pub moving: u64,
    /// Viewers among them who are away.
    pub away: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Tally {
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
    pub(crate) fn shown(&self) -> u64 {
        self.shown.load(Ordering::Relaxed)
    }

    /// Viewers on this gateway.
    pub(crate) fn here(&self) -> ViewerCount {
        self.counted.lock().here
    }

    /// Viewers on all gateways who are away. A user who is away on two gateways counts twice.
    pub(crate) fn away(&self) -> u64 {
        let counted = self.counted.lock();
        counted.here.away.saturating_add(counted.elsewhere.away)
    }

    pub(crate) fn apply(&self, change: SeatChange) {
        if change.before == change.after {
            return;
        }
        let mut counted = self.counted.lock();
        let here = &mut counted.here;
        match change.before {
            SeatState::Uncounted => here.viewers += 1,
            SeatState::Here => {}
            SeatState::Away => here.away -= 1,
            SeatState::Moving => here.moving -= 1,
        }
        match change.after {
            SeatState::Uncounted => here.viewers -= 1,
            SeatState::Here => {}
            SeatState::Away => here.away += 1,
            SeatState::Moving => here.moving += 1,
        }
        self.update_shown(&counted);
    }

    /// Sets the sum of the other gateways' viewers. `read` runs under the lock, so that an older sum never replaces a
    /// newer one.
    pub(crate) fn set_elsewhere(&self, read: impl FnOnce() -> ViewerCount) {
        let mut counted = self.counted.lock();
        counted.elsewhere = read();
        self.update_shown(&counted);
    }

    /// Takes over what another gateway showed. It bears on the figure only while anybody is moving.
    pub(crate) fn go_on_from(&self, shown: u64) {
        let counted = self.counted.lock();
        self.shown.store(shown, Ordering::Relaxed);
        self.update_shown(&counted);
    }

    pub(crate) fn clear(&self) {
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
    use super::SeatState::{Away, Here, Moving, Uncounted};
    use super::*;

    fn turn(tally: &Tally, before: SeatState, after: SeatState) -> u64 {
        tally.apply(SeatChange { before, after });
        tally.shown()
    }

    fn elsewhere(tally: &Tally, viewers: u64, moving: u64) -> u64 {
        tally.set_elsewhere(|| ViewerCount { viewers, moving, away: 0 });
        tally.shown()
    }

    #[test]
    fn a_user_who_moves_to_another_gateway_counts_as_one_viewer_throughout() {
        let tally = Tally::default();
        assert_eq!(turn(&tally, Uncounted, Here), 1);
        assert_eq!(turn(&tally, Here, Moving), 1);
        assert_eq!(elsewhere(&tally, 1, 0), 1);
        assert_eq!(turn(&tally, Moving, Uncounted), 1);
    }

    #[test]
    fn users_who_move_here_from_another_gateway_count_as_one_viewer_each_throughout() {
        let tally = Tally::default();
        assert_eq!(elsewhere(&tally, 5, 0), 5);
        assert_eq!(elsewhere(&tally, 5, 2), 5);
        assert_eq!(turn(&tally, Uncounted, Here), 5);
        assert_eq!(elsewhere(&tally, 4, 1), 5);
        assert_eq!(turn(&tally, Uncounted, Here), 5);
        assert_eq!(elsewhere(&tally, 3, 0), 5);
    }

    #[test]
    fn a_user_who_never_arrives_is_gone_once_the_old_seat_is_given_up() {
        let tally = Tally::default();
        elsewhere(&tally, 5, 0);
        assert_eq!(elsewhere(&tally, 5, 2), 5);
        assert_eq!(elsewhere(&tally, 3, 0), 3);
    }

    #[test]
    fn new_viewers_are_shown_at_the_latest_when_everybody_has_moved() {
        let tally = Tally::default();
        elsewhere(&tally, 2, 1);
        assert_eq!(turn(&tally, Uncounted, Here), 2, "the new viewer may be the one who moves");
        assert_eq!(turn(&tally, Uncounted, Here), 3, "only one of the two can be moving");
        assert_eq!(elsewhere(&tally, 2, 0), 4, "neither was moving");
    }

    #[test]
    fn a_user_who_returns_to_a_kept_seat_counts_as_before() {
        let tally = Tally::default();
        turn(&tally, Uncounted, Here);
        turn(&tally, Here, Moving);
        assert_eq!(turn(&tally, Moving, Here), 1);
        assert_eq!(tally.here(), ViewerCount { viewers: 1, moving: 0, away: 0 });
    }

    #[test]
    fn who_is_away_counts_as_before_and_is_told_apart() {
        let tally = Tally::default();
        tally.set_elsewhere(|| ViewerCount { viewers: 4, moving: 0, away: 1 });
        turn(&tally, Uncounted, Here);
        assert_eq!((turn(&tally, Here, Away), tally.away()), (5, 2));
        assert_eq!((turn(&tally, Away, Moving), tally.away()), (5, 1));
        assert_eq!((turn(&tally, Moving, Away), tally.away()), (5, 2));
        assert_eq!((turn(&tally, Away, Uncounted), tally.away()), (4, 1));
    }

    #[test]
    fn a_gateway_that_begins_while_viewers_move_goes_on_with_what_another_one_showed() {
        let tally = Tally::default();
        assert_eq!(elsewhere(&tally, 20, 5), 15);
        tally.go_on_from(20);
        assert_eq!(tally.shown(), 20);
        assert_eq!(turn(&tally, Uncounted, Here), 20, "one of the five");
        tally.go_on_from(50);
        assert_eq!(tally.shown(), 21, "never more than there can be");
        assert_eq!(elsewhere(&tally, 20, 0), 21);
        tally.go_on_from(7);
        assert_eq!(tally.shown(), 21, "nobody is moving");
    }
}
