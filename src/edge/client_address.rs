//! Where a request comes from. The listener puts it into the request's extensions.

use std::net::IpAddr;

/// The address of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);
