//! Owns this gateway's own lease (see [`crate::store::Leases`]): it is renewed twice in each lease refresh, whatever else
//! there is to do, and looked at each time. If it ran out meanwhile, or is not as it was left, then members of this
//! gateway may have been swept, or the store has lost data: every room is refreshed at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_util::sync::CancellationToken;

use crate::clock::Millis;
use crate::core::Core;
use crate::store::OwnLease;

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
    let mut left: Option<OwnLease> = None;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        let asked = core.clock.now().max(1);
        let left_at = left.map_or(0, |left| left.at);
        match core.store.renew_own_lease(&core.id, core.config.lease, left_at).await {
            Ok(Some(found)) => {
                if left.is_some_and(|left| left.since != found.since) {
                    tracing::warn!("this gateway's own lease ran out or was lost; refreshing every room");
                    core.metrics.own_lease_lost.inc();
                    core.upkeep.look_soon(core.rooms.all());
                }
                left = Some(found);
                core.own_lease.asked.store(asked, Ordering::Relaxed);
            }
            // The store has no such leases.
            Ok(None) => {}
            Err(why) => {
                tracing::debug!(error = %why, "the own lease was not renewed, will try again");
                // All that stands under it depends on it: sooner than with the next turn.
                tick.reset_after(core.config.lease_refresh / 10);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_firm_for_half_of_it_after_it_was_asked_for() {
        let hold = Hold::default();
        assert!(!hold.is_firm(10, 1_000));
        hold.asked.store(10, Ordering::Relaxed);
        assert!(hold.is_firm(510, 1_000) && !hold.is_firm(511, 1_000));
    }
}
