//! The circuit breaker before a source of fans that may be down. Pure: the time comes in.
//!
//! Closed, every call may go. After [`FAILURES`] failures in a row it opens: no call goes for a
//! pause, which grows from one opening to the next. Then it is half open: one call tries. An answer
//! closes it, a failure opens it again.

use crate::base::backoff::Backoff;
use crate::base::clock::Moment;

/// Failures in a row that open it.
const FAILURES: u32 = 5;

/// The pauses. A source that is back is noticed within the longest.
const PAUSES: Backoff = Backoff {
    first: 500,
    longest: 4_000,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    HalfOpen,
    /// Until then.
    Open(Moment),
}

/// Whether a call may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    Go,
    /// Not before then.
    At(Moment),
    /// Not before the call that tries has ended.
    AfterTheTrial,
}

#[derive(Debug)]
pub struct Breaker {
    state: BreakerState,
    /// Failures in a row.
    failures: u32,
    /// Openings in a row.
    openings: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            state: BreakerState::Closed,
            failures: 0,
            openings: 0,
        }
    }
}

impl Breaker {
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Asks for one call. After [`Permit::Go`] the caller must report how the call ended.
    pub fn ask(&mut self, now: Moment) -> Permit {
        match self.state {
            BreakerState::Closed => Permit::Go,
            BreakerState::HalfOpen => Permit::AfterTheTrial,
            BreakerState::Open(until) if now < until => Permit::At(until),
            BreakerState::Open(_) => {
                self.state = BreakerState::HalfOpen;
                Permit::Go
            }
        }
    }

    /// Takes back a call that was let go and had nothing to ask.
    pub fn unused(&mut self, now: Moment) {
        if self.state == BreakerState::HalfOpen {
            self.state = BreakerState::Open(now);
        }
    }

    pub fn answered(&mut self) {
        *self = Self::default();
    }

    /// Notes a failure; `jitter` from 0 to 1 spreads the pause, so that gateways do not try in
    /// step.
    pub fn failed(&mut self, now: Moment, jitter: f64) {
        self.failures += 1;
        let opens = match self.state {
            BreakerState::Closed => self.failures >= FAILURES,
            BreakerState::HalfOpen => true,
            // A call of before the opening.
            BreakerState::Open(_) => false,
        };
        if opens {
            self.state = BreakerState::Open(now + PAUSES.jittered(self.openings, jitter));
            self.openings += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        for _ in 0..FAILURES {
            assert_eq!(breaker.ask(moment(0)), Permit::Go);
            breaker.failed(moment(0), 1.0);
        }
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it_and_an_answer_between_them_does_not() {
        let mut breaker = Breaker::default();
        for _ in 0..3 * FAILURES {
            breaker.failed(moment(0), 1.0);
            breaker.failed(moment(0), 1.0);
            breaker.answered();
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert_eq!(opened().state(), BreakerState::Open(moment(PAUSES.first)));
    }

    #[test]
    fn after_the_pause_one_call_tries_and_its_answer_closes_it() {
        let mut breaker = opened();
        assert_eq!(
            breaker.ask(moment(PAUSES.first - 1)),
            Permit::At(moment(PAUSES.first))
        );
        assert_eq!(breaker.ask(moment(PAUSES.first)), Permit::Go);
        assert_eq!(breaker.ask(moment(PAUSES.first)), Permit::AfterTheTrial);
        breaker.answered();
        assert_eq!(
            (breaker.ask(moment(PAUSES.first)), breaker.state()),
            (Permit::Go, BreakerState::Closed)
        );
    }

    #[test]
    fn pauses_grow_up_to_the_longest_and_start_again_after_an_answer() {
        let (mut breaker, mut now) = (opened(), 0);
        for wanted in [PAUSES.first, 1_000, 2_000, PAUSES.longest, PAUSES.longest] {
            assert_eq!(breaker.state(), BreakerState::Open(moment(now + wanted)));
            now += wanted;
            assert_eq!(breaker.ask(moment(now)), Permit::Go);
            breaker.failed(moment(now), 1.0);
        }
        breaker.answered();
        for _ in 0..FAILURES {
            breaker.failed(moment(now), 0.0);
        }
        assert_eq!(
            breaker.state(),
            BreakerState::Open(moment(now + PAUSES.first / 2)),
            "jitter"
        );
    }

    #[test]
    fn late_failures_prolong_nothing_and_a_late_answer_closes_it() {
        let mut breaker = opened();
        breaker.failed(moment(400), 1.0);
        assert_eq!(breaker.state(), BreakerState::Open(moment(PAUSES.first)));
        breaker.answered();
        assert_eq!(breaker.ask(moment(401)), Permit::Go);
    }

    #[test]
    fn a_trial_with_nothing_to_ask_leaves_the_next_one_free_to_try() {
        let mut breaker = opened();
        assert_eq!(breaker.ask(moment(PAUSES.first)), Permit::Go);
        breaker.unused(moment(PAUSES.first));
        assert_eq!(
            (breaker.ask(moment(PAUSES.first)), breaker.state()),
            (Permit::Go, BreakerState::HalfOpen)
        );
    }
}
