//! Time: one clock for the whole process, which tests can pause and move.
//!
//! Inside the gateway, a point in time is a [`Moment`], counted from the gateway's start; Unix time
//! is only shown to people. A gateway judges by this clock alone whether another one lives, never
//! by that gateway's or the store's.

use std::ops::{Add, AddAssign, Sub};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// A length of time in milliseconds.
pub type Millis = u64;

/// Milliseconds since 1970.
pub type UnixMillis = u64;

/// A point in time on the gateway's own clock, in whole milliseconds since the start. Arithmetic
/// stops at [`Moment::START`] and at [`Moment::NEVER`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// When the clock started.
    pub const START: Self = Self(0);

    /// Later than every time that the clock shows.
    pub const NEVER: Self = Self(u64::MAX);

    /// Milliseconds since the start.
    pub const fn as_millis(self) -> Millis {
        self.0
    }

    /// How much later this is than `earlier`; 0 if it is not later.
    pub const fn since(self, earlier: Self) -> Millis {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Millis> for Moment {
    type Output = Self;

    fn add(self, length: Millis) -> Self {
        Self(self.0.saturating_add(length))
    }
}

impl AddAssign<Millis> for Moment {
    fn add_assign(&mut self, length: Millis) {
        *self = *self + length;
    }
}

impl Sub<Millis> for Moment {
    type Output = Self;

    fn sub(self, length: Millis) -> Self {
        Self(self.0.saturating_sub(length))
    }
}

/// The moment so many milliseconds after the start, for tests.
#[cfg(test)]
pub(crate) const fn moment(since_start: Millis) -> Moment {
    Moment(since_start)
}

/// A [`Moment`] that tasks share.
#[derive(Debug, Default)]
pub(crate) struct AtomicMoment(AtomicU64);

impl AtomicMoment {
    pub(crate) const fn new(moment: Moment) -> Self {
        Self(AtomicU64::new(moment.0))
    }

    pub(crate) fn load(&self) -> Moment {
        Moment(self.0.load(Ordering::Relaxed))
    }

    pub(crate) fn store(&self, moment: Moment) {
        self.0.store(moment.0, Ordering::Relaxed);
    }

    /// Moves on to `moment`, never back.
    pub(crate) fn advance(&self, moment: Moment) {
        self.0.fetch_max(moment.0, Ordering::Relaxed);
    }

    /// Sets `to` if this is still `from`; whether it was.
    pub(crate) fn replace(&self, from: Moment, to: Moment) -> bool {
        self.0
            .compare_exchange(from.0, to.0, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

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

    /// The time since the start, monotonic; stands still under `tokio::time::pause`.
    pub fn now(&self) -> Moment {
        Moment(self.start.elapsed().as_millis() as Millis)
    }

    /// What [`Clock::now`] was at that instant; [`Moment::START`] before the start.
    pub fn at(&self, instant: Instant) -> Moment {
        Moment(millis(instant.saturating_duration_since(self.start)))
    }

    /// Waits until [`Clock::now`] is `at`.
    pub async fn sleep_until(&self, at: Moment) {
        tokio::time::sleep_until(self.start + Duration::from_millis(at.0)).await;
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
