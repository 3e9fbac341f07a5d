//! Time: one clock for the whole process, which tests can pause and move.
//!
//! Inside the gateway, time is milliseconds since its start (`Millis`, which fit an atomic); Unix
//! time is only shown to people. A gateway judges by this clock alone whether another one lives,
//! never by that gateway's or the store's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Milliseconds since the gateway started.
pub type Millis = u64;

/// Milliseconds since 1970.
pub type UnixMillis = u64;

/// Reads the time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Milliseconds since the start, monotonic; stands still under `tokio::time::pause`.
    pub fn now(&self) -> Millis {
        self.start.elapsed().as_millis() as Millis
    }

    /// What [`Clock::now`] was at that moment; 0 before the start.
    pub fn at(&self, moment: Instant) -> Millis {
        millis(moment.saturating_duration_since(self.start))
    }

    /// Waits until [`Clock::now`] is `at`.
    pub async fn sleep_until(&self, at: Millis) {
        tokio::time::sleep_until(self.start + Duration::from_millis(at)).await;
    }

    /// Milliseconds since 1970, from the machine's wall clock.
    pub fn unix(&self) -> UnixMillis {
        unix_now()
    }
}

/// Milliseconds since 1970, from the machine's wall clock.
pub fn unix_now() -> UnixMillis {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_millis() as UnixMillis
}

/// A duration in whole milliseconds, or the most there is.
pub fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}
