//! The latest stay of each user, in the slices of the embedded store.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::ids::{OnlineSet, SliceId, UserId};
use crate::store::{LatestStays, LiveEpoch, Stay, StoreResult};

#[async_trait]
impl LatestStays for MemoryStore {
    async fn latest_sessions(
        &self,
        of: &LiveEpoch,
        slices: u32,
        users: &[UserId],
    ) -> StoreResult<Vec<Option<Stay>>> {
        let mut latest = Vec::with_capacity(users.len());
        for user in users {
            let slice = SliceId::of_user(OnlineSet::Live(of.live.clone()), user, slices);
            latest.push(self.read(&slice, |slice| slice.stays(of.epoch)?.latest(user)));
        }
        Ok(latest)
    }
}
