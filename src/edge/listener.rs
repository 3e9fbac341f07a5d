//! The accept loop of a port, and the life of a connection until it ends or becomes a WebSocket.
//!
//! No error ends the loop: when file descriptors run out it waits and goes on. [`pending_connections`] bounds the
//! number of connections that are not WebSockets. The wiring starts one loop for each port. The loop does not look at
//! paths; the router does.

pub(crate) mod pending_connections;

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use self::pending_connections::{PendingConnection, PendingConnections};
use crate::base::metrics::Metrics;
use crate::edge::client_address::ClientAddress;

/// The most header lines of a request; browsers send about twenty.
const MAX_HEADERS: usize = 64;

/// The largest request head, and what one connection may hold in buffers: hyper's minimum.
const MAX_HEAD: usize = 8 << 10;

/// How long the loop waits after a failed accept.
const PAUSE: Duration = Duration::from_millis(75);

/// How often a failing accept is logged.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The kernel does not give up earlier than this on a peer that acknowledges nothing.
const UNSENT_FOR: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct PortSettings {
    /// The most connections that are no sockets.
    pub(crate) pending: usize,
    pub(crate) handshake_timeout: Duration,
    /// A socket that is silent for so long is closed.
    pub(crate) timeout: Duration,
    pub(crate) metrics: Arc<Metrics>,
}

/// Accepts connections until `stop`, each in a task of `tracker`, and serves `router` on them.
///
/// Returns when it accepts no more. A connection that is answering a request then finishes it and closes; sockets live
/// on until their sessions end. Both are in `tracker`.
pub(crate) async fn serve(
    settings: PortSettings,
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    tracker: TaskTracker,
) {
    let mut failures = Failures::default();
    let pending = PendingConnections::new(settings.pending, settings.metrics);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                prepare(&stream, settings.timeout);
                let pending = tokio::select! {
                    () = stop.cancelled() => return,
                    admitted = pending.admit() => admitted,
                };
                let connection = Connection {
                    pending,
                    router: router.clone(),
                    tracker: tracker.clone(),
                    stop: stop.clone(),
                    client: ClientAddress(peer.ip().to_canonical()),
                };
                tracker.spawn(connection.run(stream, settings.handshake_timeout));
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

/// Sets a connection's options. Errors are ignored: they mean that the peer is gone, which the first read shows too.
fn prepare(stream: &TcpStream, timeout: Duration) {
    let _ = stream.set_nodelay(true);
    // A client that asks but never reads would hold its answer for ever. Twice the heartbeat timeout is the least, so
    // that the session, not the kernel, decides when a viewer without network is gone.
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(UNSENT_FOR.max(timeout * 2)));
}

struct Connection {
    pending: Arc<PendingConnection>,
    router: Router,
    tracker: TaskTracker,
    stop: CancellationToken,
    client: ClientAddress,
}

impl Connection {
    /// Serves requests until the peer or a deadline ends the connection, a socket takes it over, or `stop`.
    async fn run(self, stream: TcpStream, head_timeout: Duration) {
        let Self { pending, router, tracker, stop, client } = self;
        let served = pending.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            // The upgrade spawns the session in the tracker of this connection.
            request.extensions_mut().insert(tracker.clone());
            request.extensions_mut().insert(served.clone());
            request.extensions_mut().insert(client);
            let (router, pending) = (router.clone(), served.clone());
            let request: Request = request.map(|body| Body::new(Arriving::new(body, served.clone())));
            async move {
                let answer = router.oneshot(request).await;
                pending.idle();
                answer
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = pending.evicted() => return,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            // Port scans, half-open probes, clients that hang up.
            tracing::trace!(%error, "connection ended");
        }
    }
}

/// A request's body as it arrives. Until the body is complete, the connection counts as idle, because the gateway waits
/// for the client.
struct Arriving {
    body: Incoming,
    pending: Arc<PendingConnection>,
}

impl Arriving {
    fn new(body: Incoming, pending: Arc<PendingConnection>) -> Self {
        // The idle time starts anew with each request.
        pending.idle();
        if body.is_end_stream() {
            pending.busy();
        }
        Self { body, pending }
    }
}

impl HttpBody for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.pending.busy();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
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
            *self = Self { unlogged: 0, logged_at: Some(Instant::now()) };
        }
    }
}

#[cfg(test)]
mod tests;
