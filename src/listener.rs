//! Owns the accept loop and the life of a connection until it becomes a WebSocket or ends.
//!
//! Only so many connections are open at a time that are no sockets: see [`newcomers`]. Nothing that a peer or the machine does ends the loop: when file descriptors run out it waits and goes on. Started by
//! the wiring, once a port. Knows nothing of paths: the router does.

pub(crate) mod newcomers;

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

use self::newcomers::{Newcomer, Newcomers};
use crate::core::Core;

/// The most header lines of a request; browsers send about twenty.
const MAX_HEADERS: usize = 64;

/// The largest request head, and what one connection may hold in buffers: hyper's minimum.
const MAX_HEAD: usize = 8 << 10;

/// How long the loop waits after a failed accept: long enough not to spin, short enough not to be noticed.
const PAUSE: Duration = Duration::from_millis(75);

/// How often a failing accept is logged.
const LOG_EVERY: Duration = Duration::from_secs(1);

/// The shortest time after which the kernel gives up on a peer that takes nothing of what is sent.
const UNSENT_FOR: Duration = Duration::from_secs(30);

/// Accepts connections until `stop`, each in a task of `tracker`, and serves `router` on them.
///
/// Returns when it accepts no more. Connections that are answering a request then finish it and close; sockets live on:
/// the sessions end them. Both are in `tracker`.
pub async fn serve(
    core: Arc<Core>,
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
    tracker: TaskTracker,
) {
    let mut failures = Failures::default();
    let newcomers = Newcomers::new(core.door.limits.others, core.metrics.clone());
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                prepare(&stream, core.config.timeout);
                let newcomer = tokio::select! {
                    () = stop.cancelled() => return,
                    newcomer = newcomers.admit() => newcomer,
                };
                let connection =
                    Connection { newcomer, router: router.clone(), tracker: tracker.clone(), stop: stop.clone() };
                tracker.spawn(connection.run(stream, core.config.handshake_timeout));
            }
            // The peer was gone before it was its turn: its business, not ours.
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

/// Sets a connection's options. None is vital: a peer that is gone already fails them all, and shows soon enough.
fn prepare(stream: &TcpStream, timeout: Duration) {
    // Messages are small and matter now.
    let _ = stream.set_nodelay(true);
    // A client that asks but never reads would hold its answer for ever. Never below twice the heartbeat timeout, so that
    // a viewer without network is the session's to judge.
    let _ = SockRef::from(stream).set_tcp_user_timeout(Some(UNSENT_FOR.max(timeout * 2)));
}

/// One accepted connection.
struct Connection {
    newcomer: Arc<Newcomer>,
    router: Router,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Connection {
    /// Serves requests until the peer or a deadline ends the connection, a socket takes it over, or `stop`.
    async fn run(self, stream: TcpStream, head_timeout: Duration) {
        let Self { newcomer, router, tracker, stop } = self;
        let served = newcomer.clone();
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            // The upgrade spawns the session where the connection itself is tracked.
            request.extensions_mut().insert(tracker.clone());
            request.extensions_mut().insert(served.clone());
            let (router, newcomer) = (router.clone(), served.clone());
            let request: Request = request.map(|body| Body::new(Arriving::new(body, served.clone())));
            async move {
                let answer = router.oneshot(request).await;
                newcomer.idle();
                answer
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(head_timeout).max_headers(MAX_HEADERS).max_buf_size(MAX_HEAD);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = newcomer.gone() => return,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            // Scans, half-open probes, clients that hang up: the peer's doing.
            tracing::trace!(%error, "connection ended");
        }
    }
}

/// A request's body on its way. Until all of it is there, it is the client who is waited for.
struct Arriving {
    body: Incoming,
    newcomer: Arc<Newcomer>,
}

impl Arriving {
    fn new(body: Incoming, newcomer: Arc<Newcomer>) -> Self {
        // From now on: what was idle before is forgiven.
        newcomer.idle();
        let arriving = Self { body, newcomer };
        arriving.look();
        arriving
    }

    fn look(&self) {
        if self.body.is_end_stream() {
            self.newcomer.busy();
        }
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
        if frame.is_none() {
            self.newcomer.busy();
        }
        self.look();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Accepts that failed, logged once in a while.
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
