//! Tells how far to trust the figures of a live now.

use std::sync::Arc;
use std::time::Duration;

use super::checks::Checks;
use super::figures::{Flaws, Quality};
use super::gateways::Gateways;
use super::room::Room;
use crate::base::clock::{Clock, Moment};
use crate::store::{Health, Store};

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
        Quality::of(self.flaws(room))
    }

    /// The quality of figures that include a newcomer whom the store may know already.
    pub fn quality_for_newcomer(&self, room: &Room) -> Quality {
        Quality::of(Flaws {
            adds_newcomer: true,
            ..self.flaws(room)
        })
    }

    fn flaws(&self, room: &Room) -> Flaws {
        let health = *self.store.health().borrow();
        Flaws {
            store_is_down: health == Health::Down,
            is_partly_away: self.is_partly_away(room),
            is_unheard: self.is_unheard(room),
            waits_for_store: room
                .waits_for_store_since()
                .is_some_and(|since| since.elapsed() >= LATE),
            ..room.figures.flaws()
        }
    }

    /// Whether the record of a live or one of its slices lies where the store does not answer.
    fn is_partly_away(&self, room: &Room) -> bool {
        let parts = self.store.parts().borrow().clone();
        if parts.is_whole() {
            return false;
        }
        parts.is_away(self.store.slot_of_live(&room.record.live))
            || room
                .slices()
                .iter()
                .any(|slice| parts.is_away(self.store.slot_of_slice(&slice.id)))
    }

    /// Whether the messages of some gateway do not arrive, and the last check is old: only checks
    /// tell what that gateway did.
    fn is_unheard(&self, room: &Room) -> bool {
        let check = &room.schedule.check;
        check.is_unheard() && !check.is_checked_within(self.checks.enough(), self.clock.now())
    }

    /// When the figures of a room were last certainly those of the store.
    pub fn sure_at(&self, room: &Room) -> Moment {
        match self.quality(room) {
            Quality::Exact => self.clock.now(),
            Quality::Partial => room.oldest_update(),
            Quality::Stale => room.oldest_update().max(self.gateways.own.renewed_at()),
        }
    }
}
