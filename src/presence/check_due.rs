//! When a room's next check is due, and whether the check must cover everything. Part of the
//! schedule in [`super::checks`].

use parking_lot::Mutex;

use crate::base::backoff::Backoff;
use crate::base::clock::{Millis, Moment};

/// The delay before the retry of a check without an answer.
const BACKOFF: Backoff = Backoff {
    first: 1_000,
    longest: 10_000,
};

/// A room's own part of the schedule, or the platform's.
#[derive(Debug, Default)]
pub struct CheckDue(Mutex<CheckState>);

#[derive(Debug, Default)]
struct CheckState {
    /// When the next check is due; `None` while one is under way.
    at: Option<Moment>,
    /// There is reason to doubt everything that the store holds of the live.
    doubted: bool,
    /// This gateway does not receive the live's messages.
    deaf: bool,
    /// This gateway does not receive the messages of some gateway.
    unheard: bool,
    /// When the last check that the store answered began.
    checked: Option<Moment>,
    /// The number of checks in a row without an answer.
    unanswered: u32,
    /// The room's last turn of fan checks.
    fan_turn: u64,
}

impl CheckDue {
    /// Makes the check due at that time at the latest.
    pub fn by(&self, at: Moment) {
        let mut state = self.0.lock();
        state.at = Some(match state.at {
            Some(due) => due.min(at),
            None => at,
        });
    }

    /// When the check is due; [`Moment::NEVER`] while one is under way.
    pub fn at(&self) -> Moment {
        self.0.lock().at.unwrap_or(Moment::NEVER)
    }

    /// Takes the check if it is due. A doubt that arises later makes another one due.
    pub fn take(&self, now: Moment) -> bool {
        self.0.lock().at.take_if(|at| *at <= now).is_some()
    }

    /// Makes the next check cover everything.
    pub fn doubt(&self) {
        self.0.lock().doubted = true;
    }

    /// Whether there was reason for doubt since the last check.
    pub fn take_doubt(&self) -> bool {
        std::mem::take(&mut self.0.lock().doubted)
    }

    /// How long to wait after a call without an answer, in ms.
    pub fn wait(&self) -> Millis {
        BACKOFF.wait(self.0.lock().unanswered)
    }

    /// Notes that a check got no answer: the wait after the next one is longer.
    pub fn unanswered(&self) {
        self.0.lock().unanswered += 1;
    }

    /// Notes that the store answered, or should answer now: the retry after the next check without
    /// an answer comes soon.
    pub fn answered(&self) {
        self.0.lock().unanswered = 0;
    }

    /// Takes the turn of fan checks with this number. False if a caller has taken it before.
    pub fn take_fan_turn(&self, turn: u64) -> bool {
        std::mem::replace(&mut self.0.lock().fan_turn, turn) != turn
    }

    /// Notes that the store answered a check that began at `began`.
    pub fn note_checked(&self, began: Moment) {
        let mut state = self.0.lock();
        state.checked = state.checked.max(Some(began));
    }

    /// Whether the store answered a check that began after `then`.
    pub fn is_checked_since(&self, then: Moment) -> bool {
        self.0.lock().checked > Some(then)
    }

    /// Whether the store answered a check that began less than `within` ago.
    pub fn is_checked_within(&self, within: Millis, now: Moment) -> bool {
        match self.0.lock().checked {
            Some(checked) => now.since(checked) <= within,
            None => false,
        }
    }

    // ------------------------------------------------------------------------------------ messages

    /// Notes that this gateway does not receive the live's messages. True if it did before.
    pub fn set_deaf(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().deaf, true)
    }

    /// Notes that this gateway receives the live's messages again.
    pub fn hears(&self) {
        self.0.lock().deaf = false;
    }

    pub fn is_deaf(&self) -> bool {
        self.0.lock().deaf
    }

    /// Notes whether messages of some gateway do not arrive. True if that changed.
    pub fn set_unheard(&self, unheard: bool) -> bool {
        std::mem::replace(&mut self.0.lock().unheard, unheard) != unheard
    }

    pub fn is_unheard(&self) -> bool {
        self.0.lock().unheard
    }

    /// Whether messages about the live may be missing, from one gateway or from all: more frequent
    /// checks make up for them.
    pub fn may_miss_messages(&self) -> bool {
        let state = self.0.lock();
        state.deaf || state.unheard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_without_an_answer_waits_longer_until_one_is_answered() {
        let due = CheckDue::default();
        for wait in [1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
            assert_eq!(due.wait(), wait);
            due.unanswered();
        }
        due.answered();
        assert_eq!(due.wait(), 1_000);
    }
}
