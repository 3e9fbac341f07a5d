//! The address of the client behind a request, for everything that limits by address. The listener puts it into the
//! extensions of every request.

use std::net::IpAddr;

/// Where the client is: the peer of the connection, or whom a trusted proxy names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);
