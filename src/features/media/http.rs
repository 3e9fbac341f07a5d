//! The route of media servers. Each server calls it in its own way and gets the answer that it
//! understands. No stream key and no token of a callback is in the log, in a metric or in an
//! answer.

use crate::features::media::keeper::StreamKeeper;
use crate::features::media::servers::MediaServers;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::HttpBody;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tracing::Instrument;
use utoipa::IntoParams;

use crate::auth::permissions::Action;
use crate::base::clock::unix_now;
use crate::base::media_event::{MediaEvent, StreamNews};
use crate::base::media_server::MediaServerName;
use crate::config::Mapping;
use crate::edge::client_address::ClientAddress;
use crate::edge::http::bill;
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, InQuery, MAX_BODY, body};
use crate::edge::http::routes::{Routes, with_body};
use crate::edge::http::state::AppState;
use crate::features::media::intake::{Intake, NotTaken};
use crate::features::media::keeper::TakenIn;
use crate::features::media::read;
use crate::features::media::servers::KnownServer;
use crate::features::media::signature::{Callback, Forged};
use crate::features::media::store::MediaStore;
use crate::features::media::streams_http;
use utoipa_axum::routes;

/// The longest callback of a media server, in bytes. LiveKit puts up to 512 KiB of metadata into one,
/// and JSON may double that.
const MAX_CALLBACK_BODY: usize = 1 << 20;

/// How long a server waits for an answer at most: less than the 3 s that docs/media-servers.md gives
/// OvenMediaEngine, which is the shortest time of all kinds.
const ANSWER_WITHIN: Duration = Duration::from_millis(2_500);

/// Long bodies that are read at a time.
static LONG_BODIES: Semaphore = Semaphore::const_new(16);

/// What proves where the callback comes from.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CallbackQuery {
    /// The secret of the server, for kinds that do not sign.
    #[param(max_length = 4096)]
    secret: Option<String>,
    /// What happened, for servers whose callbacks do not say so. A server has a URL for each event.
    #[param(max_length = 256)]
    event: Option<String>,
    /// Which of several servers that share a table calls.
    #[param(max_length = 64)]
    server: Option<String>,
}

refusals!(
    CallbackRefused = InvalidId,
    Unauthorized,
    Forbidden,
    MediaServerNotFound,
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
pub(crate) async fn callback(
    State(state): State<Arc<AppState>>,
    InPath(name): InPath<MediaServerName>,
    InQuery(query): InQuery<CallbackQuery>,
    client: Option<Extension<ClientAddress>>,
    request: Request,
) -> Result<Response, Problem> {
    let Some(server) = state.of::<Arc<MediaServers>>().find(&name) else {
        let detail = "the settings have no media server of this name";
        return Err(Problem::new(ProblemKind::MediaServerNotFound, detail));
    };
    let kind = server.settings.kind.as_str();
    if let Some(Extension(client)) = client
        && !server.allows(client.address())
    {
        state.core.metrics.media_callback(kind, "forged");
        let detail = "this media server does not call from your address";
        return Err(Problem::new(ProblemKind::Unauthorized, detail));
    }
    let forged = |why: Forged| {
        state.core.metrics.media_callback(kind, "forged");
        Problem::new(ProblemKind::Unauthorized, why.to_string())
    };
    let headers = request.headers().clone();
    let secret = query.secret.as_deref();
    server.check_head(&headers, secret).map_err(forged)?;
    let bill = bill::of(request.extensions());
    // As long as the body is in memory.
    let length = request.body().size_hint().upper();
    let _room = room_for(length).await;
    let body = body(request, &()).await?;
    let callback = Callback {
        headers: &headers,
        query_secret: secret,
        body: &body,
    };
    let now = Duration::from_millis(unix_now());
    server.check(callback, now).map_err(forged)?;
    bill.settle_by_caller();
    let settings = &server.settings;
    let word = query.event.as_deref();
    let event = match read(settings.kind, &settings.mapping, word, &body) {
        Ok(Some(mut event)) => {
            // Answers name no instance.
            event.instance = match settings.poll_url {
                Some(_) => None,
                None => query.server.or(event.instance),
            };
            event
        }
        Ok(None) => {
            state.core.metrics.media_callback(kind, "ignored");
            return Ok(yes(&settings.mapping));
        }
        Err(why) => {
            state.core.metrics.media_callback(kind, "unreadable");
            tracing::info!(server = %name, %why, "a callback of a media server was not understood");
            return Err(Problem::new(ProblemKind::BadMessage, why.to_string()));
        }
    };
    answer_in_time(state, server, event).await
}

/// Waits for room for a body that is longer than other routes take, or may be.
async fn room_for(length: Option<u64>) -> Option<SemaphorePermit<'static>> {
    match length {
        Some(length) if length <= MAX_BODY as u64 => None,
        _ => LONG_BODIES.acquire().await.ok(),
    }
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
        store: state.of::<Arc<dyn MediaStore>>().as_ref(),
        streams: state.of::<Arc<StreamKeeper>>(),
    };
    let taken = intake.take_in(&event).await;
    if let Err(NotTaken::Refused(why)) = &taken {
        intake.log_refusal(&event, why);
    }
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
    let mapping = &server.settings.mapping;
    let server = &server.settings.name;
    match taken {
        Ok(taken_in) => {
            let result = taken_in.label();
            state.core.metrics.media_callback(kind.as_str(), result);
            Ok(yes(mapping))
        }
        Err(NotTaken::Refused(_)) => {
            state.core.metrics.media_callback(kind.as_str(), "refused");
            // nginx ends a stream whose heartbeat is refused.
            let is_told = event.news == StreamNews::Publish && !kind.only_reports();
            if event.asks || is_told {
                Ok(no(mapping))
            } else {
                Ok(yes(mapping))
            }
        }
        Err(NotTaken::Unknown(why)) => {
            state.core.metrics.media_callback(kind.as_str(), "failed");
            tracing::warn!(%server, why, "a callback of a media server was not taken in");
            // nginx ends a stream whose heartbeat is refused.
            if event.news == StreamNews::Alive {
                return Ok(yes(mapping));
            }
            let detail = "the gateway cannot tell who may publish; try again";
            Err(Problem::new(ProblemKind::StoreUnavailable, detail))
        }
    }
}

/// The publisher may go on, or the gateway took the message in.
fn yes(mapping: &Mapping) -> Response {
    let mut answer = answer(StatusCode::OK, &mapping.yes_body);
    if let Some((name, value)) = mapping.yes_header.clone() {
        answer.headers_mut().insert(name, value);
    }
    answer
}

/// The publisher may not publish.
fn no(mapping: &Mapping) -> Response {
    answer(mapping.no_status, &mapping.no_body)
}

fn answer(status: StatusCode, body: &str) -> Response {
    if body.is_empty() {
        return status.into_response();
    }
    let content = [(header::CONTENT_TYPE, "application/json")];
    (status, content, body.to_owned()).into_response()
}

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .open_to_all(with_body(MAX_CALLBACK_BODY, routes!(callback)))
        .only_for(Action::Close, routes!(streams_http::end))
        .only_for(Action::ReadLive, routes!(streams_http::list))
}
