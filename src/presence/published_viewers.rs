//! The last message to the peers about a room's viewers on this gateway, and whether another one is
//! due. The publisher sends the messages.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::queue::Queued;
use super::tally::ViewerCount;

#[derive(Debug, Default)]
pub struct PublishedViewers {
    /// Whether the room is in the publisher's queue.
    pub queued: Queued,
    last: Mutex<ViewerCount>,
    /// The next message is due even if nothing changes: a peer may have missed the last one.
    due: AtomicBool,
    /// The next message asks the peers for their viewers.
    asks: AtomicBool,
}

impl PublishedViewers {
    pub fn note(&self, count: ViewerCount) {
        *self.last.lock() = count;
    }

    /// Requires another message to the peers.
    pub fn require(&self) {
        self.due.store(true, Ordering::Release);
    }

    /// Makes the next message ask the peers for their viewers.
    pub fn ask(&self) {
        self.asks.store(true, Ordering::Release);
    }

    /// Whether a message is required. The call resets that.
    pub fn take_required(&self) -> bool {
        self.due.swap(false, Ordering::AcqRel)
    }

    /// Whether the next message must ask the peers. The call resets that.
    pub fn take_asks(&self) -> bool {
        self.asks.swap(false, Ordering::AcqRel)
    }

    /// Whether this gateway has told the peers of no viewers, or that the last viewer left.
    pub fn is_nothing(&self) -> bool {
        *self.last.lock() == ViewerCount::default()
    }

    /// Whether the peers have, or may have, another count than this one. The gateway must not evict
    /// such a room, since no other gateway would tell the peers.
    pub fn differs_from(&self, count: ViewerCount) -> bool {
        self.due.load(Ordering::Acquire)
            || self.asks.load(Ordering::Acquire)
            || *self.last.lock() != count
    }
}
