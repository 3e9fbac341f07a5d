//! The calls on the gateways on which a streamer has a socket, and on the lives that streamers opened.

use std::time::Duration;

use async_trait::async_trait;

use super::reply::{Reply, nonsense, number};
use super::{RedisStore, args, keys, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::store::streamers::A_DAY;
use crate::store::{ClaimLimits, Claimed, Presence, StoreResult, Streamers};

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

    async fn claim_live(&self, streamer: &UserId, live: &LiveId, limits: ClaimLimits) -> StoreResult<Claimed> {
        let key = self.keys().claimed_lives(streamer);
        let args = args![live, limits.open, limits.interval(), millis(A_DAY), keys::CLAIMS_TTL.as_secs()];
        let steps = async {
            let mut reply = self.router.script(&scripts::CLAIM_LIVE, vec![key], args).await?;
            match reply.text()?.as_str() {
                "yes" => Ok(Claimed::Yes),
                // Another program may have put in what is no live.
                "full" => Ok(Claimed::Full(reply.texts().filter_map(|live| LiveId::parse(&live).ok()).collect())),
                "fast" => Ok(Claimed::TooFast(Duration::from_millis(reply.number()?))),
                other => Err(nonsense(format!("a claim answered {other}"))),
            }
        };
        self.router.call("claim_live", steps).await
    }

    async fn release_live(&self, streamer: &UserId, live: &LiveId, until: UnixMillis) -> StoreResult<()> {
        let key = self.keys().claimed_lives(streamer);
        let args = args![live, until];
        let steps = async { self.router.script(&scripts::RELEASE_LIVE, vec![key], args).await.map(drop) };
        self.router.call("release_live", steps).await
    }
}
