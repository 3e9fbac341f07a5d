//! The calls on the gateways on which a streamer has a socket.

use async_trait::async_trait;

use super::reply::{Reply, number};
use super::{RedisStore, args, keys, scripts};
use crate::base::ids::{GatewayId, UserId};
use crate::store::{Presence, StoreResult, Streamers};

#[async_trait]
impl Streamers for RedisStore {
    async fn note_streamer(&self, streamer: &UserId, gateway: &GatewayId, presence: Presence) -> StoreResult<()> {
        let key = self.keys().streamer(streamer);
        let steps = async {
            match presence {
                Presence::Here => {
                    let args = args![gateway, keys::SLICE_TTL.as_secs()];
                    self.router.script(&scripts::STREAMER, vec![key], args).await?.number()
                }
                Presence::Gone => number(&self.router.command("HDEL", args![key, gateway]).await?),
            }
            .map(drop)
        };
        self.router.call("note_streamer", steps).await
    }

    async fn streamer_gateways(&self, streamer: &UserId) -> StoreResult<Vec<GatewayId>> {
        let args = args![self.keys().streamer(streamer)];
        let steps = async {
            let names = Reply::of(self.router.command("HKEYS", args).await?)?.texts();
            // Another program wrote what is no gateway's name.
            Ok(names.filter_map(|name| GatewayId::parse(&name).ok()).collect())
        };
        self.router.call("streamer_gateways", steps).await
    }
}
