//! What the peers were told of a room's viewers on this gateway, and whether they must be told
//! again. The publisher tells them.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::queue::Queued;
use super::tally::ViewerCount;

#[derive(Debug, Default)]
pub struct ToldPeers {
    /// Whether the room is in the publisher's queue.
    pub queued: Queued,
    last: Mutex<ViewerCount>,
    /// The next message is due even if nothing changes: a peer may not know the last one.
    due: AtomicBool,
    /// The next message asks the peers for theirs.
    asks: AtomicBool,
}

impl ToldPeers {
    pub fn note(&self, count: ViewerCount) {
        *self.last.lock() = count;
    }

    /// Has the peers told once more.
    pub fn require(&self) {
        self.due.store(true, Ordering::Release);
    }

    /// Has the peers asked for their viewers.
    pub fn ask(&self) {
        self.asks.store(true, Ordering::Release);
    }

    /// Whether a message was required. Asked once.
    pub fn take_required(&self) -> bool {
        self.due.swap(false, Ordering::AcqRel)
    }

    /// Whether the peers are to be asked. Asked once.
    pub fn take_asks(&self) -> bool {
        self.asks.swap(false, Ordering::AcqRel)
    }

    /// Whether this gateway has told of no viewers, or has told that the last of them left.
    pub fn told_nothing(&self) -> bool {
        *self.last.lock() == ViewerCount::default()
    }

    /// Whether the peers know, or may know, other viewers than these. Such a room must not be
    /// evicted, since nobody else would tell them.
    pub fn owes(&self, count: ViewerCount) -> bool {
        self.due.load(Ordering::Acquire)
            || self.asks.load(Ordering::Acquire)
            || *self.last.lock() != count
    }
}
