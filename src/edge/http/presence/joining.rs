//! `POST /v1/presence`: begins a session without a socket.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequest, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::auth::session_claims::SessionClaims;
use crate::base::ids::{LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::edge::admission::queue::Decision;
use crate::edge::http::candidate::{SocketCandidate, SocketRefusal, check_draining};
use crate::edge::http::infos;
use crate::edge::http::problem::{Problem, refusals};
use crate::edge::http::requests::{JsonObject, in_body, run_to_completion};
use crate::edge::http::state::AppState;
use crate::session::messages::{JoinRequest, UserRights};
use crate::session::socketless::sessions::{Joined, Newcomer};

/// Clients ask for an answer to every beat: two beats without one are the earliest sign that a
/// gateway is gone.
const ACK_EVERY: u8 = 1;

/// Which live to join.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = PresenceWish)]
pub(crate) struct PresenceWish {
    #[schema(value_type = LiveId)]
    live_id: String,
    /// Whether the stream of events tells which friends are in the live.
    #[serde(default)]
    #[schema(default = false)]
    friends: bool,
}

impl PresenceWish {
    pub(crate) fn read(&self) -> Result<JoinRequest, Problem> {
        Ok(JoinRequest {
            live: in_body("live_id", LiveId::parse(&self.live_id))?,
            counts: false,
            friends: self.friends,
        })
    }
}

/// How to beat by datagram.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UdpOffer {
    /// Where the datagrams go, each `host:port`, or `:port` for the host that answers here. The
    /// client tries the next one when two beats are not answered.
    #[schema(example = json!(["203.0.113.7:8081"]))]
    pub(crate) addresses: Vec<String>,
    /// The key of the session, 16 bytes in base64url.
    #[schema(example = "b3Blbi1zZXNzaW9uLWtleQ")]
    pub(crate) session: String,
    /// The key that authenticates the datagrams, 32 bytes in base64url.
    #[schema(example = "c2VjcmV0LWtleS1vZi1hLXNlc3Npb24tMzItYnl0ZXM")]
    pub(crate) key: String,
    /// What the client sends when a gateway challenges it. It says whose session this is, to
    /// gateways that do not have the session yet.
    #[schema(example = "q0tkVmX1tDcv9nV3yWm0l2f8…")]
    pub(crate) ticket: String,
    /// With every how many beats the client should ask for an answer.
    #[schema(example = 1)]
    pub(crate) ack_every: u8,
}

impl UdpOffer {
    /// `None` unless the gateway takes beats by datagram, and a hello has room for the ticket.
    pub(crate) fn of(state: &AppState, claims: &SessionClaims) -> Option<Self> {
        let addresses = state.udp_addresses.clone()?;
        let secret = state.presences.secret();
        let key = secret.datagram_key(&claims.key)?;
        Some(Self {
            addresses,
            session: claims.key.to_string(),
            key: BASE64URL_NOPAD.encode(&key),
            ticket: claims.seal(secret)?,
            ack_every: ACK_EVERY,
        })
    }
}

/// A session that has joined a live.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Presence)]
pub(crate) struct BegunSession {
    /// The credential of later requests, on any gateway, in `Authorization: Presence`. Good for ten
    /// minutes; a beat brings the next one. Keep it secret: who has it can act as this session.
    #[schema(example = "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJzaWQiOiI…")]
    session_id: String,
    /// How often to send a beat.
    #[schema(example = 5_000)]
    beat_ms: u64,
    /// After how long a silence the session ends.
    #[schema(example = 15_000)]
    timeout_ms: u64,
    /// The live that was joined.
    #[schema(value_type = LiveId)]
    live_id: String,
    /// Its streamer.
    #[schema(value_type = UserId)]
    streamer_id: String,
    #[schema(example = 10)]
    viewers: u64,
    #[schema(example = 3)]
    fans: u64,
    /// The guests among the viewers.
    #[schema(example = 2)]
    guests: u64,
    /// What the back end wrote about the live, if anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    info: Option<Option<Box<RawValue>>>,
    /// The version of the information; left out as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    info_version: Option<u64>,
    /// What the user may do in the live beside watching it; absent if nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = UserRights, required = false)]
    you: Option<UserRights>,
    /// Null unless the gateway takes beats by datagram, and the lists of the token are short enough
    /// for one.
    udp: Option<UdpOffer>,
}

impl BegunSession {
    pub(crate) fn of(state: &AppState, joined: &Joined) -> Self {
        let record = &joined.room.record;
        let figures = joined.figures;
        let info = joined.info.as_ref();
        Self {
            session_id: joined.id.clone(),
            beat_ms: state.presences.beat_ms(),
            timeout_ms: state.presences.timeout_ms(),
            live_id: record.live.to_string(),
            streamer_id: record.streamer.to_string(),
            viewers: figures.viewers,
            fans: figures.fans,
            guests: figures.guests,
            info: info.map(infos::text_of),
            info_version: info.map(|info| info.version),
            you: joined.you,
            udp: UdpOffer::of(state, &joined.claims),
        }
    }
}

refusals!(
    Refused = InvalidId,
    InvalidUser,
    InvalidRole,
    Unauthorized,
    Forbidden,
    ForbiddenOrigin,
    Banned,
    LiveNotOpen,
    NotKept,
    RateLimited,
    TooManySockets,
    Crowded,
    Full,
    BeingErased,
    Draining,
    StoreUnavailable
);

/// Join a live without a WebSocket
///
/// For clients that cannot keep a WebSocket open. The user joins as over a socket, and stays while
/// beats arrive: `POST /v1/presence/current`, an open stream of events, or datagrams. Takes the
/// credentials of `/ws`.
#[utoipa::path(post, path = "/v1/presence", operation_id = "begin_presence", tag = "presence",
    security(("token" = [])),
    params(
        ("user_id" = Option<UserId>, Query, description = "Who it is (only with --auth off)", example = "u1"),
        ("role" = Option<String>, Query, pattern = "^(viewer|streamer|service)$",
            description = "viewer (the default), streamer or service (only with --auth off)"),
        ("token" = Option<String>, Query, pattern = "^[A-Za-z0-9_.-]+$", max_length = 7_000,
            description = "A token, for clients that cannot send it in a header"),
        ("count" = Option<bool>, Query, description = "As for /ws"),
        ("invisible" = Option<bool>, Query, description = "As for /ws"),
    ),
    request_body(content = PresenceWish, content_type = "application/json"),
    responses((status = 201, description = "The user is in the live", body = BegunSession), Refused))]
pub(crate) async fn begin(State(state): State<Arc<AppState>>, request: Request) -> Response {
    match accept(&state, request).await {
        Ok(begun) => {
            let location = [(header::LOCATION, "/v1/presence/current")];
            (StatusCode::CREATED, location, Json(begun)).into_response()
        }
        Err(problem) => {
            Metrics::count(&state.core.metrics.presences_refused, problem.kind().code());
            problem.into_response()
        }
    }
}

async fn accept(state: &Arc<AppState>, request: Request) -> Result<BegunSession, Problem> {
    let (parts, body) = request.into_parts();
    let candidate = check(state, &parts).await?;
    let wish = read(state, parts, body).await?;
    let SocketCandidate {
        identity,
        claims,
        address,
        ..
    } = candidate;
    let newcomer = Newcomer {
        identity,
        claims,
        permit: address,
    };
    let presences = state.presences.clone();
    // A client that hangs up meanwhile has joined all the same, and is silent from then on.
    let joined = run_to_completion(async move { presences.begin(newcomer, &wish).await }).await?;
    Ok(BegunSession::of(state, &joined))
}

/// The checks of an upgrade, with its place in the queue of those who want to be let in.
async fn check(state: &AppState, parts: &Parts) -> Result<SocketCandidate, Problem> {
    let candidate = SocketCandidate::check(state, parts)
        .await
        .map_err(problem)?;
    match state.admission.decide(&candidate.identity.user) {
        Decision::Admit(wait) if wait.is_zero() => {}
        Decision::Admit(wait) => {
            tokio::time::sleep(wait).await;
            state.core.metrics.handshakes_delayed.inc();
        }
        Decision::RetryAfter(seconds) => return Err(problem(SocketRefusal::crowded(seconds))),
    }
    check_draining(state).map_err(problem)?;
    Ok(candidate)
}

fn problem(refusal: SocketRefusal) -> Problem {
    refusal.problem
}

async fn read(state: &AppState, parts: Parts, body: Body) -> Result<JoinRequest, Problem> {
    let request = Request::from_parts(parts, body);
    let JsonObject(wish) = JsonObject::<PresenceWish>::from_request(request, state).await?;
    wish.read()
}
