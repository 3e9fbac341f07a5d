//! Sweeps the sets of users of the platform.

use futures_util::{StreamExt, stream};

use super::Walk;
use super::slices::WalkedSlice;
use super::state::{Occasion, STRAYS_ROUNDS, WalkState};
use crate::base::ids::{PLATFORM_EPOCH, SliceId};
use crate::store::{StoreError, StoreResult, both};

/// Maximum slices that are swept at the same time.
const MAX_CONCURRENT_SWEEPS: usize = 64;

impl Walk {
    /// Removes users that dead gateways hold in sets of the platform.
    pub(super) async fn sweep_platform(&self, memory: &mut WalkState, occasion: Occasion) {
        let mut slices: Vec<SliceId> = Vec::new();
        for platform in self.sweeper.rooms.platforms() {
            slices.extend(platform.slices().iter().map(|slice| slice.id.clone()));
        }
        let found = self.store.survey(&slices).await;
        let swept: Vec<StoreResult<WalkedSlice>> = stream::iter(slices.into_iter().zip(found))
            .map(|(slice, found)| async move {
                let found = self.read_or_repair(&slice, found).await?;
                self.sweep_slice(slice, PLATFORM_EPOCH, found).await
            })
            .buffer_unordered(MAX_CONCURRENT_SWEEPS)
            .collect()
            .await;
        let mut result = Ok(());
        let mut walked = Vec::with_capacity(swept.len());
        for swept in swept {
            match swept {
                Ok(slice) => walked.push(slice),
                Err(why) => result = both(result, Err(why)),
            }
        }
        memory.platform_failed = result.as_ref().is_err_and(StoreError::is_worth_a_retry);
        if let Err(why) = result {
            tracing::debug!(error = %why, "could not look after the users of the platform");
        }
        if occasion == Occasion::Regular {
            if !memory.round.is_multiple_of(STRAYS_ROUNDS) {
                walked.retain(WalkedSlice::is_small);
            }
            self.search_slices(memory, walked).await;
        }
    }
}
