//! Puts the slices of open lives and of the platform right, and closes slices of older epochs.

use futures_util::{StreamExt, stream};

use super::Walk;
use super::state::WalkState;
use crate::base::ids::{Epoch, SliceId};
use crate::store::{
    Entries, Fence, LiveRecord, MAX_BATCH, SliceLook, SliceSize, StoreError, StoreResult,
};
use crate::sync::pass::Extent;

/// Maximum small slices that are compared at the same time.
const MAX_CONCURRENT_PASSES: usize = 16;

/// A slice as the walk found it.
pub(super) struct FoundSlice {
    pub(super) id: SliceId,
    pub(super) epoch: Epoch,
    pub(super) look: StoreResult<SliceLook>,
}

/// A slice that the walk has put right.
pub(super) struct WalkedSlice {
    pub(super) id: SliceId,
    pub(super) epoch: Epoch,
    pub(super) size: SliceSize,
    /// Whether a pass through everything was made.
    is_compared: bool,
}

impl WalkedSlice {
    /// Whether each regular walk compares all of it.
    fn is_small(&self) -> bool {
        self.size.card <= MAX_BATCH as u64
    }
}

impl Walk {
    pub(super) async fn look(&self, slices: Vec<(SliceId, Epoch)>) -> Vec<FoundSlice> {
        let ids: Vec<SliceId> = slices.iter().map(|(id, _)| id.clone()).collect();
        let looks = self
            .store
            .look(&ids, &self.gateways.id(), Entries::All)
            .await;
        slices
            .into_iter()
            .zip(looks)
            .map(|((id, epoch), look)| FoundSlice { id, epoch, look })
            .collect()
    }

    /// Puts a slice of an open live right, or closes it if it is of an older epoch. `None` if it was
    /// closed.
    pub(super) async fn close_or_put_right(
        &self,
        record: &LiveRecord,
        found: FoundSlice,
    ) -> StoreResult<Option<WalkedSlice>> {
        if let Ok(look) = &found.look
            && let Some(Fence::Open(older)) = look.fence
            && older < record.epoch
        {
            let slice = &found.id;
            tracing::warn!(
                live_id = %record.live, slice = slice.index, epoch = %older,
                "closing a slice of an older epoch"
            );
            self.store.close_slice(slice, older).await?;
            return Ok(None);
        }
        self.put_right(found).await.map(Some)
    }

    /// Takes the claims of the dead out of a slice, and compares all of it if anything in it is not
    /// in order.
    pub(super) async fn put_right(&self, found: FoundSlice) -> StoreResult<WalkedSlice> {
        let FoundSlice { id, epoch, look } = found;
        let look = match look {
            Ok(look) => look,
            // Another program wrote there. The pass removes what is no key of a slice.
            Err(StoreError::Nonsense(_)) => {
                return self.compare(id, epoch, &SliceLook::default()).await;
            }
            Err(why) => return Err(why),
        };
        let dead = self.passer.dead_in(&look);
        let is_open = look.fence == Some(Fence::Open(epoch));
        let has_lost_fence = look.fence.is_none() && look.has_keys;
        if has_lost_fence || is_open && !(look.is_intact && look.size.is_in_order()) {
            return self.compare(id, epoch, &look).await;
        }
        let size = if dead.is_empty() {
            Some(look.size)
        } else {
            self.passer.pass(&id, epoch, &dead, Extent::Claims).await?
        };
        Ok(WalkedSlice {
            id,
            epoch,
            size: size.unwrap_or_default(),
            is_compared: false,
        })
    }

    /// Passes through everything in a slice.
    async fn compare(
        &self,
        id: SliceId,
        epoch: Epoch,
        look: &SliceLook,
    ) -> StoreResult<WalkedSlice> {
        let dead = self.passer.dead_in(look);
        let size = self
            .passer
            .pass(&id, epoch, &dead, Extent::Everything)
            .await?;
        Ok(WalkedSlice {
            id,
            epoch,
            size: size.unwrap_or_default(),
            is_compared: true,
        })
    }

    /// Compares small slices as a whole, and a part of each large one: another program may have left
    /// all sizes as they were.
    pub(super) async fn compare_in_turn(&self, memory: &mut WalkState, walked: Vec<WalkedSlice>) {
        let (small, large): (Vec<_>, Vec<_>) = walked
            .into_iter()
            .filter(|slice| !slice.is_compared && slice.size != SliceSize::default())
            .partition(WalkedSlice::is_small);
        stream::iter(small)
            .for_each_concurrent(MAX_CONCURRENT_PASSES, async |slice| {
                let look = SliceLook::default();
                if let Err(why) = self.compare(slice.id, slice.epoch, &look).await {
                    tracing::debug!(error = %why, "a slice was not compared");
                }
            })
            .await;
        for slice in &large {
            self.compare_part(memory, slice).await;
        }
    }

    async fn compare_part(&self, memory: &mut WalkState, slice: &WalkedSlice) {
        let from = memory.cursors.get(&slice.id).copied();
        match self.passer.pass_part(&slice.id, slice.epoch, from).await {
            Ok(Some(next)) => {
                memory.cursors.insert(slice.id.clone(), next);
            }
            Ok(None) => {
                memory.cursors.remove(&slice.id);
            }
            Err(why) => {
                tracing::debug!(set = %slice.id.set, error = %why, "a part of a slice was not compared");
            }
        }
    }
}
