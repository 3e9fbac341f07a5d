//! `GET /ws`: turns an HTTP request into a WebSocket session, or refuses it with a problem document.
//!
//! A refusal is an HTTP answer, never a socket that closes at once, so that the client can read the
//! reason. After the 101 of an accepted upgrade, hyper gives the raw connection back, and the
//! session takes it over.

pub(crate) mod probe;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::task::TaskTracker;

use crate::base::ids::UserId;
use crate::base::metrics::Metrics;
use crate::edge::admission::queue::Decision;
use crate::edge::http::candidate::{SocketCandidate, SocketRefusal, check_draining};
use crate::edge::http::problem::{ProblemKind, refusals};
use crate::edge::http::state::AppState;
use crate::edge::listener::pending_connections::PendingConnection;
use crate::edge::listener::transport::PlainOrTls;
use crate::session::SocketPermit;
use crate::session::{self, Handshake};

/// The path at which a client asks whether the gateway would accept its upgrade.
pub(crate) const ADMISSION: &str = "/ws/admission";

const SUBPROTOCOL: &str = "rollcall.v1";

/// How long hyper may take to write the 101 and release the socket.
const HANDOVER: Duration = Duration::from_secs(10);

refusals!(
    Refused = BadHandshake,
    InvalidUser,
    InvalidRole,
    Unauthorized,
    Forbidden,
    ForbiddenOrigin,
    UpgradeRequired,
    RateLimited,
    TooManySockets,
    Crowded,
    Full,
    BeingErased,
    Draining
);

/// Open the WebSocket
///
/// One JSON object per text frame, in both directions; any frame from the client is a heartbeat.
/// With `--auth off` the query says who it is.
///
/// A plain GET is answered with 426. A browser cannot read the answer to a refused upgrade: a page
/// asks `/ws/admission` first.
#[utoipa::path(get, path = "/ws", operation_id = "open_socket", tag = "socket",
    params(
        ("user_id" = Option<String>, Query, description = "Who it is (only with --auth off)", example = "u1"),
        ("role" = Option<String>, Query,
            description = "viewer (the default), streamer or service (only with --auth off)"),
        ("token" = Option<String>, Query, description = "A token, for clients that cannot send it in a header"),
        ("live_id" = Option<String>, Query, description = "Joins this live at once", example = "42"),
        ("watch" = Option<String>, Query, description = "Watches this live at once"),
        ("count" = Option<bool>, Query,
            description = "With false the socket takes part, and is in no figure, no list, no time and no event"),
        ("invisible" = Option<bool>, Query, description = "True is the same as count=false"),
        ("Sec-WebSocket-Protocol" = Option<String>, Header, description = "rollcall.v1 is selected when offered"),
    ),
    responses((status = 101, description = "A WebSocket from here on"), Refused))]
pub(crate) async fn upgrade(State(state): State<Arc<AppState>>, request: Request) -> Response {
    let asked = Instant::now();
    let (parts, _) = request.into_parts();
    match accept(&state, parts, asked).await {
        Ok(response) => response,
        Err(SocketRefusal { why, problem }) => {
            Metrics::count(&state.core.metrics.upgrades_refused, why);
            tracing::debug!(why, code = problem.kind().code(), "upgrade refused");
            problem.into_response()
        }
    }
}

/// Answers 101, and spawns a task that waits until hyper gives the connection back.
async fn accept(
    state: &Arc<AppState>,
    mut parts: Parts,
    asked: Instant,
) -> Result<Response, SocketRefusal> {
    let key = check_handshake(&parts)?;
    let SocketCandidate {
        identity,
        claims,
        first,
        address,
    } = SocketCandidate::check(state, &parts).await?;
    let Some(on_upgrade) = parts.extensions.remove::<OnUpgrade>() else {
        return Err(not_upgradable());
    };
    let Some(tracker) = parts.extensions.remove::<TaskTracker>() else {
        return Err(not_upgradable());
    };
    let pending = parts.extensions.remove::<Arc<PendingConnection>>();
    let place = admit(state, &identity.user, pending).await?;
    let permit = SocketPermit::new(place, address);
    // A drain may have begun meanwhile.
    check_draining(state)?;
    let response = switching_protocols(&key, &parts.headers);
    let handshake = Handshake {
        identity,
        claims,
        join: first.live_id,
        watch: first.watch,
        permit: Some(permit),
    };
    let state = state.clone();
    let sockets = tracker.clone();
    tracker.spawn(async move {
        match tokio::time::timeout(HANDOVER, take_over(on_upgrade)).await {
            // The session gets a task of its own, which is about 1 kB smaller than this one.
            Ok(Some((socket, early))) => {
                state
                    .core
                    .metrics
                    .handshake_seconds
                    .observe(asked.elapsed().as_secs_f64());
                let session = session::run(state.sessions.clone(), socket, early, handshake);
                sockets.spawn(session);
            }
            Ok(None) => Metrics::count(&state.core.metrics.upgrades_refused, "lost"),
            Err(_) => Metrics::count(&state.core.metrics.upgrades_refused, "slow"),
        }
    });
    Ok(response)
}

fn not_upgradable() -> SocketRefusal {
    SocketRefusal::new(
        "not_upgradable",
        ProblemKind::UpgradeRequired,
        "this connection cannot change its protocol",
    )
}

/// Waits until the handshake is admitted, or refuses it if the wait would be long.
async fn admit(
    state: &AppState,
    user: &UserId,
    pending: Option<Arc<PendingConnection>>,
) -> Result<OwnedSemaphorePermit, SocketRefusal> {
    let wait = match state.admission.decide(user) {
        Decision::Admit(wait) => wait,
        Decision::RetryAfter(seconds) => return Err(SocketRefusal::crowded(seconds)),
    };
    // A handshake with a place frees its slot among the pending connections. A handshake that waits
    // for a place keeps the slot.
    let at_once = state.admission.place_now();
    if at_once.is_some()
        && let Some(pending) = &pending
    {
        pending.becomes_socket();
    }
    if !wait.is_zero() {
        let _waiting = WaitingHandshake::new(&state.core.metrics);
        tokio::time::sleep(wait).await;
        state.core.metrics.handshakes_delayed.inc();
    }
    let place = match at_once {
        Some(place) => place,
        None => {
            let _waiting = WaitingHandshake::new(&state.core.metrics);
            state
                .admission
                .place(user)
                .await
                .map_err(SocketRefusal::full)?
        }
    };
    if let Some(pending) = pending {
        pending.becomes_socket();
    }
    Ok(place)
}

/// Counts a waiting handshake until the wait ends, or the client hangs up.
struct WaitingHandshake<'a>(&'a Metrics);

impl<'a> WaitingHandshake<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.handshakes_waiting.inc();
        Self(metrics)
    }
}

impl Drop for WaitingHandshake<'_> {
    fn drop(&mut self) {
        self.0.handshakes_waiting.dec();
    }
}

/// Checks what RFC 6455 requires of a client's handshake; returns its key.
fn check_handshake(parts: &Parts) -> Result<HeaderValue, SocketRefusal> {
    let headers = &parts.headers;
    // The route takes HEAD too, as every GET route does.
    let can_upgrade = parts.method == Method::GET && parts.version == Version::HTTP_11;
    let asks_for_upgrade = contains_token(headers, &header::CONNECTION, "upgrade")
        && contains_token(headers, &header::UPGRADE, "websocket");
    if !can_upgrade || !asks_for_upgrade {
        return Err(SocketRefusal::new(
            "not_an_upgrade",
            ProblemKind::UpgradeRequired,
            "open this path with a WebSocket client",
        ));
    }
    if only_line(headers, &header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(SocketRefusal::new(
            "version",
            ProblemKind::UpgradeRequired,
            "only version 13 of the WebSocket protocol is spoken",
        ));
    }
    if let Some(key) = only_line(headers, &header::SEC_WEBSOCKET_KEY)
        && is_nonce(key)
    {
        return Ok(key.clone());
    }
    Err(SocketRefusal::new(
        "key",
        ProblemKind::BadHandshake,
        "Sec-WebSocket-Key is 16 bytes in base64",
    ))
}

fn is_nonce(key: &HeaderValue) -> bool {
    match BASE64.decode(key.as_bytes()) {
        Ok(nonce) => nonce.len() == 16,
        Err(_) => false,
    }
}

/// The value of a header; `None` unless the request has exactly one line of it.
fn only_line<'a>(headers: &'a HeaderMap, header: &HeaderName) -> Option<&'a HeaderValue> {
    let mut lines = headers.get_all(header).iter();
    let first = lines.next()?;
    if lines.next().is_some() {
        return None;
    }
    Some(first)
}

/// The items of all lines of a comma-separated header.
fn items<'a>(headers: &'a HeaderMap, header: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(header)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim)
}

/// Whether a comma-separated header contains a word that may be written in any case.
fn contains_token(headers: &HeaderMap, header: &HeaderName, word: &str) -> bool {
    items(headers, header).any(|item| item.eq_ignore_ascii_case(word))
}

fn switching_protocols(key: &HeaderValue, asked: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    // The client compares the answer with its offer letter by letter, and gives up if they differ.
    if items(asked, &header::SEC_WEBSOCKET_PROTOCOL).any(|offered| offered == SUBPROTOCOL) {
        headers.insert(
            header::SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static(SUBPROTOCOL),
        );
    }
    response
}

/// Takes the connection back from hyper, with the bytes that the client has already sent on it.
async fn take_over(on_upgrade: OnUpgrade) -> Option<(PlainOrTls, Vec<u8>)> {
    let upgraded: Upgraded = on_upgrade.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<PlainOrTls>>().ok()?;
    Some((parts.io.into_inner(), parts.read_buf.to_vec()))
}

#[cfg(test)]
mod tests;
