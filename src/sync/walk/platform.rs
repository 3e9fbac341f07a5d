//! Puts the sets of users of the platform right.

use futures_util::{StreamExt, stream};

use super::Walk;
use super::slices::WalkedSlice;
use super::state::{Occasion, WalkState};
use crate::base::ids::{Epoch, PLATFORM_EPOCH, SliceId};
use crate::store::{StoreError, StoreResult, both};

/// Maximum slices that are worked on at the same time.
const MAX_CONCURRENT_SLICES: usize = 64;

impl Walk {
    /// Takes out the users whom dead gateways hold in sets of the platform.
    pub(super) async fn visit_platform(&self, memory: &mut WalkState, occasion: Occasion) {
        let mut slices: Vec<(SliceId, Epoch)> = Vec::new();
        for platform in self.core.rooms.platforms() {
            slices.extend(
                platform
                    .slices()
                    .iter()
                    .map(|slice| (slice.id.clone(), PLATFORM_EPOCH)),
            );
        }
        let found = self.look(slices).await;
        let put_right: Vec<StoreResult<WalkedSlice>> = stream::iter(found)
            .map(|found| self.put_right(found))
            .buffer_unordered(MAX_CONCURRENT_SLICES)
            .collect()
            .await;
        let mut result = Ok(());
        let mut walked = Vec::with_capacity(put_right.len());
        for slice in put_right {
            match slice {
                Ok(slice) => walked.push(slice),
                Err(why) => result = both(result, Err(why)),
            }
        }
        memory.platform_failed = result.as_ref().is_err_and(StoreError::is_worth_a_retry);
        memory.platform_open = walked.iter().any(|slice| !slice.size.is_in_order());
        if let Err(why) = result {
            tracing::debug!(error = %why, "could not look after the users of the platform");
        }
        if occasion == Occasion::Regular {
            self.compare_in_turn(memory, walked).await;
        }
    }
}
