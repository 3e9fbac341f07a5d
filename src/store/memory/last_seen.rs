//! When users were seen last, in the embedded store.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::{LastSeen, StoreResult};

#[async_trait]
impl LastSeen for MemoryStore {
    async fn note_seen(&self, seen: &[(UserId, UnixMillis)]) -> StoreResult<()> {
        let mut last_seen = self.last_seen.lock();
        for (user, at) in seen {
            let there = last_seen.entry(user.clone()).or_insert(*at);
            *there = (*at).max(*there);
        }
        Ok(())
    }
}
