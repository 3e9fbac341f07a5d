//! The life of one connection: the header of the PROXY protocol and the TLS handshake, if there are
//! any, then HTTP requests, until it ends or becomes a WebSocket.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::pending_connections::{Holder, PendingConnection, PerAddress, TooManyConnections};
use super::proxy_header;
use super::tls::Certificate;
use super::transport::PlainOrTls;
use crate::base::metrics::Metrics;
use crate::edge::client_address::proxy_hint::ProxyHint;
use crate::edge::client_address::{ClientAddress, TrustedProxies, network};
use crate::edge::keep_alive::{ConnectionEnding, Crowded};

/// The most header lines of a request; browsers send about twenty.
pub(super) const MAX_HEADERS: usize = 64;

/// The largest request head, and the most that one connection may hold in buffers: hyper's minimum.
pub(super) const MAX_HEAD: usize = 8 << 10;

/// How many bytes TLS may hold for a client that does not read, beyond the buffers of the kernel and
/// of the session.
const MAX_UNSENT: usize = 16 << 10;

#[derive(Clone)]
pub(crate) struct PortSettings {
    /// Maximum connections that are not WebSockets.
    pub(crate) pending: usize,
    /// Maximum of them for one address.
    pub(crate) per_address: PerAddress,
    pub(crate) handshake_timeout: Duration,
    /// How long a WebSocket may be silent before it is closed.
    pub(crate) timeout: Duration,
    /// `None` if the port speaks no TLS.
    pub(crate) certificate: Option<Arc<Certificate>>,
    pub(crate) proxy_protocol: bool,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) metrics: Arc<Metrics>,
}

impl PortSettings {
    /// The holder to whom a connection counts before anything is read from it.
    pub(super) fn holder_at_first(&self, peer: ClientAddress) -> Holder {
        // A balancer is about to name its client.
        if self.proxy_protocol {
            Holder::Unbounded
        } else {
            self.holder(peer)
        }
    }

    /// The holder to whom a connection of this client counts. A trusted proxy has the connections
    /// of many clients.
    fn holder(&self, client: ClientAddress) -> Holder {
        match client.limited() {
            Some(address) if !self.trusted_proxies.trusts(address) => {
                Holder::Network(network(address))
            }
            _ => Holder::Unbounded,
        }
    }
}

pub(super) struct Connection {
    pub(super) port: Arc<PortSettings>,
    pub(super) pending: Arc<PendingConnection>,
    pub(super) hint: Arc<ProxyHint>,
    pub(super) router: Router,
    pub(super) tracker: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// A connection that is ready for its first request.
struct ReadyConnection {
    transport: PlainOrTls,
    /// The address that connected, to this port or to the balancer in front of it.
    peer: ClientAddress,
}

/// Why a connection ended before its first request. `why` is the label in the metric.
struct FailedConnection {
    why: &'static str,
    error: io::Error,
}

impl From<TooManyConnections> for FailedConnection {
    fn from(_: TooManyConnections) -> Self {
        Self {
            why: "too_many",
            error: io::Error::other("the address holds as many connections as it may"),
        }
    }
}

impl Connection {
    /// Serves requests until the peer or a deadline ends the connection, a socket takes it over, or
    /// `stop`.
    pub(super) async fn run(self, tcp: TcpStream, peer: ClientAddress) {
        // Boxed: the future of this function must not keep room for a handshake while it serves
        // requests.
        let opened = tokio::select! {
            biased;
            () = self.pending.evicted() => return,
            opened = Box::pin(self.open(tcp, peer)) => opened,
            () = self.stop.cancelled() => return,
        };
        match opened {
            Ok(opened) => self.serve(opened).await,
            Err(FailedConnection { why, error }) => {
                Metrics::count(&self.port.metrics.connections_failed, why);
                tracing::trace!(why, %error, "connection failed");
            }
        }
    }

    async fn open(
        &self,
        mut tcp: TcpStream,
        mut peer: ClientAddress,
    ) -> Result<ReadyConnection, FailedConnection> {
        let limit = self.port.handshake_timeout;
        if self.port.proxy_protocol {
            let header = within(limit, "proxy_header", proxy_header::read(&mut tcp)).await?;
            if let Some(client) = header {
                peer = ClientAddress::Forwarded(client);
            }
            if let Err(too_many) = self.pending.belongs_to(self.port.holder(peer)) {
                self.hint.refused(peer.address());
                return Err(too_many.into());
            }
        }
        let transport = match &self.port.certificate {
            None => PlainOrTls::Plain(tcp),
            Some(certificate) => {
                let accept = certificate
                    .acceptor()
                    .accept_with(tcp, |session| session.set_buffer_limit(Some(MAX_UNSENT)));
                let stream = within(limit, "tls_handshake", accept).await?;
                PlainOrTls::Tls(Box::new(stream))
            }
        };
        Ok(ReadyConnection { transport, peer })
    }

    async fn serve(self, opened: ReadyConnection) {
        let ReadyConnection { transport, peer } = opened;
        let Self {
            port,
            pending,
            router,
            tracker,
            stop,
            ..
        } = self;
        let served = pending.clone();
        let scheme = transport.scheme();
        let head_timeout = port.handshake_timeout;
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let client = port.trusted_proxies.client(peer, request.headers());
            let extensions = request.extensions_mut();
            // The upgrade spawns the session in the tracker of this connection.
            extensions.insert(tracker.clone());
            extensions.insert(served.clone());
            extensions.insert(client);
            extensions.insert(scheme);
            // A proxy that keeps connections open has one client after another on each.
            let is_proxied = client != peer;
            if is_proxied && served.belongs_to(port.holder(client)).is_err() {
                request.extensions_mut().insert(Crowded);
            }
            let request: Request =
                request.map(|body| Body::new(Arriving::new(body, served.clone())));
            let router = router.clone();
            let pending = served.clone();
            let port = port.clone();
            async move {
                let mut answer = router.oneshot(request).await?;
                if pending.is_scarce() || (!is_proxied && ends_connection(&answer)) {
                    close_after(&mut answer);
                }
                pending.answered();
                if is_proxied {
                    let _ = pending.belongs_to(port.holder(peer));
                }
                Ok::<_, Infallible>(answer)
            }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(head_timeout)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEAD);
        let mut connection = pin!(
            http.serve_connection(TokioIo::new(transport), service)
                .with_upgrades()
        );
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

/// Does one step of a handshake, in time. `step` is the label of its failures.
async fn within<T>(
    limit: Duration,
    step: &'static str,
    work: impl Future<Output = io::Result<T>>,
) -> Result<T, FailedConnection> {
    let error = match timeout(limit, work).await {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => error,
        Err(_) => io::ErrorKind::TimedOut.into(),
    };
    Err(FailedConnection { why: step, error })
}

/// Whether a client has to connect again after this answer: a request that is refused must cost its
/// sender more than the gateway. A caller with good credentials may go on, because it often asks
/// about things that may not be there.
fn ends_connection(answer: &Response) -> bool {
    match answer.extensions().get::<ConnectionEnding>() {
        Some(ConnectionEnding::Spared) => false,
        Some(ConnectionEnding::BudgetSpent) => true,
        None => answer.status().is_client_error(),
    }
}

fn close_after(answer: &mut Response) {
    // The connection is a WebSocket from here on.
    let is_upgrade = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    let closes = headers
        .get_all(header::CONNECTION)
        .iter()
        .any(|value| value == "close");
    if !is_upgrade && !closes {
        headers.append(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// A request's body as it arrives. Until the body is complete, the connection counts as idle,
/// because the gateway waits for the client.
struct Arriving {
    body: Incoming,
    pending: Arc<PendingConnection>,
}

impl Arriving {
    fn new(body: Incoming, pending: Arc<PendingConnection>) -> Self {
        // The idle time starts anew with each request.
        pending.begun();
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
