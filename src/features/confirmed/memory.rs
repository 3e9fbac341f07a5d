//! The call on confirmed viewers in the embedded store.

use async_trait::async_trait;

use crate::base::clock::millis;
use crate::base::ids::{Epoch, Group, SliceId, UserId};
use crate::features::confirmed::store::{Confirmations, WINDOW};
use crate::presence::confirmed::SliceConfirmed;
use crate::store::memory::MemoryStore;
use crate::store::memory::confirmed::ConfirmedUsers;
use crate::store::memory::place::SlicePlace;
use crate::store::{Fence, StoreResult};

#[async_trait]
impl Confirmations for MemoryStore {
    async fn confirm(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        users: &[UserId],
    ) -> StoreResult<SliceConfirmed> {
        let now = self.now();
        // Nobody leaves the slice meanwhile.
        let viewers = self.read(slice, |stored| {
            if stored.fence() != Some(Fence::Open(epoch)) {
                return 0;
            }
            let mut there = users.to_vec();
            there.retain(|user| stored.contains(Group::All, user));
            self.states.lock::<ConfirmedUsers>().confirm(
                &SlicePlace::from(slice),
                epoch,
                there,
                now,
                now.saturating_sub(millis(WINDOW)),
            )
        });
        Ok(SliceConfirmed {
            slice: slice.index,
            viewers,
            kept: viewers,
        })
    }
}
