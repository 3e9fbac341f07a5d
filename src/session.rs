//! STAND-IN, replaced at merge: a socket's session.

use std::sync::Arc;

use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;

use crate::auth::Identity;
use crate::core::Core;

/// With whom the session talks, and what they asked for in the URL.
pub struct Greeting {
    /// Who.
    pub identity: Identity,
    /// `?live_id=` as sent.
    pub join: Option<String>,
    /// `?watch=` as sent.
    pub watch: Option<String>,
}

/// Runs until the socket ends.
pub async fn run<S>(core: Arc<Core>, mut socket: WebSocketStream<S>, greeting: Greeting)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    core.metrics.sockets.inc();
    tracing::debug!(user_id = %greeting.identity.user, join = ?greeting.join, watch = ?greeting.watch, "socket");
    while let Some(Ok(_)) = socket.next().await {}
    core.metrics.sockets.dec();
}
