//! How a gateway that is asked to stop sends its sockets elsewhere, and how it divides the time of
//! the stop ([`Stages`]). The wiring calls it once, after the gateway has stopped admitting sockets.
//!
//! The drain tells the sockets to reconnect one after the other, over most of the time, so that the
//! other gateways meet a stream and not a storm. The spread must come from here: clients that are
//! closed with 1012 reset their back-off. A seat is kept a moment longer than its client's
//! reconnect takes ([`HOLD`]), so that no count dips while viewers move.

use std::time::Duration;

use crate::base::clock::{Millis, millis};
use crate::presence::conn::Signals;
use crate::session::context::SessionContext;

/// The time between two batches of sockets.
const STEP: Duration = Duration::from_millis(100);

/// The longest delay before a reconnect that a client is asked for, in ms.
pub(crate) const RECONNECT_WITHIN: Millis = 1_000;

/// How long a seat is kept beyond the delay that its client was told: time for a connect, a join
/// and a flush elsewhere.
pub(crate) const HOLD: Duration = Duration::from_millis(1_500);

/// The longest time for each stage of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stages {
    /// The sockets are sent elsewhere.
    pub(crate) moving: Duration,
    /// The listeners end.
    pub(crate) intake: Duration,
    /// The remaining sockets end.
    pub(crate) sockets: Duration,
    /// The tasks that read the store and the other gateways end.
    pub(crate) readers: Duration,
    /// The flusher removes this gateway's fans from the store.
    pub(crate) last_flush: Duration,
    /// The publisher tells the other gateways that this one is gone.
    pub(crate) goodbye: Duration,
}

impl Stages {
    /// The least time for the stages after the first, together.
    #[cfg(test)]
    pub(crate) const LEAST: Duration = Duration::from_millis(4_500);

    /// Divides `drain`, the time for the whole stop. The stages after the first get about a third
    /// of it, no more than they could need, and never less than 4.5 s together: with a `drain` of
    /// less than 11.25 s, a stop may take longer.
    pub(crate) fn of(drain: Duration) -> Self {
        let intake = Duration::from_millis(500);
        // A goodbye waits for its client for two seconds.
        let sockets = (drain / 12).clamp(Duration::from_secs(1), Duration::from_millis(2_500));
        let readers = (drain / 30).clamp(Duration::from_millis(500), Duration::from_secs(1));
        let last_flush = (drain / 6).clamp(Duration::from_secs(2), Duration::from_secs(5));
        let goodbye = (drain / 30).clamp(Duration::from_millis(500), Duration::from_secs(1));
        let rest = intake + sockets + readers + last_flush + goodbye;
        let moving = drain.saturating_sub(rest).max(drain * 3 / 5);
        Self {
            moving,
            intake,
            sockets,
            readers,
            last_flush,
            goodbye,
        }
    }
}

/// The time to move the sockets of a gateway that has lost a long-lived task. Such a gateway may be
/// unable to keep its lease, so it tells all its sockets within half a second.
pub(crate) const AT_ONCE: Duration =
    HOLD.saturating_add(Duration::from_millis(RECONNECT_WITHIN + 500));

/// Tells every socket to go and waits until all have gone, or `within` is over. With no time, or
/// without sockets, it returns at once.
pub(crate) async fn run(context: &SessionContext, within: Duration) {
    let start = context.core.clock.now();
    let end = start + millis(within);
    // The clients that are told last need time to arrive elsewhere, too. Without a socket they learn
    // of the stop with one beat, and arrive with the next.
    let arrival = if context.core.metrics.presences.get() > 0 {
        2 * millis(context.core.config.heartbeat).max(RECONNECT_WITHIN)
    } else {
        RECONNECT_WITHIN
    };
    let told_by = start + millis(within.saturating_sub(HOLD)).saturating_sub(arrival);
    loop {
        // A client that lost the network cannot be told, and the drain does not wait for it.
        let here: Vec<_> = context
            .reaper
            .open_conns()
            .into_iter()
            .filter(|conn| !conn.is_away())
            .collect();
        if here.is_empty() {
            return;
        }
        if context.core.clock.now() >= end {
            tracing::warn!(
                sockets = here.len(),
                "the time for the drain is up; closing the remaining sockets"
            );
            return;
        }
        let mut waiting: Vec<_> = here.iter().filter(|conn| conn.is_open()).collect();
        let steps_left = told_by.since(context.core.clock.now()) / millis(STEP) + 1;
        waiting.truncate(waiting.len().div_ceil(steps_left as usize));
        for conn in waiting {
            conn.set_moving();
            conn.signal(Signals::MOVE);
        }
        tokio::time::sleep(STEP).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(stages: &Stages) -> Duration {
        let Stages {
            moving,
            intake,
            sockets,
            readers,
            last_flush,
            goodbye,
        } = *stages;
        moving + intake + sockets + readers + last_flush + goodbye
    }

    #[test]
    fn the_whole_stop_fits_in_the_drain() {
        let stages = Stages::of(Duration::from_secs(30));
        assert_eq!(
            (stages.moving, stages.last_flush),
            (Duration::from_secs(20), Duration::from_secs(5))
        );
        for seconds in [12, 15, 20, 30, 31, 60, 600] {
            let drain = Duration::from_secs(seconds);
            let stages = Stages::of(drain);
            assert!(total(&stages) <= drain, "{drain:?}: {stages:?}");
            assert!(stages.moving >= drain * 3 / 5, "{drain:?}: {stages:?}");
        }
    }

    #[test]
    fn a_short_drain_leaves_the_last_stages_the_least_that_they_need() {
        for ms in [0, 1, 100, 5_000, 12_000] {
            let drain = Duration::from_millis(ms);
            let stages = Stages::of(drain);
            assert!(
                stages.moving <= drain && stages.moving >= drain * 3 / 5,
                "{drain:?}: {stages:?}"
            );
            let rest = total(&stages) - stages.moving;
            assert!(
                rest >= Stages::LEAST && rest <= Stages::LEAST.max(drain / 2),
                "{drain:?}: {stages:?}"
            );
        }
        assert_eq!(total(&Stages::of(Duration::ZERO)), Stages::LEAST);
    }
}
