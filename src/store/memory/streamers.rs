//! Where streamers are connected, in the embedded store. There is one gateway, so this serves as the model.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::ids::{GatewayId, UserId};
use crate::store::{Presence, StoreResult, Streamers};

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
}
