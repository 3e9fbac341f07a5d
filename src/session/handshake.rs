//! The input of a new session. The edge makes it; tests and load generators, which run sessions
//! without the edge, make their own.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::auth::claims::TokenClaims;
use crate::base::identity::Identity;
use crate::base::keyed_permits::KeyedPermit;

/// The right to keep one socket open, on this gateway and for its address; its drop returns it.
/// Boxed, because the task of each socket carries it.
#[derive(Debug)]
pub struct SocketPermit(
    #[allow(dead_code, reason = "held, and given back when dropped")]
    Box<(OwnedSemaphorePermit, Option<KeyedPermit>)>,
);

impl SocketPermit {
    /// `address` is `None` for an address that may have any number of sockets.
    pub(crate) fn new(place: OwnedSemaphorePermit, address: Option<KeyedPermit>) -> Self {
        Self(Box::new((place, address)))
    }
}

/// The result of a new socket's handshake.
#[derive(Debug)]
pub struct Handshake {
    /// The user of the socket.
    pub identity: Identity,
    /// The claims of its token; `None` with `--auth off`.
    pub claims: Option<Arc<TokenClaims>>,
    /// `?live_id=`, as sent: the live to join at once.
    pub join: Option<String>,
    /// `?watch=`, as sent: the live to watch at once.
    pub watch: Option<String>,
    /// `None` where admission was bypassed.
    pub permit: Option<SocketPermit>,
}
