//! The accept loop of a port. [`connection`] serves the connections that it accepts.
//!
//! No error ends the loop: when file descriptors run out, it waits and goes on.
//! [`pending_connections`] bounds the number of connections that are not WebSockets, in all and for
//! each address. The wiring starts one loop for each port. The loop does not look at paths; the
//! router does.

mod connection;
pub(crate) mod pending_connections;
pub mod proxy_header;
pub(crate) mod tls;
pub(crate) mod transport;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::connection::Connection;
pub(crate) use self::connection::PortSettings;
use self::pending_connections::PendingConnections;
use crate::edge::client_address::ClientAddress;
use crate::edge::client_address::proxy_hint::ProxyHint;

/// How long the loop waits after a failed accept.
const PAUSE: Duration = Duration::from_millis(75);

/// How often a failing accept is logged.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// How many bytes the kernel keeps for a client: sent but not acknowledged, and not sent yet. The
/// kernel takes twice as much memory for them. Without this limit, it would keep some megabytes for
/// a client that does not read.
const SEND_BUFFER: usize = 32 << 10;

/// How many bytes the kernel takes before it can send them. A client that does not read holds no
/// more than these and one message.
const UNSENT: u32 = 16 << 10;

/// The kernel does not give up earlier than this on a peer that acknowledges nothing.
const UNSENT_FOR: Duration = Duration::from_secs(30);

/// Accepts connections until `stop`, each in a task of `tracker`, and serves `router` on them.
///
/// After `stop` a connection that is answering a request finishes it and closes; sockets live on
/// until their sessions end. `tracker` has both.
pub(crate) async fn serve(
    settings: PortSettings,
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    tracker: TaskTracker,
) {
    let mut failures = Failures::default();
    let port = Arc::new(settings);
    let pending = PendingConnections::new(port.pending, port.per_address, port.metrics.clone());
    let hint = Arc::new(ProxyHint::new("connections"));
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                prepare(&stream, port.timeout);
                let peer = ClientAddress::Peer(peer.ip().to_canonical());
                let admitted = tokio::select! {
                    () = stop.cancelled() => return,
                    admitted = pending.admit(port.holder_at_first(peer)) => admitted,
                };
                let Ok(pending) = admitted else {
                    hint.refused(peer.address());
                    continue;
                };
                let connection = Connection {
                    port: port.clone(),
                    pending,
                    hint: hint.clone(),
                    router: router.clone(),
                    tracker: tracker.clone(),
                    stop: stop.clone(),
                };
                tracker.spawn(connection.run(stream, peer));
            }
            // The peer left before it was accepted.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                failures.note(&error);
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(PAUSE) => {}
                }
            }
        }
    }
}

/// Sets a connection's options. It ignores errors: they mean that the peer is gone, which the first
/// read shows too.
fn prepare(stream: &TcpStream, timeout: Duration) {
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(stream).set_send_buffer_size(SEND_BUFFER);
    let _ = SockRef::from(stream).set_tcp_notsent_lowat(UNSENT);
    // Without this timeout, a client that asks but never reads would hold its answer for ever. The
    // kernel waits at least twice the heartbeat timeout, so that the session, not the kernel,
    // decides when a viewer without network is gone.
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(UNSENT_FOR.max(timeout * 2)));
}

/// Counts failed accepts and logs them at most once each [`LOG_EVERY`].
#[derive(Default)]
struct Failures {
    unlogged: u64,
    logged_at: Option<Instant>,
}

impl Failures {
    fn note(&mut self, error: &io::Error) {
        self.unlogged += 1;
        if self.logged_at.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
            tracing::warn!(%error, failures = self.unlogged, "cannot accept connections; still trying");
            *self = Self {
                unlogged: 0,
                logged_at: Some(Instant::now()),
            };
        }
    }
}

#[cfg(test)]
mod tests;
