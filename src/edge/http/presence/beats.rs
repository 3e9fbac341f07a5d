//! `/v1/presence/{session_id}`: beats, switches to another live, and leaves.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::http::{Extensions, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::joining::{BegunSession, UdpOffer};
use super::{PresenceId, owner, permit, unknown};
use crate::auth::session_claims::SessionClaims;
use crate::base::address_prefix::AddressPrefix;
use crate::base::ids::LiveId;
use crate::edge::client_address::ClientAddress;
use crate::edge::http::problem::{Problem, refusals};
use crate::edge::http::requests::{InQuery, MaybeObject, in_body, run_to_completion};
use crate::edge::http::state::AppState;
use crate::session::messages::JoinRequest;
use crate::session::socketless::sessions::SignedId;
use crate::session::socketless::{SocketlessSession, Way};

/// What a beat may say.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = PresenceBeat)]
pub(crate) struct PresenceBeat {
    /// Another live, to switch to. The answer is then that of `POST /v1/presence`, with a new
    /// `session_id`.
    #[serde(default)]
    #[schema(value_type = Option<LiveId>)]
    live_id: Option<String>,
    /// With `live_id`: whether the stream of events tells which friends are in the live.
    #[serde(default)]
    friends: bool,
    /// Whether the picture plays and can be seen. Whoever has not said so for the timeout is there
    /// and does not watch.
    #[serde(default)]
    watching: Option<bool>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PresenceBeatQuery {
    /// If it is there, the request is a leave, as DELETE is: for `navigator.sendBeacon`, which only
    /// sends POST.
    #[param(max_length = 8)]
    leave: Option<String>,
}

/// What a beat is answered: the same as `heartbeat_ack` on a socket.
#[derive(ToSchema)]
#[schema(as = PresenceAck)]
#[expect(dead_code, reason = "describes an answer that is kept as text")]
pub(crate) struct PresenceAck {
    /// Always `heartbeat_ack`.
    #[schema(example = "heartbeat_ack")]
    r#type: String,
    live_id: LiveId,
    /// Whether the user is a fan; null until the first fan check has answered.
    fan: Option<bool>,
    #[schema(example = 10)]
    viewers: u64,
    #[schema(example = 3)]
    fans: u64,
    /// The guests among the viewers.
    #[schema(example = 2)]
    guests: u64,
    /// How often to send a beat.
    #[schema(example = 5_000)]
    heartbeat_ms: u64,
    /// What the back end wrote about the live, if this session does not have that version yet.
    info: Option<serde_json::Value>,
    /// The version of the information; left out as it is.
    #[schema(value_type = u64, required = false)]
    info_version: Option<u64>,
    /// Another id, to use from now on: the one that was sent is past half of its life.
    #[schema(value_type = String, required = false)]
    session_id: Option<String>,
    /// With another id: how to beat by datagram from now on, with another ticket.
    #[schema(value_type = UdpOffer, required = false)]
    udp: Option<UdpOffer>,
}

/// What an acknowledgement also says when the session gets another id.
#[derive(Default, Serialize)]
struct Renewal {
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    udp: Option<UdpOffer>,
}

impl Renewal {
    fn of(state: &AppState, signed: SignedId) -> Self {
        Self {
            udp: UdpOffer::of(state, &signed.claims),
            session_id: Some(signed.id),
        }
    }

    /// Adds the fields to an object of JSON.
    fn add_to(&self, ack: &str) -> String {
        // Texts only: this does not fail.
        let more = serde_json::to_string(self).unwrap_or_default();
        match (ack.strip_suffix('}'), more.strip_prefix('{')) {
            (Some(ack), Some(more)) if self.session_id.is_some() => format!("{ack},{more}"),
            _ => ack.to_owned(),
        }
    }
}

refusals!(
    BeatRefused = InvalidId,
    Unauthorized,
    Banned,
    Removed,
    Forbidden,
    SessionUnknown,
    TooManySessions,
    LiveNotOpen,
    NotKept,
    RateLimited,
    TooManySockets,
    Full,
    Draining,
    StoreUnavailable
);

/// Say that the session goes on
///
/// Any gateway takes the beat. If the gateway that had the session is gone, this one goes on with
/// it. With `live_id` the session switches to another live; with `?leave` it ends.
#[utoipa::path(post, path = "/v1/presence/{session_id}", operation_id = "beat_presence", tag = "presence",
    security((), ("session" = [])),
    params(
        ("session_id" = String, Path, pattern = "^[A-Za-z0-9_.-]+$", max_length = 7_000,
            description = "`current`, and the id in `Authorization: Presence`; or the id itself"),
        PresenceBeatQuery,
    ),
    request_body(content = Option<PresenceBeat>, content_type = "application/json"),
    responses(
        (status = 200, description = "The session goes on; with `live_id` the answer is a `Presence`",
            body = PresenceAck),
        (status = 204, description = "It has ended, as asked"),
        BeatRefused
    ))]
pub(crate) async fn beat(
    State(state): State<Arc<AppState>>,
    PresenceId(id): PresenceId,
    InQuery(query): InQuery<PresenceBeatQuery>,
    request: Request,
) -> Result<Response, Problem> {
    let extensions = request.extensions().clone();
    let claims = owner(&state, &extensions, &id)?;
    if query.leave.is_some() {
        // `sendBeacon` sends a body of any kind.
        state.presences.leave(claims.key, claims.number);
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let MaybeObject(beat) = MaybeObject::<PresenceBeat>::from_request(request, &state).await?;
    let session = session(&state, &extensions, claims.clone()).await?;
    state.presences.beat(&session, Way::Http);
    let watching = beat.watching;
    let mut answer = match beat.live_id {
        Some(live) => {
            let wish = JoinRequest {
                live: in_body("live_id", LiveId::parse(&live))?,
                counts: false,
                friends: beat.friends,
            };
            let (presences, switching) = (state.presences.clone(), session.clone());
            let switch = async move { presences.switch(&switching, &wish).await };
            let joined = run_to_completion(switch).await?;
            state.presences.note_watching(&session, watching);
            Json(BegunSession::of(&state, &joined)).into_response()
        }
        None => {
            let renewal = match state.presences.renew(&session, &claims).await? {
                Some(signed) => Renewal::of(&state, signed),
                None => Renewal::default(),
            };
            state.presences.note_watching(&session, watching);
            let ack = session.ack().ok_or_else(unknown)?;
            let content = [(header::CONTENT_TYPE, "application/json")];
            (content, renewal.add_to(&ack)).into_response()
        }
    };
    if state.sessions.is_draining() {
        // The next beat goes to another gateway.
        answer
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

/// The session of an id, which goes on here if another gateway had it.
pub(crate) async fn session(
    state: &Arc<AppState>,
    extensions: &Extensions,
    claims: SessionClaims,
) -> Result<Arc<SocketlessSession>, Problem> {
    if let Some(session) = state.presences.find_as_of(&claims) {
        return Ok(session);
    }
    let permit = permit(state, extensions)?;
    let address = extensions.get::<ClientAddress>();
    let network = address.map(|address| AddressPrefix::of(address.address()));
    let network = network.unwrap_or_default();
    let presences = state.presences.clone();
    let resume = async move { presences.find_or_resume(claims, permit, network).await };
    Ok(run_to_completion(resume).await?)
}

refusals!(LeaveRefused = Unauthorized, SessionUnknown, RateLimited);

/// Leave the live, and end the session
///
/// Its id is good for nothing from then on.
#[utoipa::path(delete, path = "/v1/presence/{session_id}", operation_id = "end_presence", tag = "presence",
    security((), ("session" = [])),
    params(("session_id" = String, Path, pattern = "^[A-Za-z0-9_.-]+$", max_length = 7_000,
        description = "`current`, and the id in `Authorization: Presence`; or the id itself")),
    responses((status = 204, description = "The session has ended"), LeaveRefused))]
pub(crate) async fn leave(
    State(state): State<Arc<AppState>>,
    PresenceId(id): PresenceId,
    extensions: Extensions,
) -> Result<StatusCode, Problem> {
    let claims = owner(&state, &extensions, &id)?;
    state.presences.leave(claims.key, claims.number);
    Ok(StatusCode::NO_CONTENT)
}
