//! Where streamers are connected and which lives they opened, in the embedded store. There is one gateway, so this
//! serves as the model.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::store::{ClaimLimits, Claimed, Presence, StoreResult, Streamers};

#[async_trait]
impl Streamers for MemoryStore {
    async fn note_streamer(&self, streamer: &UserId, gateway: &GatewayId, presence: Presence) -> StoreResult<()> {
        let mut sockets = self.streamers.lock();
        let gateways = sockets.entry(streamer.clone()).or_default();
        match presence {
            Presence::Here => gateways.insert(gateway.clone()),
            Presence::Gone => gateways.remove(gateway),
        };
        if gateways.is_empty() {
            sockets.remove(streamer);
        }
        Ok(())
    }

    async fn streamer_gateways(&self, streamer: &UserId) -> StoreResult<Vec<GatewayId>> {
        let sockets = self.streamers.lock();
        Ok(sockets.get(streamer).map(|gateways| gateways.iter().cloned().collect()).unwrap_or_default())
    }

    async fn claim_live(&self, streamer: &UserId, live: &LiveId, limits: ClaimLimits) -> StoreResult<Claimed> {
        let now = self.now();
        Ok(self.claims.lock().entry(streamer.clone()).or_default().claim(live, limits, now))
    }

    async fn release_live(&self, streamer: &UserId, live: &LiveId, until: UnixMillis) -> StoreResult<()> {
        let now = self.now();
        let mut claims = self.claims.lock();
        let Some(claimed) = claims.get_mut(streamer) else { return Ok(()) };
        claimed.release(live, until);
        if claimed.is_nothing(now) {
            claims.remove(streamer);
        }
        Ok(())
    }
}
