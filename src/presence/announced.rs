//! What the store and the peers were told of a room's viewers on this gateway, and whether they must be told again. The
//! publisher announces; the checker and the keeper ask for another announcement.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::queue::Queued;
use super::tally::ViewerCount;
use crate::base::clock::Millis;

#[derive(Debug, Default)]
pub struct Announced {
    /// Whether the room is in the publisher's queue.
    pub queued: Queued,
    /// The next announcement is due even if nothing changed: the store has something other than was announced.
    required: AtomicBool,
    /// The last announcement; `None` if there was none, or the store may have something else.
    last: Mutex<Option<Announcement>>,
    /// How many viewers were away when the peers were told last.
    away_told: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    pub count: ViewerCount,
    pub number: u64,
    pub at: Millis,
    /// The incarnation of this gateway that announced it.
    pub incarnation: u32,
}

impl Announced {
    /// This gateway's viewers as the store has them, and their number, if this incarnation announced them.
    pub fn stored(&self, incarnation: u32) -> Option<(u64, u64)> {
        let last = *self.last.lock();
        last.filter(|last| last.incarnation == incarnation).map(|last| (last.count.viewers, last.number))
    }

    pub fn note(&self, announcement: Announcement) {
        *self.last.lock() = Some(announcement);
    }

    /// Forgets the last announcement: the store may have something else.
    pub fn forget(&self) {
        *self.last.lock() = None;
    }

    pub fn note_away_told(&self, away: u64) {
        self.away_told.store(away, Ordering::Relaxed);
    }

    pub fn away_told(&self) -> u64 {
        self.away_told.load(Ordering::Relaxed)
    }

    pub fn require(&self) {
        self.required.store(true, Ordering::Release);
    }

    /// Whether an announcement was required. Asked once.
    pub fn take_required(&self) -> bool {
        self.required.swap(false, Ordering::AcqRel)
    }

    pub fn is_older_than(&self, then: Millis) -> bool {
        self.last.lock().is_some_and(|last| last.at < then)
    }

    /// Whether the store has, or may have, something other than it should. Such a room must not be evicted, since
    /// nobody else would announce its viewers.
    pub fn owes(&self, incarnation: u32, count: ViewerCount) -> bool {
        self.required.load(Ordering::Acquire) || self.is_due(incarnation, count)
    }

    /// Whether these viewers must be announced. A gateway that never announced anybody need not announce zero viewers.
    pub fn is_due(&self, incarnation: u32, count: ViewerCount) -> bool {
        match *self.last.lock() {
            Some(last) if last.incarnation == incarnation => last.count != count,
            _ => count.viewers > 0,
        }
    }
}
