//! The calls on the lives that streamers opened.

use std::time::Duration;

use async_trait::async_trait;

use super::reply::nonsense;
use super::{RedisCalls, args, keys, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{LiveId, UserId};
use crate::store::streamers::A_DAY;
use crate::store::{ClaimLimits, Claimed, StoreResult, Streamers};

#[async_trait]
impl Streamers for RedisCalls {
    async fn claim_live(
        &self,
        streamer: &UserId,
        live: &LiveId,
        limits: ClaimLimits,
    ) -> StoreResult<Claimed> {
        let key = self.keys().claimed_lives(streamer);
        let args = args![
            live,
            limits.open,
            limits.interval(),
            millis(A_DAY),
            keys::CLAIMS_TTL.as_secs()
        ];
        let mut reply = self
            .router
            .script(&scripts::CLAIM_LIVE, vec![key], args)
            .await?;
        match reply.text()?.as_str() {
            "yes" => Ok(Claimed::Yes),
            "full" => {
                let mut lives = Vec::new();
                for live in reply.texts() {
                    // Another program may have added a member that is no live.
                    if let Ok(live) = LiveId::parse(&live) {
                        lives.push(live);
                    }
                }
                Ok(Claimed::Full(lives))
            }
            "fast" => Ok(Claimed::TooFast(Duration::from_millis(reply.number()?))),
            other => Err(nonsense(format!("a claim answered {other}"))),
        }
    }

    async fn release_live(
        &self,
        streamer: &UserId,
        live: &LiveId,
        until: UnixMillis,
    ) -> StoreResult<()> {
        let key = self.keys().claimed_lives(streamer);
        let args = args![live, until];
        self.router
            .script(&scripts::RELEASE_LIVE, vec![key], args)
            .await?;
        Ok(())
    }
}
