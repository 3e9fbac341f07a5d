//! The boundary for streamers' sockets: on which gateways a streamer is connected. Written when the first socket of a
//! streamer comes to a gateway and when the last one goes, never in between. Only the fields of living gateways count.

use async_trait::async_trait;

use super::StoreResult;
use crate::base::ids::{GatewayId, UserId};

/// Whether a streamer has a socket on a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Presence {
    /// At least one.
    Here,
    /// None.
    Gone,
}

/// Streamers' sockets.
#[async_trait]
pub trait Streamers {
    /// Notes whether a streamer has a socket on a gateway.
    async fn note_streamer(&self, streamer: &UserId, gateway: &GatewayId, presence: Presence) -> StoreResult<()>;

    /// The gateways that noted a socket of the streamer, the dead among them.
    async fn streamer_gateways(&self, streamer: &UserId) -> StoreResult<Vec<GatewayId>>;
}
