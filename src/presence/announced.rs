//! What the store and the peers were told of a room's viewers on this gateway, and whether they must be told again.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::queue::Queued;
use super::tally::ViewerCount;
use crate::base::clock::Millis;

/// What was announced of a room, and what is to be announced.
#[derive(Debug, Default)]
pub struct Announced {
    /// Whether the room is in the publisher's queue.
    pub queued: Queued,
    /// The store has something else than was announced: it is to be told in any case.
    must: AtomicBool,
    /// Viewers as the store has them; `None` if it has none of this gateway's, or that is not known.
    last: Mutex<Option<Announcement>>,
}

/// What the store was told of viewers.
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

    /// The store may have something else than was announced: whatever is there is announced again.
    pub fn forget(&self) {
        *self.last.lock() = None;
    }

    /// Viewers are to be announced even if there are none.
    pub fn require(&self) {
        self.must.store(true, Ordering::Release);
    }

    /// Whether viewers must be announced in any case. Asked once.
    pub fn take_required(&self) -> bool {
        self.must.swap(false, Ordering::AcqRel)
    }

    /// Whether something was announced, and that before `then`.
    pub fn is_older_than(&self, then: Millis) -> bool {
        self.last.lock().is_some_and(|last| last.at < then)
    }

    /// Whether the store has, or may have, something else than it should. Such a room may not be evicted, for nobody
    /// else would put it right.
    pub fn owes(&self, incarnation: u32, count: ViewerCount) -> bool {
        self.must.load(Ordering::Acquire) || self.is_due(incarnation, count)
    }

    /// Whether these viewers are to be announced. The store need not hear of nobody if it never heard of anybody.
    pub fn is_due(&self, incarnation: u32, count: ViewerCount) -> bool {
        match *self.last.lock() {
            Some(last) if last.incarnation == incarnation => last.count != count,
            _ => count.viewers > 0,
        }
    }
}
