//! Where streamers are connected and which lives they opened, in the embedded store. There is one gateway, so this
//! serves as the model.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::store::streamers::A_DAY;
use crate::store::{ClaimLimits, Claimed, Presence, StoreResult, Streamers};

/// The lives that a streamer opened.
#[derive(Debug, Default)]
pub(super) struct ClaimedLives {
    /// Each with the time of its last claim.
    open: BTreeMap<LiveId, UnixMillis>,
    /// Until when all openings so far would take at the pace that is allowed.
    pace: UnixMillis,
}

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
        let mut claims = self.claims.lock();
        let claimed = claims.entry(streamer.clone()).or_default();
        if !claimed.open.contains_key(live) && claimed.open.len() as u64 >= limits.open {
            let mut lives: Vec<(&LiveId, &UnixMillis)> = claimed.open.iter().collect();
            lives.sort_by_key(|(_, at)| **at);
            return Ok(Claimed::Full(lives.into_iter().map(|(live, _)| live.clone()).collect()));
        }
        let after = claimed.pace.max(now) + limits.interval();
        if after - now > millis(A_DAY) {
            return Ok(Claimed::TooFast(Duration::from_millis(after - now - millis(A_DAY))));
        }
        claimed.pace = after;
        claimed.open.insert(live.clone(), now);
        Ok(Claimed::Yes)
    }

    async fn release_live(&self, streamer: &UserId, live: &LiveId, until: UnixMillis) -> StoreResult<()> {
        let now = self.now();
        let mut claims = self.claims.lock();
        let Some(claimed) = claims.get_mut(streamer) else { return Ok(()) };
        if claimed.open.get(live).is_some_and(|at| *at <= until) {
            claimed.open.remove(live);
        }
        if claimed.open.is_empty() && claimed.pace <= now {
            claims.remove(streamer);
        }
        Ok(())
    }
}
