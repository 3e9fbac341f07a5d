//! Owns this gateway's own lease (see [`crate::store::Leases`]): it is renewed twice in each lease refresh, whatever else
//! there is to do, and looked at each time. If it ran out meanwhile, or is not as it was left, then members of this
//! gateway may have been swept, or the store has lost data: every room is refreshed at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use crate::clock::{Millis, UnixMillis};
use crate::core::Core;
use crate::store::OwnLease;

/// How it was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    since: UnixMillis,
    at: UnixMillis,
}

impl Left {
    /// Whether it is still the lease that was left, and nothing was taken back. A renewal in between whose answer was lost
    /// does no harm.
    fn is_whole(self, found: &OwnLease) -> bool {
        found.since == self.since && found.before >= Some(self.at)
    }
}

/// Until when this gateway may count on its own lease. The default is that it has none.
#[derive(Debug, Default)]
pub struct Hold {
    /// When the last renewal was asked for that was answered; 0 is never.
    asked: AtomicU64,
}

impl Hold {
    /// Whether the lease, of that length, is held for half of it yet at least.
    pub fn is_firm(&self, now: Millis, lease: Millis) -> bool {
        let asked = self.asked.load(Ordering::Relaxed);
        asked != 0 && now.saturating_sub(asked) <= lease / 2
    }
}

/// Runs until told to stop.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(core.config.lease_refresh / 2);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut left: Option<Left> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        let asked = core.clock.now().max(1);
        match core.store.renew_own_lease(&core.id, core.config.lease).await {
            Ok(Some(found)) => {
                if left.is_some_and(|left| !left.is_whole(&found)) {
                    tracing::warn!("this gateway's own lease ran out or was lost; refreshing every room");
                    core.metrics.own_lease_lost.inc();
                    core.upkeep.look_soon(core.rooms.all());
                }
                left = Some(Left { since: found.since, at: found.at });
                core.own_lease.asked.store(asked, Ordering::Relaxed);
            }
            // The store has no such leases.
            Ok(None) => {}
            Err(why) => tracing::debug!(error = %why, "the own lease was not renewed, will try again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Left = Left { since: 100, at: 500 };

    fn found(since: UnixMillis, before: UnixMillis) -> OwnLease {
        OwnLease { since, before: Some(before), at: 900 }
    }

    #[test]
    fn a_lease_that_ran_out_or_was_lost_is_not_whole() {
        assert!(LEFT.is_whole(&found(100, 500)), "as it was left");
        assert!(LEFT.is_whole(&found(100, 700)), "an answer was lost");
        assert!(!LEFT.is_whole(&found(900, 500)), "it ran out");
        assert!(!LEFT.is_whole(&found(700, 700)), "it ran out, and the answer that said so was lost");
        assert!(!LEFT.is_whole(&found(100, 400)), "an older state of the store came back");
        assert!(!LEFT.is_whole(&OwnLease { since: 900, before: None, at: 900 }), "it was lost");
    }

    #[test]
    fn a_lease_is_firm_for_half_of_it_after_it_was_asked_for() {
        let hold = Hold::default();
        assert!(!hold.is_firm(10, 1_000));
        hold.asked.store(10, Ordering::Relaxed);
        assert!(hold.is_firm(510, 1_000) && !hold.is_firm(511, 1_000));
    }
}
