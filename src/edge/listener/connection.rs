//! The life of one connection: the header of the PROXY protocol and the TLS handshake, if there are any, then HTTP
//! requests, until it ends or becomes a WebSocket.

use std::io;
use std::net::IpAddr;
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
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::rustls::ServerConnection;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::pending_connections::PendingConnection;
use super::proxy_header;
use super::tls::Certificate;
use super::transport::Transport;
use crate::base::metrics::Metrics;
use crate::config::ProxyProtocol;
use crate::edge::client_address::TrustedProxies;

/// The most header lines of a request; browsers send about twenty.
pub(super) const MAX_HEADERS: usize = 64;

/// The largest request head, and what one connection may hold in buffers: hyper's minimum.
pub(super) const MAX_HEAD: usize = 8 << 10;

/// What TLS may hold back for a client that does not read, beyond the kernel's buffer and the session's.
const MAX_UNSENT: usize = 16 << 10;

#[derive(Clone)]
pub(crate) struct PortSettings {
    /// The most connections that are no sockets.
    pub(crate) pending: usize,
    pub(crate) handshake_timeout: Duration,
    /// A socket that is silent for so long is closed.
    pub(crate) timeout: Duration,
    /// `None`: the port speaks no TLS.
    pub(crate) certificate: Option<Arc<Certificate>>,
    pub(crate) proxy_protocol: ProxyProtocol,
    pub(crate) trusted_proxies: TrustedProxies,
    pub(crate) metrics: Arc<Metrics>,
}

pub(super) struct Connection {
    pub(super) port: Arc<PortSettings>,
    pub(super) pending: Arc<PendingConnection>,
    pub(super) router: Router,
    pub(super) tracker: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// What must be known before the first request.
struct Opened {
    transport: Transport,
    /// The address that connected, to this port or to the balancer in front of it.
    peer: IpAddr,
}

/// Why a connection ended before its first request, with the label under which it is counted.
struct Failed {
    why: &'static str,
    error: io::Error,
}

impl Connection {
    /// Serves requests until the peer or a deadline ends the connection, a socket takes it over, or `stop`.
    pub(super) async fn run(self, tcp: TcpStream, peer: IpAddr) {
        // Boxed: what a handshake needs is gone when requests are served.
        let opened = tokio::select! {
            biased;
            () = self.pending.evicted() => return,
            opened = Box::pin(self.open(tcp, peer.to_canonical())) => opened,
            () = self.stop.cancelled() => return,
        };
        match opened {
            Ok(opened) => self.serve(opened).await,
            Err(Failed { why, error }) => {
                Metrics::count(&self.port.metrics.connections_failed, why);
                tracing::trace!(why, %error, "connection failed");
            }
        }
    }

    async fn open(&self, mut tcp: TcpStream, peer: IpAddr) -> Result<Opened, Failed> {
        let deadline = |why| move |_| Failed { why, error: io::ErrorKind::TimedOut.into() };
        let failed = |why| move |error| Failed { why, error };
        let limit = self.port.handshake_timeout;
        let mut client = peer;
        if self.port.proxy_protocol == ProxyProtocol::On {
            let read = timeout(limit, proxy_header::read(&mut tcp)).await.map_err(deadline("proxy_header"))?;
            client = read.map_err(failed("proxy_header"))?.unwrap_or(peer);
        }
        let transport = match &self.port.certificate {
            None => Transport::Plain(tcp),
            Some(certificate) => {
                let bound = |session: &mut ServerConnection| session.set_buffer_limit(Some(MAX_UNSENT));
                let accept = certificate.acceptor().accept_with(tcp, bound);
                let accepted = timeout(limit, accept).await.map_err(deadline("tls_handshake"))?;
                Transport::Tls(Box::new(accepted.map_err(failed("tls_handshake"))?))
            }
        };
        Ok(Opened { transport, peer: client })
    }

    async fn serve(self, Opened { transport, peer }: Opened) {
        let Self { port, pending, router, tracker, stop } = self;
        let (served, scheme, head_timeout) = (pending.clone(), transport.scheme(), port.handshake_timeout);
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            let client = port.trusted_proxies.client(peer, request.headers());
            let extensions = request.extensions_mut();
            // The upgrade spawns the session in the tracker of this connection.
            extensions.insert(tracker.clone());
            extensions.insert(served.clone());
            extensions.insert(client);
            extensions.insert(scheme);
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
        let mut connection = pin!(http.serve_connection(TokioIo::new(transport), service).with_upgrades());
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
