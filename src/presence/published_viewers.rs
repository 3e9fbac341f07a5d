//! The last message to the peers about a room's viewers on this gateway, and whether another one is
//! due. The publisher sends the messages.

use parking_lot::Mutex;

use super::tally::ViewerCount;

#[derive(Debug, Default)]
pub struct PublishedViewers(Mutex<Published>);

#[derive(Debug, Default)]
struct Published {
    last: ViewerCount,
    /// The next message is due even if nothing changes: a peer may have missed the last one.
    due: bool,
    /// The next message asks the peers for their viewers.
    asks: bool,
}

impl PublishedViewers {
    pub fn note(&self, count: ViewerCount) {
        self.0.lock().last = count;
    }

    /// Requires another message to the peers.
    pub fn require(&self) {
        self.0.lock().due = true;
    }

    /// Makes the next message ask the peers for their viewers.
    pub fn ask(&self) {
        self.0.lock().asks = true;
    }

    /// Whether a message is required. The call resets that.
    pub fn take_required(&self) -> bool {
        std::mem::take(&mut self.0.lock().due)
    }

    /// Whether the next message must ask the peers. The call resets that.
    pub fn take_asks(&self) -> bool {
        std::mem::take(&mut self.0.lock().asks)
    }

    /// Whether this gateway has told the peers of no viewers, or that the last viewer left.
    pub fn is_nothing(&self) -> bool {
        self.0.lock().last == ViewerCount::default()
    }

    /// Whether the peers have, or may have, another count than this one. The gateway must not evict
    /// such a room, since no other gateway would tell the peers.
    pub fn differs_from(&self, count: ViewerCount) -> bool {
        let published = self.0.lock();
        published.due || published.asks || published.last != count
    }
}
