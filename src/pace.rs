//! Owns a rate: when the next of many may go, so that no more than so many go in a second, first come first.
//!
//! GCRA as a value: one point in time that each booking moves on. Pure, `now` comes in. Unlike the limiters of the
//! `governor` crate it books ahead (a booking says how long to wait and keeps its place) and takes bookings of any
//! size: a large one goes when its turn comes, and those after it wait until it is paid. Used where sockets are admitted
//! and where members are asserted anew.

use std::time::Duration;

use tokio::time::Instant;

/// A rate with a small burst.
#[derive(Debug, Clone)]
pub struct Pace {
    each: Duration,
    burst: Duration,
    next: Option<Instant>,
}

impl Pace {
    /// `per_second` in the long run, at least 1; after a pause what fits into `burst` goes at once.
    #[must_use]
    pub fn new(per_second: u32, burst: Duration) -> Self {
        Self { each: Duration::from_secs(1) / per_second.max(1), burst, next: None }
    }

    /// How long something booked at `now` would have to wait.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
    }

    /// Books `units` that go together; answers how long they wait.
    pub fn book(&mut self, units: u32, now: Instant) -> Duration {
        let wait = self.wait(now);
        let rested = now.checked_sub(self.burst).unwrap_or(now);
        let at = self.next.map_or(rested, |next| next.max(rested));
        self.next = Some(at + self.each * units);
        wait
    }

    /// Nothing booked from here on goes before `at`.
    pub fn not_before(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.max(at)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURST: Duration = Duration::from_millis(100);

    #[test]
    fn no_more_go_than_the_rate_and_the_burst() {
        let now = Instant::now();
        let mut pace = Pace::new(100, BURST);
        let waits: Vec<Duration> = (0..200).map(|_| pace.book(1, now)).collect();
        let within = |span: u64| waits.iter().filter(|wait| **wait <= Duration::from_millis(span)).count();
        assert_eq!(within(0), 11);
        assert_eq!(within(1_000), 111);
        assert!(waits.is_sorted(), "first come, first");
    }

    #[test]
    fn a_pause_is_worth_no_more_than_the_burst() {
        let now = Instant::now();
        let mut pace = Pace::new(100, BURST);
        pace.book(1, now);
        let later = now + Duration::from_secs(60);
        assert_eq!((0..50).filter(|_| pace.book(1, later).is_zero()).count(), 11);
    }

    #[test]
    fn a_large_booking_goes_in_its_turn_and_those_after_it_wait() {
        let now = Instant::now();
        let mut pace = Pace::new(1_000, Duration::ZERO);
        assert_eq!(pace.book(50_000, now), Duration::ZERO);
        assert_eq!(pace.book(1, now), Duration::from_secs(50));
        assert_eq!(pace.book(1, now + Duration::from_secs(49)), Duration::from_millis(1_001));
    }
}
