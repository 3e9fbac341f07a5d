//! How fast this gateway says again whom it holds, after slices forgot: all slices share one rate.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::base::clock::{Millis, Moment, millis};
use crate::base::ids::OnlineSet;
use crate::base::rate_limiter::RateLimiter;
use crate::presence::Slice;

/// The most members per second that this gateway says again because the store lost them. A member
/// costs Redis about 2 µs, so one gateway takes at most a twentieth of the time of a Redis that has
/// just come back. A user of the platform counts twice: the call also takes out when the user was
/// seen. Ordinary joins and leaves do not count and do not wait.
pub const RESYNC_RATE: u32 = 20_000;

/// How far a burst after a quiet time may exceed the rate, as a time at the rate.
const RESYNC_BURST: Duration = Duration::from_millis(250);

pub struct ResyncLimit(Mutex<RateLimiter>);

impl Default for ResyncLimit {
    fn default() -> Self {
        Self(Mutex::new(RateLimiter::new(RESYNC_RATE, RESYNC_BURST)))
    }
}

impl ResyncLimit {
    /// When the users of a slice may be said again; `None` is now. A slice that asks again keeps
    /// its time.
    pub fn at(&self, slice: &Slice, now: Moment) -> Option<Moment> {
        let each = match slice.id.set {
            OnlineSet::Live(_) => 1,
            OnlineSet::Users => 2,
            // They are few, and a live must not end because they waited.
            OnlineSet::Streamers => return None,
        };
        slice
            .lock()
            .says_again_at(now, |users| self.book(users.saturating_mul(each)))
    }

    /// Reserves a time for that many users, and answers how long it is until then, in ms.
    fn book(&self, users: u32) -> Millis {
        millis(self.0.lock().book(users, Instant::now()))
    }
}

#[cfg(test)]
mod tests;
