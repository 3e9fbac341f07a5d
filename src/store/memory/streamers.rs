//! Which lives streamers opened, in the embedded store.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::UnixMillis;
use crate::base::ids::{LiveId, UserId};
use crate::store::{ClaimLimits, Claimed, StoreResult, Streamers};

#[async_trait]
impl Streamers for MemoryStore {
    async fn claim_live(
        &self,
        streamer: &UserId,
        live: &LiveId,
        limits: ClaimLimits,
    ) -> StoreResult<Claimed> {
        let now = self.now();
        Ok(self
            .claims
            .lock()
            .entry(streamer.clone())
            .or_default()
            .claim(live, limits, now))
    }

    async fn release_live(
        &self,
        streamer: &UserId,
        live: &LiveId,
        until: UnixMillis,
    ) -> StoreResult<()> {
        let now = self.now();
        let mut claims = self.claims.lock();
        let Some(claimed) = claims.get_mut(streamer) else {
            return Ok(());
        };
        claimed.release(live, until);
        if claimed.is_nothing(now) {
            claims.remove(streamer);
        }
        Ok(())
    }
}
