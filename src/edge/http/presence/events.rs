//! Streams of events (`text/event-stream`), for the viewers of sessions without a socket and for
//! dashboards.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Extensions, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;

use super::beats::session;
use super::{PresenceId, owner, permit};
use crate::auth::api_keys::ApiKey;
use crate::base::address_prefix::AddressPrefix;
use crate::base::identity::{Identity, Role};
use crate::base::ids::{LiveId, UserId};
use crate::edge::http::authorization::{Bearer, OwnLive};
use crate::edge::http::candidate::SocketRefusal;
use crate::edge::http::problem::{Problem, refusals};
use crate::edge::http::requests::{InPath, InQuery};
use crate::edge::http::state::AppState;
use crate::edge::listener::pending_connections::PendingConnection;
use crate::session::socketless::events::{Credential, EventStream, StreamBeats};

/// Tells nginx to pass on each event at once.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// With false the open stream does not count as beats: the client sends its own. A network that
    /// is lost without a word is then noticed in time behind a proxy, too.
    #[param(default = true)]
    beat: Option<bool>,
    /// Ignored: some clients send `Last-Event-ID` here.
    #[serde(rename = "lastEventId")]
    #[param(max_length = 64)]
    #[expect(dead_code, reason = "a stream begins with what is true now")]
    last_event_id: Option<String>,
}

refusals!(
    EventsRefused = InvalidId,
    Unauthorized,
    Removed,
    SessionUnknown,
    TooManySessions,
    RateLimited,
    TooManySockets,
    Full,
    Draining,
    StoreUnavailable
);

/// Listen to the events of a session
///
/// Events are `counts`, `friends`, `info`, `closed` and `reconnect`, each with the message that a
/// socket gets. While the stream is open, it counts as beats.
#[utoipa::path(get, path = "/v1/presence/{session_id}/events", operation_id = "listen_to_presence", tag = "presence",
    security((), ("session" = [])),
    params(
        ("session_id" = String, Path, pattern = "^[A-Za-z0-9_.-]+$", max_length = 7_000,
            description = "`current`, and the id in `Authorization: Presence`; or the id itself"),
        EventsQuery,
    ),
    responses((status = 200, description = "Events, until one side ends the stream",
        content_type = "text/event-stream", body = String), EventsRefused))]
pub(crate) async fn of_session(
    State(state): State<Arc<AppState>>,
    PresenceId(id): PresenceId,
    InQuery(query): InQuery<EventsQuery>,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let claims = owner(&state, &extensions, &id)?;
    let user = claims.bearer.user.clone();
    let session = session(&state, &extensions, claims).await?;
    state.presences.charge_stream(&session)?;
    let place = place(&state, &user).await?;
    let beats = if query.beat == Some(false) {
        StreamBeats::No
    } else {
        StreamBeats::Yes
    };
    let events = EventStream::of_viewer(state.presences.clone(), session, beats);
    Ok(answer(events, place, &extensions))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the layer around the handler reads the token")]
pub(crate) struct TokenQuery {
    /// A token, for pages: `EventSource` cannot send it in a header.
    #[param(max_length = 7_000)]
    token: Option<String>,
    /// Ignored: some clients send `Last-Event-ID` here.
    #[serde(rename = "lastEventId")]
    #[param(max_length = 64)]
    last_event_id: Option<String>,
}

refusals!(
    LiveEventsRefused = InvalidId,
    LiveNotFound,
    LiveNotOpen,
    RateLimited,
    TooManySockets,
    Full,
    Draining,
    StoreUnavailable
);

/// Watch the counts of a live
///
/// Events are `counts`, now and on change, and `closed`, each with the message that a socket gets
/// that watches the live; `reconnect` when the gateway is about to stop; and `unauthorized` when the
/// token has expired, or the API key was revoked.
#[utoipa::path(get, path = "/v1/lives/{live_id}/events", operation_id = "watch_live", tag = "lives",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        TokenQuery,
    ),
    responses((status = 200, description = "Events, until one side ends the stream",
        content_type = "text/event-stream", body = String), LiveEventsRefused))]
pub(crate) async fn of_live(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    bearer: Option<Extension<Bearer>>,
    own: Option<Extension<OwnLive>>,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let claims = bearer.map(|Extension(Bearer(claims))| claims);
    let user = match &claims {
        Some(claims) => claims.user.clone(),
        // The streams of an API key do not crowd each other out.
        None => UserId::random(),
    };
    let epoch = own.map(|Extension(OwnLive(record))| record.epoch);
    let permit = permit(&state, &extensions)?;
    let place = place(&state, &user).await?;
    let identity = Identity {
        user,
        role: Role::Service,
        counted: false,
        network: AddressPrefix::default(),
    };
    let session = state
        .presences
        .watch(identity, &live, epoch, permit)
        .await?;
    let credential = match (&claims, extensions.get::<ApiKey>()) {
        (Some(claims), _) => {
            let end = state.sessions.end_of(claims);
            Credential::Token(state.sessions.clone(), claims.clone(), end)
        }
        (None, Some(key)) => Credential::Key(state.api_keys.clone(), key.clone()),
        (None, None) => Credential::None,
    };
    let events = EventStream::of_dashboard(state.presences.clone(), session, credential);
    Ok(answer(events, place, &extensions))
}

/// A place among the sockets, which an open stream takes as a socket does.
async fn place(state: &AppState, user: &UserId) -> Result<OwnedSemaphorePermit, Problem> {
    match state.admission.place(user).await {
        Ok(place) => Ok(place),
        Err(seconds) => Err(SocketRefusal::full(seconds).problem),
    }
}

fn answer(events: EventStream, place: OwnedSemaphorePermit, extensions: &Extensions) -> Response {
    // Nothing refuses the stream any more, so its place bounds its connection from here on.
    if let Some(pending) = extensions.get::<Arc<PendingConnection>>() {
        pending.becomes_socket();
    }
    let parts = stream::unfold((events, place), async |(mut events, place)| {
        let part = events.next().await?;
        Some((Ok::<_, Infallible>(part), (events, place)))
    });
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/event-stream"),
        ),
        // The connection has no place among those that wait for a request.
        (header::CONNECTION, HeaderValue::from_static("close")),
        (NO_BUFFERING, HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(parts)).into_response()
}
