//! Sweeps open slices, repairs those in doubt, and closes slices of older epochs.

use super::Walk;
use crate::base::ids::{Epoch, GatewayId, Group, SliceId};
use crate::store::{Fence, Holders, LiveRecord, MAX_BATCH, SliceSize, SliceSurvey, StoreResult};

/// A slice as the walk read it.
pub(super) struct ReadSlice {
    pub(super) id: SliceId,
    pub(super) found: StoreResult<SliceSurvey>,
}

/// A slice that the walk has swept.
pub(super) struct WalkedSlice {
    pub(super) id: SliceId,
    pub(super) epoch: Epoch,
    /// The gateways with an entry.
    gateways: Vec<GatewayId>,
    members: u64,
    /// As in [`Holders`].
    overlap: bool,
}

impl WalkedSlice {
    pub(super) fn holders(&self) -> Holders {
        Holders {
            slice: self.id.clone(),
            gateways: self.gateways.clone(),
            overlap: self.overlap,
        }
    }

    /// Whether each walk searches it for strays.
    pub(super) fn is_small(&self) -> bool {
        self.members <= MAX_BATCH as u64
    }
}

impl Walk {
    /// Sweeps a slice of an open live, or closes it if it is of an older epoch. `None` if it was
    /// closed.
    pub(super) async fn close_or_sweep(
        &self,
        record: &LiveRecord,
        read: ReadSlice,
    ) -> StoreResult<Option<WalkedSlice>> {
        let ReadSlice { id: slice, found } = read;
        let found = self.read_or_repair(&slice, found).await?;
        if let Some(fence) = found.fence
            && fence.epoch() < record.epoch
            && let Fence::Open(older) = fence
        {
            tracing::warn!(
                live_id = %record.live, slice = slice.index, epoch = %older,
                "closing a slice of an older epoch"
            );
            self.store.close_slice(&slice, older).await?;
            return Ok(None);
        }
        let walked = self.sweep_slice(slice, record.epoch, found).await?;
        Ok(Some(walked))
    }

    /// Sweeps the dead gateways among those with an entry in an open slice, and removes members
    /// that no gateway can hold.
    pub(super) async fn sweep_slice(
        &self,
        slice: SliceId,
        epoch: Epoch,
        found: SliceSurvey,
    ) -> StoreResult<WalkedSlice> {
        let SliceSurvey {
            parts,
            card,
            fans,
            may_be_in_doubt,
            ..
        } = found;
        let held: u64 = parts.iter().map(|part| part.held).sum();
        let held_fans: u64 = parts.iter().map(|part| part.held_fans).sum();
        let gateways: Vec<GatewayId> = parts.into_iter().map(|part| part.gateway).collect();
        self.sweeper.sweep_dead(&slice, &gateways).await?;
        // These are certainly strays. There may be more, at most as many as the users that several
        // gateways hold.
        if card > held {
            self.sweeper.drop_strays(&slice, Group::All, 0).await?;
        }
        if fans > held_fans {
            self.sweeper.drop_strays(&slice, Group::Fans, 0).await?;
        }
        if may_be_in_doubt {
            self.mend(&slice, epoch).await?;
        }
        let overlap = held > card || held_fans > fans;
        Ok(WalkedSlice {
            id: slice,
            epoch,
            gateways,
            members: card,
            overlap,
        })
    }

    /// Repairs a slice in doubt, of which perhaps no gateway has a room. A doubt that has just begun
    /// is left to the gateways that have one, and to the next walk.
    async fn mend(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<()> {
        let wait = self.mender.mend(slice, epoch, SliceSize::default()).await?;
        if wait > 0
            && let Some(live) = slice.live()
        {
            self.outbox.doubt(live);
        }
        Ok(())
    }

    /// Passes on what was read of a slice. A slice that cannot be read because another program wrote
    /// there is repaired, so that the next walk can read it, and the gateways with users there write
    /// them again.
    pub(super) async fn read_or_repair(
        &self,
        slice: &SliceId,
        found: StoreResult<SliceSurvey>,
    ) -> StoreResult<SliceSurvey> {
        if let Err(why) = &found
            && self.mender.heal(slice, why).await
        {
            self.have_checked(slice);
        }
        found
    }

    /// Has all gateways, this one too, check the set of a slice soon.
    fn have_checked(&self, slice: &SliceId) {
        let rooms = &self.sweeper.rooms;
        match slice.live() {
            Some(live) => {
                self.outbox.doubt(live);
                self.checks
                    .check_soon(rooms.get(live).into_iter().collect());
            }
            None => {
                self.outbox.doubt_platform();
                rooms.look_again_at_platform();
            }
        }
    }
}
