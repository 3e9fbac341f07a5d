//! The route of media servers. Each server calls it in its own way and gets the answer that it
//! understands. No stream key and no token of a callback is in the log, in a metric or in an
//! answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::oneshot;
use tracing::Instrument;
use utoipa::IntoParams;

use super::problem::{Kind, Problem, refusals};
use super::requests::{InPath, InQuery};
use super::state::AppState;
use crate::base::clock::unix_now;
use crate::base::media_event::{MediaEvent, StreamNews};
use crate::base::media_server::MediaServerName;
use crate::edge::client_address::ClientAddress;
use crate::edge::media::answer::MediaAnswer;
use crate::edge::media::intake::{Intake, NotTaken};
use crate::edge::media::read;
use crate::edge::media::servers::KnownServer;
use crate::edge::media::signature::Callback;
use crate::sync::streams::TakenIn;

/// How long a server waits for an answer at most: less than the 3 s that docs/media-servers.md gives
/// OvenMediaEngine, which is the shortest time of all kinds.
const ANSWER_WITHIN: Duration = Duration::from_millis(2_500);

/// What proves where the callback comes from.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct CallbackQuery {
    /// The secret of the server, for kinds that do not sign.
    #[param(max_length = 4096)]
    secret: Option<String>,
}

refusals!(
    CallbackRefused = BadMessage,
    InvalidId,
    InvalidQuery,
    Unauthorized,
    Forbidden,
    MediaServerNotFound,
    BodyTooLarge,
    UnsupportedMediaType,
    RateLimited,
    StoreUnavailable
);

/// Hear of a stream
///
/// A media server of the settings file says that somebody asks to publish, publishes, goes on or
/// stopped. The body and the answer are those of its kind.
#[utoipa::path(post, path = "/v1/media/{server}", operation_id = "media_callback", tag = "media",
    params(
        ("server" = MediaServerName, Path, description = "The name of the server's table", example = "main"),
        CallbackQuery,
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream", description = "What the server sends"),
    responses(
        (status = 200, description = "The gateway took it in, or it means nothing", body = String),
        CallbackRefused,
    ))]
pub(super) async fn callback(
    State(state): State<Arc<AppState>>,
    InPath(name): InPath<MediaServerName>,
    InQuery(query): InQuery<CallbackQuery>,
    client: Option<Extension<ClientAddress>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let Some(server) = state.media.find(&name) else {
        let detail = "the settings have no media server of this name";
        return Err(Problem::new(Kind::MediaServerNotFound, detail));
    };
    let kind = server.settings.kind.as_str();
    if let Some(Extension(client)) = client
        && !server.allows(client.address())
    {
        state.metrics.media_callback(kind, "forged");
        let detail = "this media server does not call from your address";
        return Err(Problem::new(Kind::Unauthorized, detail));
    }
    let callback = Callback {
        headers: &headers,
        query_secret: query.secret.as_deref(),
        body: &body,
    };
    if let Err(why) = server.check(callback, Duration::from_millis(unix_now())) {
        state.metrics.media_callback(kind, "forged");
        return Err(Problem::new(Kind::Unauthorized, why.to_string()));
    }
    let event = match read(server.settings.kind, &body) {
        Ok(Some(event)) => event,
        Ok(None) => {
            state.metrics.media_callback(kind, "ignored");
            return Ok(answer(MediaAnswer::yes(server.settings.kind)));
        }
        Err(why) => {
            state.metrics.media_callback(kind, "unreadable");
            return Err(Problem::new(Kind::BadMessage, why.to_string()));
        }
    };
    answer_in_time(state, server, event).await
}

/// Answers before the server takes silence for a no. The work goes on in a task of its own: a live
/// that is half open would have no stream, and its close takes a grace.
async fn answer_in_time(
    state: Arc<AppState>,
    server: Arc<KnownServer>,
    event: MediaEvent,
) -> Result<Response, Problem> {
    let (tell, told) = oneshot::channel();
    let work = take_in(state.clone(), server.clone(), event.clone(), tell);
    tokio::spawn(work.in_current_span());
    let taken = match tokio::time::timeout(ANSWER_WITHIN, told).await {
        Ok(Ok(taken)) => taken,
        _ => Err(NotTaken::Unknown("it took too long".to_owned())),
    };
    answer_to(&state, &server, &event, taken)
}

/// Takes in a callback, and tells what became of it. A session that the server does not let in
/// after all ends.
async fn take_in(
    state: Arc<AppState>,
    server: Arc<KnownServer>,
    event: MediaEvent,
    tell: oneshot::Sender<Result<TakenIn, NotTaken>>,
) {
    let intake = Intake {
        server: &server,
        tokens: state.tokens.as_ref(),
        store: state.store_for_clients.as_ref(),
        streams: &state.streams,
    };
    let taken = intake.take_in(&event).await;
    let is_let_in = taken.is_ok();
    let may_be_written = !matches!(taken, Err(NotTaken::Refused(_)));
    let is_in_time = tell.send(taken).is_ok();
    if may_be_written && !(is_let_in && is_in_time) {
        intake.take_back(&event);
    }
}

fn answer_to(
    state: &AppState,
    server: &KnownServer,
    event: &MediaEvent,
    taken: Result<TakenIn, NotTaken>,
) -> Result<Response, Problem> {
    let kind = server.settings.kind;
    let server = &server.settings.name;
    match taken {
        Ok(taken_in) => {
            let result = taken_in.label();
            state.metrics.media_callback(kind.as_str(), result);
            Ok(answer(MediaAnswer::yes(kind)))
        }
        Err(NotTaken::Refused(why)) => {
            state.metrics.media_callback(kind.as_str(), "refused");
            tracing::info!(%server, why, "a stream was refused");
            // A server that does not ask would only send a refused message again.
            if event.asks {
                Ok(answer(MediaAnswer::no(kind)))
            } else {
                Ok(answer(MediaAnswer::yes(kind)))
            }
        }
        Err(NotTaken::Unknown(why)) => {
            state.metrics.media_callback(kind.as_str(), "failed");
            tracing::warn!(%server, why, "a callback of a media server was not taken in");
            // nginx ends a stream whose heartbeat is refused.
            if event.news == StreamNews::Alive {
                return Ok(answer(MediaAnswer::yes(kind)));
            }
            let detail = "the gateway cannot tell who may publish; try again";
            Err(Problem::new(Kind::StoreUnavailable, detail))
        }
    }
}

fn answer(answer: MediaAnswer) -> Response {
    if answer.body.is_empty() {
        return answer.status.into_response();
    }
    let content = [(header::CONTENT_TYPE, "application/json")];
    (answer.status, content, answer.body).into_response()
}
