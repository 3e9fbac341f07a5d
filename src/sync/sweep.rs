//! Removes users from a slice that no living gateway holds: the members of dead gateways, and
//! strays, which no gateway holds. The walk, which begins at once after a burial, and the checks
//! call it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;

use crate::base::clock::{Clock, UnixMillis, millis};
use crate::base::ids::{GatewayId, Group, SliceId};
use crate::base::metrics::Metrics;
use crate::peers::Outbox;
use crate::presence::gateways::Gateways;
use crate::presence::{Audience, Rooms};
use crate::store::{SliceSize, Store, StoreResult, Strays, both};

pub struct Sweeper {
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub store: Arc<dyn Store>,
    pub outbox: Arc<Outbox>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    pub lease: Duration,
}

impl Sweeper {
    /// Sweeps the dead gateways among those with an entry in a slice, and notes the unknown ones. A
    /// failed sweep does not stop the others.
    pub async fn sweep_dead(&self, slice: &SliceId, gateways: &[GatewayId]) -> StoreResult<()> {
        let roster = self.gateways.roster();
        let own = self.gateways.id();
        let mut result = Ok(());
        for gateway in gateways {
            if roster.dead.contains(gateway) {
                result = both(result, self.sweep(slice, gateway).await);
            } else if roster.is_unknown(gateway) && *gateway != own {
                // This includes former ids of this gateway: if such a burial was lost, perhaps
                // nobody else buries the id again.
                self.gateways.note_unlisted(gateway, self.clock.now());
            }
        }
        result
    }

    /// Removes all members that a dead gateway holds in a slice, call by call.
    async fn sweep(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<()> {
        self.compare(slice).await?;
        let mut released = 0;
        let mut calls = self.store.sweeps(
            slice,
            gateway,
            self.gateways.removals_a_call(),
            self.last_heard(gateway),
        );
        let result = loop {
            match calls.try_next().await {
                Ok(Some(swept)) => {
                    released += swept.released;
                    self.metrics.swept_members.inc_by(swept.released);
                    self.note_size(slice, swept.size);
                }
                Ok(None) => break Ok(()),
                Err(why) => break Err(why),
            }
        };
        if released == 0 && result.is_ok() {
            return Ok(());
        }
        if let Some(live) = slice.live()
            && self.rooms.get(live).is_none()
        {
            self.outbox.doubt(live);
        }
        if let Some(at) = self.gateways.buried_at(gateway) {
            let age = Duration::from_millis(self.clock.now().saturating_sub(at));
            self.metrics.ghost_age_seconds.observe(age.as_secs_f64());
        }
        tracing::info!(
            set = %slice.set, slice = slice.index, gateway_id = %gateway, members = released,
            "swept a dead gateway"
        );
        result
    }

    /// Begins a doubt if the store came back with an older slice than this gateway knows. Otherwise
    /// the sweep would give the older slice a newer version.
    async fn compare(&self, slice: &SliceId) -> StoreResult<()> {
        let Some((audience, place)) = self.place_of(slice) else {
            return Ok(());
        };
        let known = audience.slices()[place].newest_size();
        if let Some(compared) = self.store.compare(slice, audience.epoch(), known).await? {
            self.note_size(slice, compared.size);
        }
        Ok(())
    }

    /// When a dead gateway gave its last sign of life: the last renewal of its lease. It cannot be
    /// later than a lease before its burial, whatever the clock of the store says.
    fn last_heard(&self, gateway: &GatewayId) -> UnixMillis {
        let buried_at = self.gateways.buried_at(gateway).unwrap_or(self.clock.now());
        let silent = self.clock.now().saturating_sub(buried_at) + millis(self.lease);
        let latest = self.clock.unix().saturating_sub(silent);
        match self.gateways.renewed_at(gateway) {
            Some(renewed) => renewed.min(latest),
            None => latest,
        }
    }

    /// Removes strays from a group of a slice: one page from `cursor` on, and further pages while
    /// there certainly are more.
    pub async fn drop_strays(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
    ) -> StoreResult<Searched> {
        let mut searched = Searched {
            strays: 0,
            next: Some(cursor),
        };
        while let Some(cursor) = searched.next {
            let page = self
                .store
                .strays(
                    slice,
                    group,
                    cursor,
                    self.gateways.removals_a_call(),
                    Strays::Drop,
                )
                .await?;
            if page.strays > 0 {
                self.metrics.drifted("stray", page.strays);
                tracing::warn!(
                    set = %slice.set, group = group.name(), slice = slice.index,
                    members = page.strays,
                    "removed members whom no gateway held"
                );
                self.note_size(slice, page.size);
                self.tell_platform(slice);
            }
            searched.strays += page.strays;
            searched.next = page.next;
            if page.card <= page.held {
                break;
            }
        }
        Ok(searched)
    }

    /// Gateways hear of sizes of slices of lives only. So each is told that another program wrote
    /// to a set of the platform.
    pub(super) fn tell_platform(&self, slice: &SliceId) {
        if slice.live().is_none() {
            self.outbox.doubt_platform();
        }
    }

    /// Hands a slice's size to the room of its live, if this gateway has one, and to the peers.
    pub(super) fn note_size(&self, slice: &SliceId, size: SliceSize) {
        if let Some((audience, place)) = self.place_of(slice) {
            self.rooms
                .note_size(&audience, place, size, self.clock.now());
        }
    }

    /// Where this gateway has a slice, if it does.
    fn place_of(&self, slice: &SliceId) -> Option<(Audience, usize)> {
        let audience = match slice.live() {
            Some(live) => Audience::Room(self.rooms.get(live)?),
            None => Audience::Platform(
                self.rooms
                    .platforms()
                    .find(|platform| *platform.set() == slice.set)?
                    .clone(),
            ),
        };
        let place = audience.place_of(slice)?;
        Some((audience, place))
    }
}

/// The result of a search for strays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Searched {
    /// How many strays were removed.
    pub strays: u64,
    /// Where the next search goes on; `None` at the end.
    pub next: Option<u64>,
}
