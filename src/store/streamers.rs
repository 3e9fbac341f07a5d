//! The boundary for streamers' sockets: on which gateways a streamer is connected. A gateway writes when a streamer's
//! first socket opens there and when the last one closes. Callers ignore the fields of dead gateways.

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

/// The gateways to which streamers are connected.
#[async_trait]
pub trait Streamers {
    /// Notes whether a streamer has a socket on a gateway.
    async fn note_streamer(&self, streamer: &UserId, gateway: &GatewayId, presence: Presence) -> StoreResult<()>;

    /// The gateways that noted a socket of the streamer, the dead among them.
    async fn streamer_gateways(&self, streamer: &UserId) -> StoreResult<Vec<GatewayId>>;
}
