//! When a room's next check is due, and whether the check must cover everything. Part of the
//! schedule in [`super::checks`].

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::base::backoff::Backoff;
use crate::base::clock::Millis;

/// The delay before the retry of a check without an answer.
const BACKOFF: Backoff = Backoff {
    first: 1_000,
    longest: 10_000,
};

/// A room's own part of the schedule.
#[derive(Debug)]
pub struct CheckDue {
    /// When the next check is due; [`Millis::MAX`] while one is under way.
    at: AtomicU64,
    /// There is reason to doubt everything that the store holds of the live.
    doubted: AtomicBool,
    /// When everything that the store said of the live came into doubt; 0 if it is in no doubt.
    doubted_since: AtomicU64,
    /// This gateway does not receive the live's messages.
    deaf: AtomicBool,
    /// This gateway does not receive the messages of some gateway.
    unheard: AtomicBool,
    /// When the last check that the store answered began; 0 is never.
    checked: AtomicU64,
    /// The number of checks in a row without an answer.
    unanswered: AtomicU32,
    /// The room's last turn of fan checks.
    fan_turn: AtomicU64,
}

impl Default for CheckDue {
    fn default() -> Self {
        Self {
            at: AtomicU64::new(Millis::MAX),
            doubted: AtomicBool::new(false),
            doubted_since: AtomicU64::new(0),
            deaf: AtomicBool::new(false),
            unheard: AtomicBool::new(false),
            checked: AtomicU64::new(0),
            unanswered: AtomicU32::new(0),
            fan_turn: AtomicU64::new(0),
        }
    }
}

impl CheckDue {
    /// Makes the check due at that time at the latest.
    pub fn by(&self, at: Millis) {
        self.at.fetch_min(at, Ordering::SeqCst);
    }

    /// Takes the check if it is due. A doubt that arises later makes another one due.
    pub fn take(&self, now: Millis) -> bool {
        self.at() <= now && self.at.swap(Millis::MAX, Ordering::AcqRel) <= now
    }

    /// Makes the next check cover everything.
    pub fn doubt(&self) {
        self.doubted.store(true, Ordering::SeqCst);
    }

    /// Notes that everything that the store said of the live is in doubt from `now` on.
    pub fn doubt_all(&self, now: Millis) {
        self.doubted_since.fetch_max(now.max(1), Ordering::SeqCst);
        self.doubt();
    }

    /// When the doubt about everything began, if there is one.
    pub fn doubted_since(&self) -> Option<Millis> {
        match self.doubted_since.load(Ordering::SeqCst) {
            0 => None,
            since => Some(since),
        }
    }

    /// Ends the doubt that began at `since`. False if another doubt has begun, or this one has
    /// ended.
    pub fn end_doubt(&self, since: Millis) -> bool {
        self.doubted_since
            .compare_exchange(since, 0, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Whether there was reason for doubt since the last check.
    pub fn take_doubt(&self) -> bool {
        self.doubted.swap(false, Ordering::AcqRel)
    }

    /// How long to wait after a call without an answer, in ms.
    pub fn wait(&self) -> Millis {
        BACKOFF.wait(self.unanswered.load(Ordering::Relaxed))
    }

    /// Notes that a check got no answer: the wait after the next one is longer.
    pub fn unanswered(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the store answered, or should answer now: the retry after the next check without
    /// an answer comes soon.
    pub fn answered(&self) {
        self.unanswered.store(0, Ordering::Relaxed);
    }

    /// Notes that this gateway receives the live's messages again.
    pub fn hears(&self) {
        self.deaf.store(false, Ordering::Relaxed);
    }

    /// When the check is due; [`Millis::MAX`] while one is under way.
    pub fn at(&self) -> Millis {
        self.at.load(Ordering::Acquire)
    }

    /// Notes that this gateway does not receive the live's messages. True if it did before.
    pub fn set_deaf(&self) -> bool {
        !self.deaf.swap(true, Ordering::Relaxed)
    }

    /// Takes the turn of fan checks with this number. False if a caller has taken it before.
    pub fn take_fan_turn(&self, turn: u64) -> bool {
        self.fan_turn.swap(turn, Ordering::Relaxed) != turn
    }

    pub fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
    }

    /// Notes whether messages of some gateway do not arrive. True if that changed.
    pub fn set_unheard(&self, unheard: bool) -> bool {
        self.unheard.swap(unheard, Ordering::Relaxed) != unheard
    }

    pub fn is_unheard(&self) -> bool {
        self.unheard.load(Ordering::Relaxed)
    }

    /// Whether messages about the live may be missing, from one gateway or from all: more frequent
    /// checks make up for them.
    pub fn may_miss_messages(&self) -> bool {
        self.is_deaf() || self.is_unheard()
    }

    /// Notes that the store answered a check that began at `began`.
    pub fn note_checked(&self, began: Millis) {
        self.checked.fetch_max(began, Ordering::Relaxed);
    }

    /// Whether the store answered a check that began after `then`.
    pub fn is_checked_since(&self, then: Millis) -> bool {
        self.checked.load(Ordering::Relaxed) > then
    }

    /// Whether the store answered a check that began less than `within` ago.
    pub fn is_checked_within(&self, within: Millis, now: Millis) -> bool {
        let checked = self.checked.load(Ordering::Relaxed);
        checked != 0 && now.saturating_sub(checked) <= within
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
