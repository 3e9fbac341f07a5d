//! What is due in a room, and since when: for which loops the room waits, when its next counts and
//! its next check are due, and when it was last used. State only; the loops in `sync`, `peers` and
//! `dashboards` do the work.

use parking_lot::Mutex;

use crate::base::clock::Moment;
use crate::presence::check_due::CheckDue;
use crate::presence::counting::Counting;
use crate::presence::queue::Queued;
use crate::presence::throttle::Throttle;

#[derive(Debug, Default)]
pub struct Schedule {
    /// Whether the room is in the queue of the counts task.
    pub counts_queued: Queued,
    /// Whether the room is in the queue of the friends task.
    pub friends_queued: Queued,
    /// Whether the room is in the publisher's queue.
    pub publish_queued: Queued,
    /// Whether the loop that reads confirmed viewers knows the room.
    pub confirmed_queued: Queued,
    /// The next write of the figures into the record.
    pub counting: Counting,
    /// The next counts for the dashboards.
    pub throttle: Mutex<Throttle>,
    pub check: CheckDue,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    /// When a user last joined or left.
    used: Moment,
    /// When the store last confirmed that the epoch is open.
    confirmed_open: Moment,
}

impl Schedule {
    /// Nothing is due in a room that was made at `now`, after the store said that it is open.
    pub(super) fn new(now: Moment) -> Self {
        Self {
            last: Mutex::new(Last {
                used: now,
                confirmed_open: now,
            }),
            ..Self::default()
        }
    }

    /// Notes that a user joined or left.
    pub(in crate::presence) fn note_used(&self, now: Moment) {
        self.last.lock().used = now;
    }

    pub fn last_used(&self) -> Moment {
        self.last.lock().used
    }

    pub fn note_confirmed_open(&self, now: Moment) {
        let mut last = self.last.lock();
        last.confirmed_open = last.confirmed_open.max(now);
    }

    pub fn confirmed_open_at(&self) -> Moment {
        self.last.lock().confirmed_open
    }
}
