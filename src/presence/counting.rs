//! When a gateway writes the figures of a room into the live's record, for other services.
//! `sync::count` writes them.
//!
//! A room waits in the recorder's queue from its first change until its write is due, so further
//! changes cost nothing. All gateways of a live hear every change, and one of them writes
//! ([`crate::presence::Room::is_counted_here`]).

use parking_lot::Mutex;

use super::queue::Queued;
use crate::base::clock::{Millis, Moment, millis};
use crate::store::COUNT_EVERY;

/// How long a first change waits for related changes, in ms: the answer of the fan check, other
/// viewers.
const LAG: Millis = 500;

#[derive(Debug, Default)]
pub struct Counting {
    /// Whether the room waits for the recorder.
    pub queued: Queued,
    next: Mutex<NextWrite>,
}

#[derive(Debug, Default)]
struct NextWrite {
    not_before: Moment,
    /// The record has wrong figures, even if another gateway should have written them.
    required: bool,
}

impl Counting {
    /// When the write of a change is due.
    pub fn due(&self, now: Moment) -> Moment {
        (now + LAG).max(self.next.lock().not_before)
    }

    /// Notes that the record is up to date, or that another gateway writes it.
    pub fn settled(&self, now: Moment) {
        self.next.lock().not_before = now + millis(COUNT_EVERY);
    }

    /// Makes this gateway write, at this time at the earliest.
    pub fn require(&self, at: Moment) {
        *self.next.lock() = NextWrite {
            not_before: at,
            required: true,
        };
    }

    /// Whether this gateway must write, even if another gateway writes too. The call resets it.
    pub fn take_required(&self) -> bool {
        std::mem::take(&mut self.next.lock().required)
    }
}
