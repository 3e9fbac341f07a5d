//! What all attacks are directed at.

use super::issuer::Issuer;
use crate::bench::servers::BenchGateway;

/// Gateways with a live that is open.
pub(super) struct Scene {
    pub(super) issuer: Issuer,
    pub(super) gateway: BenchGateway,
    /// Another one, behind a balancer that speaks the PROXY protocol.
    pub(super) proxied: BenchGateway,
    /// A live that is open.
    pub(super) live_id: String,
    /// A fan of its streamer who never comes; hostile clients pretend to be this user.
    pub(super) absent_fan: String,
}
