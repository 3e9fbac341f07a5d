//! Puts a slice right: takes out the claims of dead gateways, and brings the public sets in line
//! with the claims. The walk and the checks make passes, and the flusher makes complaints. No part
//! of a pass leaves anything half done, so several gateways may pass through the same slice.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, SliceId};
use crate::peers::core::Core;
use crate::peers::message::PeerMessage;
use crate::presence::{Audience, SliceRef};
use crate::store::{
    Bus, Channel, Fence, Pass, PassCursor, Passed, SliceEntry, SliceLook, SliceSize, StoreError,
    StoreResult,
};

/// How much of a slice a pass looks through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The claims only. That is enough to sweep the dead.
    Claims,
    /// The claims and the public sets.
    Everything,
}

/// A slice that was put right.
#[derive(Debug)]
pub struct PutRight {
    /// The size after it; zeros if the slice does not belong to the epoch.
    pub size: SliceSize,
    /// Whether all of it was compared.
    pub is_compared: bool,
    /// The gateways with an entry that are not dead, if the look read all entries.
    pub holders: Vec<GatewayId>,
}

/// Has the gateways look at a slice that has forgotten whom they hold. For a command, which is no
/// gateway.
pub async fn tell_of_rebuild(store: &dyn Bus, slice: &SliceId) -> StoreResult<()> {
    let channel = match slice.live() {
        Some(live) => Channel::Live(live.clone()),
        None => Channel::Gateways,
    };
    let message = PeerMessage::Doubt.text(&GatewayId::random());
    store.publish(&channel, message).await.map(drop)
}

/// Makes passes.
pub struct Passer {
    pub core: Arc<Core>,
}

impl Passer {
    /// The dead among the gateways with an entry. Notes those of which no lease is known: they may
    /// have to be buried.
    pub fn dead_in(&self, found: &SliceLook) -> Vec<GatewayId> {
        let roster = self.core.gateways.roster();
        let own = self.core.gateways.id();
        let mut dead = Vec::new();
        for (gateway, entry) in &found.entries {
            if *entry == SliceEntry::Dead || roster.dead.contains(gateway) {
                dead.push(gateway.clone());
            } else if roster.is_unknown(gateway) && *gateway != own {
                // This includes former ids of this gateway: if such a burial was lost, perhaps
                // nobody else buries the id again.
                self.core
                    .gateways
                    .note_unlisted(gateway, self.core.clock.now());
            }
        }
        dead
    }

    /// Puts a slice right, as a look found it: takes out the claims of the dead, and compares all of
    /// it if anything is not in order. `known` is the newest size that this gateway knew before the
    /// look.
    pub async fn put_right(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        known: SliceSize,
        found: StoreResult<SliceLook>,
    ) -> StoreResult<PutRight> {
        let (found, is_garbled) = match found {
            Ok(found) => (found, false),
            // Another program wrote there. The pass removes what is no key of a slice.
            Err(StoreError::Nonsense(_)) => (SliceLook::default(), true),
            Err(why) => return Err(why),
        };
        let dead = self.dead_in(&found);
        let is_open = found.fence == Some(Fence::Open(epoch));
        let has_lost_fence = found.fence.is_none() && (found.has_keys || known.version > 0);
        let is_in_order =
            found.is_intact && found.size.is_in_order() && !found.size.is_older_than(known);
        let is_compared = is_garbled || has_lost_fence || is_open && !is_in_order;
        let size = if is_compared {
            self.pass(slice, epoch, &dead, Extent::Everything).await?
        } else if !dead.is_empty() {
            self.pass(slice, epoch, &dead, Extent::Claims).await?
        } else {
            Some(found.size)
        };
        let mut holders: Vec<GatewayId> = found
            .entries
            .into_iter()
            .map(|(gateway, _)| gateway)
            .collect();
        holders.retain(|gateway| !dead.contains(gateway));
        Ok(PutRight {
            size: size.unwrap_or_default(),
            is_compared,
            holders,
        })
    }

    /// Passes through a slice part by part, and takes out the claims of these dead gateways. Returns
    /// the size after it; `None` if the slice does not belong to this epoch.
    pub async fn pass(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        dead: &[GatewayId],
        extent: Extent,
    ) -> StoreResult<Option<SliceSize>> {
        let mut pass = self.begin(slice, epoch, dead);
        pass.only_claims = extent == Extent::Claims;
        let mut released = 0;
        let result = loop {
            match self.part(&pass).await {
                Ok(Some(passed)) => {
                    released += passed.released;
                    pass.from = passed.next;
                    // In a rebuild a pass only takes out claims of the dead.
                    let is_needless = passed.size.rebuild && dead.is_empty();
                    if pass.from.is_none() || is_needless {
                        break Ok(Some(passed.size));
                    }
                }
                Ok(None) => break Ok(None),
                Err(why) => break Err(why),
            }
        };
        if released > 0 {
            self.note_swept(slice, dead, released);
        }
        result
    }

    /// Passes through one part of a slice. `None` if the slice does not belong to this epoch.
    pub async fn pass_part(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        from: Option<PassCursor>,
    ) -> StoreResult<Option<Passed>> {
        let mut pass = self.begin(slice, epoch, &[]);
        pass.from = from;
        self.part(&pass).await
    }

    /// Tells the store that somebody else changed this gateway's entry in this incarnation of a
    /// slice, which then forgets everything.
    pub async fn complain(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        incarnation: u64,
    ) -> StoreResult<()> {
        tracing::warn!(
            set = %slice.set, slice = slice.index,
            "another program changed what gateways hold; all say it again"
        );
        let mut pass = self.begin(slice, epoch, &[]);
        pass.wrong = Some(incarnation);
        self.part(&pass).await?;
        Ok(())
    }

    fn begin(&self, slice: &SliceId, epoch: Epoch, dead: &[GatewayId]) -> Pass {
        let known = match self.find(slice) {
            Some(here) if here.epoch() == epoch => here.size(),
            _ => SliceSize::default(),
        };
        Pass {
            slice: slice.clone(),
            epoch,
            known,
            wrong: None,
            dead: dead
                .iter()
                .map(|gateway| (gateway.clone(), self.last_heard(gateway)))
                .collect(),
            from: None,
            only_claims: false,
        }
    }

    async fn part(&self, pass: &Pass) -> StoreResult<Option<Passed>> {
        let Some(passed) = self.core.store.pass(pass).await? else {
            return Ok(None);
        };
        let slice = &pass.slice;
        self.core.metrics.swept_members.inc_by(passed.released);
        let drift = passed.drift;
        if drift.stray > 0 || drift.missing > 0 {
            self.core.metrics.drifted("stray", drift.stray);
            self.core.metrics.drifted("missing", drift.missing);
            tracing::warn!(
                set = %slice.set, slice = slice.index,
                stray = drift.stray, missing = drift.missing,
                "the public sets differed from what the gateways hold"
            );
        }
        match self.find(slice) {
            Some(here) => self.note_size(&here, passed.size),
            None if passed.size.rebuild => {
                // Those who hold the slice have to say again whom they hold.
                if let Some(live) = slice.live() {
                    self.core.to_peers.doubt(live);
                }
            }
            None => {}
        }
        Ok(Some(passed))
    }

    /// Takes in the size of a slice, and tells the peers. They do not hear of the sizes of the
    /// platform's slices, so they are told to look at these when one has forgotten everything.
    pub fn note_size(&self, slice: &SliceRef, size: SliceSize) {
        let before = slice.size();
        self.core
            .rooms
            .note_size(slice, size, self.core.clock.now());
        let has_forgotten = size.rebuild && size.incarnation != before.incarnation;
        if has_forgotten && slice.room().is_none() {
            self.core.to_peers.doubt_platform();
        }
    }

    fn note_swept(&self, slice: &SliceId, dead: &[GatewayId], released: u64) {
        if let Some(live) = slice.live()
            && self.core.rooms.get(live).is_none()
        {
            self.core.to_peers.doubt(live);
        }
        for gateway in dead {
            if let Some(at) = self.core.gateways.buried_at(gateway) {
                let age = Duration::from_millis(self.core.clock.now().since(at));
                self.core
                    .metrics
                    .ghost_age_seconds
                    .observe(age.as_secs_f64());
            }
        }
        tracing::info!(
            set = %slice.set, slice = slice.index, members = released,
            "swept dead gateways"
        );
    }

    /// When a dead gateway gave its last sign of life: the last renewal of its lease. It cannot be
    /// later than a lease before its burial, whatever the clock of the store says.
    fn last_heard(&self, gateway: &GatewayId) -> UnixMillis {
        let buried_at = self
            .core
            .gateways
            .buried_at(gateway)
            .unwrap_or(self.core.clock.now());
        let silent = self.core.clock.now().since(buried_at) + millis(self.core.config.lease);
        let latest = self.core.clock.unix().saturating_sub(silent);
        match self.core.gateways.renewed_at(gateway) {
            Some(renewed) => renewed.min(latest),
            None => latest,
        }
    }

    /// The slice with this id, if this gateway has it.
    fn find(&self, slice: &SliceId) -> Option<SliceRef> {
        let owner = match slice.live() {
            Some(live) => Audience::Room(self.core.rooms.get(live)?),
            None => {
                let mut platforms = self.core.rooms.platforms();
                Audience::from(platforms.find(|platform| *platform.set() == slice.set)?)
            }
        };
        owner.slice(slice)
    }
}
