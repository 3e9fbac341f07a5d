//! Puts the slices of open lives and of the platform right, and closes slices of older epochs.

use futures_util::{StreamExt, stream};

use super::Walk;
use super::state::WalkState;
use crate::base::ids::{Epoch, SliceId};
use crate::store::{
    Entries, Fence, LiveRecord, MAX_BATCH, Passed, SliceLook, SliceSize, StoreResult,
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
    /// Whether nobody is there, as far as the store knows everybody.
    pub(super) fn is_empty(&self) -> bool {
        self.size.card == 0 && !self.size.rebuild
    }

    /// Whether each regular walk compares all of it.
    fn is_small(&self) -> bool {
        self.size.card <= MAX_BATCH as u64
    }
}

impl Walk {
    pub(super) async fn look(&self, slices: Vec<(SliceId, Epoch)>) -> Vec<FoundSlice> {
        let ids: Vec<SliceId> = slices.iter().map(|(id, _)| id.clone()).collect();
        let looks = self
            .core
            .store
            .look(&ids, &self.core.gateways.id(), Entries::All)
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
            self.core.store.close_slice(slice, older).await?;
            return Ok(None);
        }
        self.put_right(found).await.map(Some)
    }

    pub(super) async fn put_right(&self, found: FoundSlice) -> StoreResult<WalkedSlice> {
        let FoundSlice { id, epoch, look } = found;
        let put_right = self
            .passer
            .put_right(&id, epoch, SliceSize::default(), look)
            .await?;
        Ok(WalkedSlice {
            id,
            epoch,
            size: put_right.size,
            is_compared: put_right.is_compared,
        })
    }

    /// Compares small slices as a whole, and a part of each large one: another program may have left
    /// all sizes as they were.
    pub(super) async fn compare_in_turn(&self, memory: &mut WalkState, walked: Vec<WalkedSlice>) {
        let (small, large): (Vec<_>, Vec<_>) = walked
            .into_iter()
            .filter(|slice| !slice.is_compared && slice.size != SliceSize::default())
            .partition(WalkedSlice::is_small);
        let compared: Vec<_> = stream::iter(small)
            .map(|slice| async move {
                let size = self
                    .passer
                    .pass(&slice.id, slice.epoch, &[], Extent::Everything)
                    .await;
                (slice.id, size)
            })
            .buffer_unordered(MAX_CONCURRENT_PASSES)
            .collect()
            .await;
        for (slice, size) in compared {
            self.note_compared(memory, &slice, size);
        }
        for slice in large {
            self.compare_part(memory, slice).await;
        }
    }

    async fn compare_part(&self, memory: &mut WalkState, slice: WalkedSlice) {
        let from = memory.cursors.get(&slice.id).copied();
        let passed = self.passer.pass_part(&slice.id, slice.epoch, from).await;
        match &passed {
            Ok(Some(Passed {
                next: Some(next), ..
            })) => _ = memory.cursors.insert(slice.id.clone(), *next),
            Ok(_) => _ = memory.cursors.remove(&slice.id),
            // The next walk goes on from the same place.
            Err(_) => {}
        }
        let size = passed.map(|passed| passed.map(|passed| passed.size));
        self.note_compared(memory, &slice.id, size);
    }

    /// Notes whether the walk has to come back to a slice.
    fn note_compared(
        &self,
        memory: &mut WalkState,
        slice: &SliceId,
        size: StoreResult<Option<SliceSize>>,
    ) {
        match size {
            Ok(Some(size)) if !size.is_in_order() => match slice.live() {
                Some(live) if memory.open.contains(live) => {}
                Some(live) => memory.open.push(live.clone()),
                None => memory.platform_open = true,
            },
            Ok(_) => {}
            Err(why) => {
                tracing::debug!(set = %slice.set, error = %why, "a slice was not compared");
            }
        }
    }
}
