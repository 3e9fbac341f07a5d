//! Owns the way out of a gateway that is asked to end: how much of `drain` each stage of the stop may take ([`Stages`]),
//! and the first of them, in which its sockets are told to reconnect elsewhere, spread over most of the time, so that the
//! others meet a stream of them and not a storm. Called by the wiring, once, after the gateway has stopped to be ready and
//! takes no new sockets.
//!
//! The spread must come from here: clients that are closed with 1012 reset their back-off. Whoever was told keeps the
//! seat for a moment longer than the reconnect takes ([`HOLD`]), so that no count dips while its viewers move.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::clock::{Millis, millis};
use crate::conn::Signals;
use crate::core::Core;

/// How often some are told.
const STEP: Duration = Duration::from_millis(100);

/// The longest delay that a client is asked to wait before it reconnects, in ms.
const RECONNECT_WITHIN: Millis = 1_000;

/// How long a client may be asked to wait before it reconnects, in ms: at least until the other gateways have heard that
/// it is on the way.
pub fn reconnect_after(flush: Duration) -> RangeInclusive<Millis> {
    (millis(flush) + 50).min(RECONNECT_WITHIN / 2)..=RECONNECT_WITHIN
}

/// How long a seat is kept beyond the delay that its client was told: a connect, a join and a flush elsewhere.
pub const HOLD: Duration = Duration::from_millis(1_500);

/// How long each stage of a stop may take. A stage that is done earlier ends earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    /// The sockets are sent elsewhere.
    pub moving: Duration,
    /// The listeners end.
    pub intake: Duration,
    /// The sockets that are left end.
    pub sockets: Duration,
    /// Whoever reads the store and the other gateways ends.
    pub readers: Duration,
    /// The store is told that nobody is here any more.
    pub last_flush: Duration,
    /// The other gateways are told the same.
    pub goodbye: Duration,
}

impl Stages {
    /// Divides `drain`, the time for the whole stop. The stages after the first get about a third of it, but no more than
    /// they could need, and never less than [`Self::LEAST`]: with a `drain` of less than 11.25 s, a stop may take longer.
    #[must_use]
    pub fn of(drain: Duration) -> Self {
        let share = |of_drain: u32, least: Duration, most: Duration| (drain / of_drain).clamp(least, most);
        let intake = Duration::from_millis(500);
        // A goodbye waits for its client for two seconds.
        let sockets = share(12, Duration::from_secs(1), Duration::from_millis(2_500));
        let readers = share(30, Duration::from_millis(500), Duration::from_secs(1));
        let last_flush = share(6, Duration::from_secs(2), Duration::from_secs(5));
        let goodbye = share(30, Duration::from_millis(500), Duration::from_secs(1));
        let rest = intake + sockets + readers + last_flush + goodbye;
        let moving = drain.saturating_sub(rest).max(drain * 3 / 5);
        Self { moving, intake, sockets, readers, last_flush, goodbye }
    }

    /// What the stages after the first get at least, together.
    pub const LEAST: Duration = Duration::from_millis(4_500);

    /// All of them together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.moving + self.intake + self.sockets + self.readers + self.last_flush + self.goodbye
    }
}

/// How long the sockets of a gateway that has lost a long-lived task have to move. Such a gateway may be
/// unable to keep its lease, so they are all told within half a second.
pub const AT_ONCE: Duration = HOLD.saturating_add(Duration::from_millis(RECONNECT_WITHIN + 500));

/// Tells every socket to go and waits until all have gone, or `within` is over. With no time, or without sockets, it
/// returns at once.
pub async fn run(core: &Core, within: Duration) {
    let start = core.clock.now();
    let end = start + millis(within);
    // The last ones told need their time too.
    let told_by = start + millis(within.saturating_sub(HOLD)).saturating_sub(RECONNECT_WITHIN);
    while core.clock.now() < end {
        // Who has lost the network cannot be told, and is not waited for.
        let here: Vec<_> = core.reaper.open_conns().into_iter().filter(|conn| !conn.is_away()).collect();
        if here.is_empty() {
            return;
        }
        let mut waiting: Vec<_> = here.iter().filter(|conn| !conn.is_moving()).collect();
        let steps_left = told_by.saturating_sub(core.clock.now()) / millis(STEP) + 1;
        waiting.truncate(waiting.len().div_ceil(steps_left as usize));
        for conn in waiting {
            conn.set_moving();
            conn.signal(Signals::MOVE);
        }
        tokio::time::sleep(STEP).await;
    }
    tracing::warn!(sockets = core.reaper.open_conns().len(), "the drain's time is up; closing who is left");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_stop_fits_in_the_drain() {
        let stages = Stages::of(Duration::from_secs(30));
        assert_eq!((stages.moving, stages.last_flush), (Duration::from_secs(20), Duration::from_secs(5)));
        for seconds in [12, 15, 20, 30, 31, 60, 600] {
            let drain = Duration::from_secs(seconds);
            let stages = Stages::of(drain);
            assert!(stages.total() <= drain, "{drain:?}: {stages:?}");
            assert!(stages.moving >= drain * 3 / 5, "{drain:?}: {stages:?}");
        }
    }

    #[test]
    fn a_short_drain_leaves_the_last_stages_the_least_that_they_need() {
        for ms in [0, 1, 100, 5_000, 12_000] {
            let drain = Duration::from_millis(ms);
            let stages = Stages::of(drain);
            assert!(stages.moving <= drain && stages.moving >= drain * 3 / 5, "{drain:?}: {stages:?}");
            let rest = stages.total() - stages.moving;
            assert!(rest >= Stages::LEAST && rest <= Stages::LEAST.max(drain / 2), "{drain:?}: {stages:?}");
        }
        assert_eq!(Stages::of(Duration::ZERO).total(), Stages::LEAST);
    }
}
