//! `GET /ws`: from an HTTP request to a WebSocket session, or to a refusal as a problem document.
//!
//! A refused upgrade is an HTTP answer, never a socket that closes at once, so that the client can read why. After the
//! 101 of an accepted upgrade, hyper gives the raw `TcpStream` back, and the session takes it over.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_util::task::TaskTracker;

use crate::base::ids::UserId;
use crate::base::metrics::Metrics;
use crate::edge::admission::queue::Decision;
use crate::edge::credentials::{AuthError, authenticate};
use crate::edge::http::problem::{Kind, Problem, refusals};
use crate::edge::http::state::AppState;
use crate::edge::listener::pending_connections::PendingConnection;
use crate::session::SocketPermit;
use crate::session::{self, Handshake};

const SUBPROTOCOL: &str = "rollcall.v1";

/// How long hyper may take to write the 101 and release the socket.
const HANDOVER: Duration = Duration::from_secs(10);

/// What the query asks the session to do first. The session checks it, because it can answer over the socket.
#[derive(Deserialize)]
struct FirstRequests {
    live_id: Option<String>,
    watch: Option<String>,
}

/// A refusal, with the label under which it is counted.
struct Refusal {
    why: &'static str,
    problem: Problem,
}

fn refuse(why: &'static str, kind: Kind, detail: &'static str) -> Refusal {
    Refusal { why, problem: Problem::new(kind, detail) }
}

refusals!(
    Refused = InvalidQuery,
    BadHandshake,
    InvalidUser,
    InvalidRole,
    Unauthorized,
    Forbidden,
    UpgradeRequired,
    Crowded,
    Full,
    Draining
);

/// Open the WebSocket
///
/// One JSON object per text frame, in both directions; any frame from the client is a heartbeat. With `--auth off` the
/// query says who it is.
#[utoipa::path(get, path = "/ws", operation_id = "open_socket", tag = "socket",
    params(
        ("user_id" = Option<String>, Query, description = "Who it is (only with --auth off)", example = "u1"),
        ("role" = Option<String>, Query,
            description = "viewer (the default), streamer or service (only with --auth off)"),
        ("live_id" = Option<String>, Query, description = "Joins this live at once", example = "42"),
        ("watch" = Option<String>, Query, description = "Watches this live at once"),
        ("count" = Option<bool>, Query, description = "With false the socket takes part but is in no figure"),
        ("Sec-WebSocket-Protocol" = Option<String>, Header, description = "rollcall.v1 is selected when offered"),
    ),
    responses((status = 101, description = "A WebSocket from here on"), Refused))]
pub(crate) async fn upgrade(State(state): State<Arc<AppState>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match accept(&state, parts).await {
        Ok(response) => response,
        Err(Refusal { why, problem }) => {
            Metrics::count(&state.metrics.upgrades_refused, why);
            tracing::debug!(why, code = problem.kind().code(), "upgrade refused");
            problem.into_response()
        }
    }
}

/// Answers 101 and leaves a task behind that waits for the connection to come free.
async fn accept(state: &Arc<AppState>, mut parts: Parts) -> Result<Response, Refusal> {
    let key = check_handshake(&parts)?;
    check_draining(state)?;
    let (identity, claims) = authenticate(state.tokens.as_deref(), &parts)
        .await
        .map_err(|error| Refusal { why: "unauthorized", problem: Problem::from(error) })?;
    let Query(first) = Query::<FirstRequests>::try_from_uri(&parts.uri)
        .map_err(|error| Refusal { why: "bad_query", problem: AuthError::Query(error.body_text()).into() })?;
    let (Some(on_upgrade), Some(tracker)) =
        (parts.extensions.remove::<OnUpgrade>(), parts.extensions.remove::<TaskTracker>())
    else {
        return Err(refuse("not_upgradable", Kind::UpgradeRequired, "this connection cannot change its protocol"));
    };
    let permit = admit(state, &identity.user, parts.extensions.remove::<Arc<PendingConnection>>()).await?;
    // A drain may have begun meanwhile.
    check_draining(state)?;
    let response = switching_protocols(&key, &parts.headers);
    let handshake = Handshake { identity, claims, join: first.live_id, watch: first.watch, permit: Some(permit) };
    let (state, sockets) = (state.clone(), tracker.clone());
    tracker.spawn(async move {
        match tokio::time::timeout(HANDOVER, take_over(on_upgrade)).await {
            // The session gets a task of its own, which is about 1 kB smaller than this one.
            Ok(Some((socket, early))) => {
                drop(sockets.spawn(session::run(state.sessions.clone(), socket, early, handshake)))
            }
            Ok(None) => Metrics::count(&state.metrics.upgrades_refused, "lost"),
            Err(_) => Metrics::count(&state.metrics.upgrades_refused, "slow"),
        }
    });
    Ok(response)
}

fn check_draining(state: &AppState) -> Result<(), Refusal> {
    if state.sessions.is_draining() {
        return Err(refuse("draining", Kind::Draining, "this gateway is about to stop; connect again"));
    }
    Ok(())
}

/// Waits until the handshake is admitted, or refuses it if the wait would be long.
async fn admit(
    state: &AppState,
    user: &UserId,
    pending: Option<Arc<PendingConnection>>,
) -> Result<SocketPermit, Refusal> {
    let later = |why, kind, seconds, detail| Refusal { why, problem: Problem::later(kind, seconds, detail) };
    let wait = match state.admission.decide(user) {
        Decision::Admit(wait) => wait,
        Decision::RetryAfter(seconds) => {
            let detail = "many clients connect now; connect again after Retry-After";
            return Err(later("crowded", Kind::Crowded, seconds, detail));
        }
    };
    // A handshake with a permit frees its slot among the pending connections; one that waits for a permit keeps it.
    let at_once = state.admission.permit_now();
    if let (Some(pending), Some(_)) = (&pending, &at_once) {
        pending.becomes_socket();
    }
    if !wait.is_zero() {
        let _waiting = Waiting::new(&state.metrics);
        tokio::time::sleep(wait).await;
        state.metrics.handshakes_delayed.inc();
    }
    let permit = match at_once {
        Some(permit) => permit,
        None => {
            let _waiting = Waiting::new(&state.metrics);
            let full = "there is no room for another socket; connect to another gateway";
            state.admission.permit(user).await.map_err(|seconds| later("full", Kind::Full, seconds, full))?
        }
    };
    if let Some(pending) = pending {
        pending.becomes_socket();
    }
    Ok(permit)
}

/// Counts a waiting handshake until it is dropped, which is early if the client hangs up.
struct Waiting<'a>(&'a Metrics);

impl<'a> Waiting<'a> {
    fn new(metrics: &'a Metrics) -> Self {
        metrics.handshakes_waiting.inc();
        Self(metrics)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.handshakes_waiting.dec();
    }
}

/// Checks what RFC 6455 requires of a client's handshake; returns its key.
fn check_handshake(parts: &Parts) -> Result<HeaderValue, Refusal> {
    let headers = &parts.headers;
    // The route takes HEAD too, as every GET route does.
    let fits = parts.method == Method::GET && parts.version == Version::HTTP_11;
    let asks = contains_token(headers, &header::CONNECTION, "upgrade")
        && contains_token(headers, &header::UPGRADE, "websocket");
    if !fits || !asks {
        return Err(refuse("not_an_upgrade", Kind::UpgradeRequired, "open this path with a WebSocket client"));
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(refuse("version", Kind::UpgradeRequired, "only version 13 of the WebSocket protocol is spoken"));
    }
    let nonce = |key: &&HeaderValue| BASE64.decode(key.as_bytes()).is_ok_and(|nonce| nonce.len() == 16);
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(nonce).cloned();
    key.ok_or_else(|| refuse("key", Kind::BadHandshake, "Sec-WebSocket-Key is 16 bytes in base64"))
}

/// Whether a comma-separated header contains a token, in any case, in any of its lines.
fn contains_token(headers: &HeaderMap, header: &HeaderName, word: &str) -> bool {
    let lines = headers.get_all(header).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|item| item.trim().eq_ignore_ascii_case(word))
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
    if contains_token(asked, &header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    response
}

/// Takes the connection back from hyper, with what the client has already sent on it.
async fn take_over(on_upgrade: OnUpgrade) -> Option<(TcpStream, Vec<u8>)> {
    let upgraded: Upgraded = on_upgrade.await.ok()?;
    let parts = upgraded.downcast::<TokioIo<TcpStream>>().ok()?;
    Some((parts.io.into_inner(), parts.read_buf.to_vec()))
}

#[cfg(test)]
mod tests;
