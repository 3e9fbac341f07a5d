//! A rate limiter that books ahead, first come, first served: each booking learns how long it must
//! wait. The admission of sockets and the flusher use it.
//!
//! The state is one point in time, which each booking moves on (GCRA). Pure: `now` comes in.
//! Bookings may have any size: a large one goes when its turn comes, and later ones wait until it
//! is paid for.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug, Clone)]
pub(crate) struct RateLimiter {
    interval: Duration,
    burst: Duration,
    next: Option<Instant>,
}

impl RateLimiter {
    /// Admits `per_second` units in the long run, at least 1; after a pause, the units that fit
    /// into `burst` go at once.
    pub(crate) fn new(per_second: u32, burst: Duration) -> Self {
        Self {
            interval: Duration::from_secs(1) / per_second.max(1),
            burst,
            next: None,
        }
    }

    /// How long a booking at `now` would have to wait.
    pub(crate) fn wait(&self, now: Instant) -> Duration {
        match self.next {
            Some(next) => next.saturating_duration_since(now),
            None => Duration::ZERO,
        }
    }

    /// Books `units` that go together. Returns how long they wait.
    pub(crate) fn book(&mut self, units: u32, now: Instant) -> Duration {
        let wait = self.wait(now);
        let rested = now.checked_sub(self.burst).unwrap_or(now);
        self.next = Some(self.next_from(rested) + self.interval * units);
        wait
    }

    /// Later bookings go at `at` or after.
    pub(crate) fn not_before(&mut self, at: Instant) {
        self.next = Some(self.next_from(at));
    }

    /// The time of the next booking, or `at` if that is later.
    fn next_from(&self, at: Instant) -> Instant {
        match self.next {
            Some(next) => next.max(at),
            None => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: Duration = Duration::from_millis(100);

    #[test]
    fn bookings_stay_within_the_rate_and_the_burst() {
        let now = Instant::now();
        let mut limiter = RateLimiter::new(100, BURST);
        let waits: Vec<Duration> = (0..200).map(|_| limiter.book(1, now)).collect();
        let within = |span: u64| {
            waits
                .iter()
                .filter(|wait| **wait <= Duration::from_millis(span))
                .count()
        };
        assert_eq!(within(0), 11);
        assert_eq!(within(1_000), 111);
        assert!(waits.is_sorted(), "first come, first");
    }

    #[test]
    fn a_pause_is_worth_no_more_than_the_burst() {
        let now = Instant::now();
        let mut limiter = RateLimiter::new(100, BURST);
        limiter.book(1, now);
        let later = now + Duration::from_secs(60);
        assert_eq!(
            (0..50).filter(|_| limiter.book(1, later).is_zero()).count(),
            11
        );
    }

    #[test]
    fn a_large_booking_goes_in_its_turn_and_later_ones_wait() {
        let now = Instant::now();
        let mut limiter = RateLimiter::new(1_000, Duration::ZERO);
        assert_eq!(limiter.book(50_000, now), Duration::ZERO);
        assert_eq!(limiter.book(1, now), Duration::from_secs(50));
        assert_eq!(
            limiter.book(1, now + Duration::from_secs(49)),
            Duration::from_millis(1_001)
        );
    }
}
