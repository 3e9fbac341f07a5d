//! `GET /ws/admission`: answers whether the gateway would accept an upgrade now. A browser cannot
//! read the answer to a refused upgrade, so a page asks here first, and learns what is wrong and
//! when to come back.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::edge::admission::queue::Decision;
use crate::edge::http::candidate::{SocketCandidate, SocketRefusal, check_draining};
use crate::edge::http::problem::{Problem, refusals};
use crate::edge::http::state::AppState;

refusals!(
    NotTaken = InvalidUser,
    InvalidRole,
    Unauthorized,
    Forbidden,
    ForbiddenOrigin,
    RateLimited,
    TooManySockets,
    Crowded,
    Full,
    BeingErased,
    Draining
);

/// Ask whether a WebSocket would be accepted
///
/// Takes the query and the credentials of `/ws`, and answers 204, or the problem that the upgrade
/// would get. A 204 books a place in the queue of handshakes for 5 s: the next upgrade of the same
/// user takes it. Asking again books nothing more.
#[utoipa::path(get, path = "/ws/admission", operation_id = "ask_admission", tag = "socket",
    params(
        ("user_id" = Option<String>, Query, description = "Who it is (only with --auth off)", example = "u1"),
        ("role" = Option<String>, Query,
            description = "viewer (the default), streamer or service (only with --auth off)"),
        ("token" = Option<String>, Query, description = "A token, for clients that cannot send it in a header"),
        ("live_id" = Option<String>, Query, description = "As for /ws"),
        ("watch" = Option<String>, Query, description = "As for /ws"),
        ("count" = Option<bool>, Query, description = "As for /ws"),
        ("invisible" = Option<bool>, Query, description = "As for /ws"),
    ),
    responses((status = 204, description = "An upgrade would be accepted now"), NotTaken))]
pub(crate) async fn admission(
    State(state): State<Arc<AppState>>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let (parts, _) = request.into_parts();
    ask(&state, &parts)
        .await
        .map(|()| StatusCode::NO_CONTENT)
        .map_err(|refusal| refusal.problem)
}

async fn ask(state: &AppState, parts: &Parts) -> Result<(), SocketRefusal> {
    let SocketCandidate { identity, .. } = SocketCandidate::check(state, parts).await?;
    if let Decision::RetryAfter(seconds) = state.admission.reserve(&identity.user) {
        return Err(SocketRefusal::crowded(seconds));
    }
    if state.admission.place_now().is_none() {
        let place = state.admission.place(&identity.user).await;
        // The upgrade will take a place of its own.
        drop(place.map_err(SocketRefusal::full)?);
    }
    check_draining(state)
}

#[cfg(test)]
mod tests;
