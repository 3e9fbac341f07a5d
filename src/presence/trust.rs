//! Tells how far to trust the figures of a live now.

use std::sync::Arc;
use std::time::Duration;

use super::checks::Checks;
use super::figures::Quality;
use super::gateways::Gateways;
use super::room::Room;
use crate::base::clock::{Clock, Millis};
use crate::store::{Health, Parts, Store};

/// How long the store may take for a change here before the figures count as too old: several
/// flushes.
const LATE: Duration = Duration::from_secs(1);

pub struct Trust {
    store: Arc<dyn Store>,
    gateways: Arc<Gateways>,
    checks: Arc<Checks>,
    clock: Clock,
}

impl Trust {
    pub fn new(
        store: Arc<dyn Store>,
        gateways: Arc<Gateways>,
        checks: Arc<Checks>,
        clock: Clock,
    ) -> Self {
        Self {
            store,
            gateways,
            checks,
            clock,
        }
    }

    pub fn quality(&self, room: &Room) -> Quality {
        if *self.store.health().borrow() == Health::Down {
            return Quality::Stale;
        }
        // A gateway that cannot renew its lease cannot see which peers live.
        if self.gateways.own_lease_is_late(self.clock.now()) {
            return Quality::Partial;
        }
        // A store that lost its data may lack what other gateways hold, or have what they hold no
        // longer.
        if self.gateways.own.are_peers_unproven() {
            return Quality::Partial;
        }
        let parts = self.store.parts().borrow().clone();
        if !parts.is_whole() && self.is_partly_away(room, &parts) {
            return Quality::Partial;
        }
        // If the messages of a gateway do not arrive, only checks tell what that gateway did.
        if room.check.is_unheard()
            && !room
                .check
                .is_checked_within(self.checks.enough(), self.clock.now())
        {
            return Quality::Partial;
        }
        // The store's figures lack a join here that it has not taken for so long.
        if room
            .waits_for_store_since()
            .is_some_and(|since| since.elapsed() >= LATE)
        {
            return Quality::Partial;
        }
        room.quality()
    }

    /// Whether the record of a live or one of its slices lies where the store does not answer.
    fn is_partly_away(&self, room: &Room, parts: &Parts) -> bool {
        parts.is_away(self.store.slot_of_live(&room.record.live))
            || room
                .slices()
                .iter()
                .any(|slice| parts.is_away(self.store.slot_of_slice(&slice.id)))
    }

    /// When the figures of a room were last certainly those of the store.
    pub fn sure_at(&self, room: &Room) -> Millis {
        match self.quality(room) {
            Quality::Exact => self.clock.now(),
            Quality::Partial => room.oldest_update(),
            Quality::Stale => room.oldest_update().max(self.gateways.own.renewed_at()),
        }
    }
}
