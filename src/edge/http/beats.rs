//! The routes that note users as seen who have no socket, for platforms whose users send only HTTP
//! requests. Such users are seen, not online.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::authorization::Bearer;
use super::erased;
use super::online::{Users, tracked};
use super::problem::{Problem, ProblemKind, refusals};
use super::requests::{InQuery, JsonObject, in_query, run_to_completion};
use super::state::AppState;
use crate::base::ids::UserId;

/// Who is there.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BeatQuery {
    /// The user, with `--auth off` only; otherwise the token names the user.
    #[param(value_type = Option<UserId>)]
    user_id: Option<String>,
}

refusals!(
    BeatRefused = InvalidId,
    NotKept,
    BeingErased,
    StoreUnavailable
);

/// Say that you are there
///
/// Marks the user of the token as seen now. A gateway writes each user once a minute at most. A
/// token with `count: false` or `invisible: true` is in no time, so nothing is written.
#[utoipa::path(post, path = "/v1/beat", operation_id = "beat", tag = "online", params(BeatQuery),
    responses((status = 204, description = "The user was seen"), BeatRefused))]
pub(crate) async fn beat(
    State(state): State<Arc<AppState>>,
    bearer: Option<Extension<Bearer>>,
    InQuery(query): InQuery<BeatQuery>,
) -> Result<StatusCode, Problem> {
    tracked(&state)?;
    let user = match bearer {
        Some(Extension(Bearer(claims))) if !claims.counted => return Ok(StatusCode::NO_CONTENT),
        Some(Extension(Bearer(claims))) => claims.user.clone(),
        None => in_query(
            "user_id",
            UserId::parse(query.user_id.as_deref().unwrap_or_default()),
        )?,
    };
    erased::check(&state, &user)?;
    note(&state, vec![user]).await
}

refusals!(SeenRefused = InvalidId, NotKept, StoreUnavailable);

/// Say that users are there
///
/// Marks up to 1,000 users as seen now, each once a minute at most. Leaves out users who are being
/// erased.
#[utoipa::path(post, path = "/v1/online/seen", operation_id = "note_seen", tag = "online",
    request_body(content = Users, content_type = "application/json"),
    responses((status = 204, description = "The users were seen"), SeenRefused))]
pub(crate) async fn seen(
    State(state): State<Arc<AppState>>,
    JsonObject(users): JsonObject<Users>,
) -> Result<StatusCode, Problem> {
    tracked(&state)?;
    let mut users = users.check()?;
    users.retain(|user| !state.core.erasing.contains(user));
    note(&state, users).await
}

async fn note(state: &AppState, users: Vec<UserId>) -> Result<StatusCode, Problem> {
    if let Some(user) = users.iter().find(|user| !state.online.ids.fits(user)) {
        let detail = format!(
            "with last-seen-ids u32 a user id must be a decimal number below 2^32, and {user} is not"
        );
        return Err(Problem::new(ProblemKind::InvalidId, detail));
    }
    let seen = state.online.seen.clone();
    // The gateway remembers these users as written, so the write must happen even if the client
    // hangs up.
    run_to_completion(async move { seen.note(users).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
