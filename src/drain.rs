//! Owns the way out of a gateway that is asked to end: its sockets are told to reconnect elsewhere, spread over `drain`,
//! so that the others meet a stream of them and not a storm. Called by the wiring, once, after the gateway has stopped
//! to be ready and takes no new sockets.
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

/// Tells every socket to go and waits until all have gone, or the time is up. Without a drain, or without sockets, it
/// returns at once.
pub async fn run(core: &Core) {
    let drain = core.config.drain;
    let start = core.clock.now();
    let end = start + millis(drain);
    // The last ones told need their time too.
    let told_by = start + millis(drain.saturating_sub(HOLD)).saturating_sub(RECONNECT_WITHIN);
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
