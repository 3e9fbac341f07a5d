//! A rate limit whose state is one number: the time at which everything so far would be done at the
//! rate (GCRA). A socket keeps one for its messages, a room one for its joins. Pure: `now` comes
//! in.
//!
//! [`RateLimiter`](super::rate_limiter::RateLimiter) makes its callers wait; this limit refuses.

use std::sync::atomic::{AtomicU64, Ordering};

use super::clock::{Millis, Moment};

/// A number of events per second. After a pause, the rate admits a burst of them at once: two
/// seconds' worth, unless [`Rate::with_burst`] sets another burst.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    /// The time between two events, in ns; 0 for no limit.
    interval: u64,
    /// The time that a burst takes at the rate, in ns.
    burst: u64,
}

/// The time that a burst takes at the rate, in seconds.
const BURST_SECONDS: u64 = 2;

const SECOND: u64 = 1_000_000_000;

const NANOS: u64 = 1_000_000;

fn nanos(at: Moment) -> u64 {
    at.as_millis().saturating_mul(NANOS)
}

/// How one more event stands to the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    Within,
    /// The first beyond the rate since one was within.
    FirstBeyond,
    Beyond,
    /// A whole burst beyond the rate.
    FarBeyond,
}

impl Rate {
    /// 0 is no limit.
    pub(crate) fn per_second(rate: u32) -> Self {
        Self {
            interval: SECOND.checked_div(rate.into()).unwrap_or(0),
            burst: BURST_SECONDS * SECOND,
        }
    }

    /// The same rate with a burst that takes `seconds` at the rate.
    pub(crate) fn with_burst(self, seconds: u64) -> Self {
        Self {
            burst: seconds * SECOND,
            ..self
        }
    }

    pub(crate) fn is_unlimited(self) -> bool {
        self.interval == 0
    }

    /// Counts `units` more, whether or not they are within the rate: a client that goes on sending
    /// gets further behind.
    pub(crate) fn count(self, state: &mut u64, units: u32, now: Moment) -> Load {
        let now = nanos(now);
        let before = (*state).max(now);
        *state = before.saturating_add(self.interval.saturating_mul(units.into()));
        let after = *state - now;
        if after <= self.burst {
            Load::Within
        } else if before - now <= self.burst {
            // Even if it is far beyond: the client hears of it before anything worse happens.
            Load::FirstBeyond
        } else if after > 2 * self.burst {
            Load::FarBeyond
        } else {
            Load::Beyond
        }
    }

    /// Counts `units` more if all of them are within the rate, else nothing.
    ///
    /// # Errors
    /// How long until they are within the rate, in ms.
    pub(crate) fn take(self, state: &mut u64, units: u32, now: Moment) -> Result<(), Millis> {
        let before = (*state).max(nanos(now));
        let after = before.saturating_add(self.interval.saturating_mul(units.into()));
        match self.wait(after, now) {
            0 => {
                *state = after;
                Ok(())
            }
            wait => Err(wait),
        }
    }

    /// How long until the counted events are within the rate again, in ms.
    pub(crate) fn wait(self, state: u64, now: Moment) -> Millis {
        state
            .saturating_sub(nanos(now))
            .saturating_sub(self.burst)
            .div_ceil(NANOS)
    }

    /// Whether less than a whole burst is left.
    pub(crate) fn is_spent(self, state: u64, now: Moment) -> bool {
        state > nanos(now)
    }

    /// Counts one more event if it is within the rate, else nothing: refused events take nothing
    /// from the rate, however many there are.
    pub(crate) fn admit(self, state: &AtomicU64, now: Moment) -> bool {
        let now = nanos(now);
        let counted = state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
            let after = before.max(now) + self.interval;
            if after - now <= self.burst {
                Some(after)
            } else {
                None
            }
        });
        counted.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    fn loads(rate: Rate, times: impl Iterator<Item = Millis>) -> Vec<Load> {
        let mut state = 0;
        times
            .map(|now| rate.count(&mut state, 1, moment(now)))
            .collect()
    }

    #[test]
    fn a_flood_is_within_for_a_burst_beyond_for_another_and_then_far_beyond() {
        let loads = loads(Rate::per_second(10), std::iter::repeat_n(1_000, 60));
        let (within, beyond) = loads.split_at(20);
        assert!(within.iter().all(|load| *load == Load::Within));
        assert_eq!(beyond[0], Load::FirstBeyond);
        assert!(beyond[1..20].iter().all(|load| *load == Load::Beyond));
        assert!(beyond[20..].iter().all(|load| *load == Load::FarBeyond));
    }

    #[test]
    fn whoever_keeps_the_rate_is_always_within_it_and_a_pause_restores_the_burst() {
        let steady = loads(Rate::per_second(10), (0..1_000).map(|n| n * 100));
        assert!(steady.iter().all(|load| *load == Load::Within));
        let bursts = loads(Rate::per_second(10), (0..100).map(|n| n / 20 * 2_000));
        assert!(bursts.iter().all(|load| *load == Load::Within));
    }

    #[test]
    fn many_at_once_are_counted_as_many() {
        let mut state = 0;
        assert_eq!(
            Rate::per_second(10).count(&mut state, 20, moment(5)),
            Load::Within
        );
        assert_eq!(
            Rate::per_second(10).count(&mut state, 20, moment(5)),
            Load::FirstBeyond
        );
        assert_eq!(
            Rate::per_second(10).count(&mut state, u32::MAX, moment(5)),
            Load::FarBeyond
        );
        let mut state = 0;
        let loads = [100, 1].map(|units| Rate::per_second(10).count(&mut state, units, moment(5)));
        assert_eq!(
            loads,
            [Load::FirstBeyond, Load::FarBeyond],
            "first the warning"
        );
        assert_eq!(
            Rate::per_second(0).count(&mut 0, u32::MAX, moment(u64::MAX)),
            Load::Within
        );
    }

    #[test]
    fn a_burst_may_be_larger_and_what_is_overdrawn_is_waited_for() {
        let rate = Rate::per_second(10).with_burst(4);
        let mut state = 0;
        assert!((0..40).all(|_| rate.take(&mut state, 1, moment(0)).is_ok()));
        assert_eq!(rate.take(&mut state, 1, moment(0)), Err(100));
        assert_eq!(rate.wait(state, moment(0)), 0);
        rate.count(&mut state, 5, moment(0));
        assert_eq!(
            [0, 499, 500].map(|now| rate.wait(state, moment(now))),
            [500, 1, 0]
        );
        assert_eq!(
            [4_499, 4_500].map(|now| rate.is_spent(state, moment(now))),
            [true, false]
        );
    }

    #[test]
    fn those_who_are_refused_do_not_keep_others_out() {
        let (rate, state) = (Rate::per_second(10), AtomicU64::new(0));
        let admitted = |now| {
            (0..1_000)
                .filter(|_| rate.admit(&state, moment(now)))
                .count()
        };
        assert_eq!(
            [0, 50, 100, 1_100, 60_000].map(admitted),
            [20, 0, 1, 10, 20]
        );
        assert!((0..1_000).all(|_| Rate::per_second(0).admit(&AtomicU64::new(0), moment(0))));
    }
}
