//! Refuses to change anything about a user who is being erased.

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use super::problem::{Problem, ProblemKind};
use super::state::AppState;
use crate::auth::permissions::Action;
use crate::base::ids::UserId;

/// The parameters of paths that name users.
const USERS: [&str; 3] = ["user_id", "streamer_id", "member"];

/// Refuses a request that changes something about a user who is being erased, as the path names the
/// users.
pub(crate) async fn refuse_erased(
    state: &AppState,
    action: Action,
    parts: &mut Parts,
) -> Result<(), Problem> {
    let erasing = &state.core.erasing;
    if parts.method.is_safe() || action == Action::Erase || erasing.is_empty() {
        return Ok(());
    }
    let Ok(params) = RawPathParams::from_request_parts(parts, &()).await else {
        // The handler says what is wrong with the path.
        return Ok(());
    };
    for (name, value) in &params {
        if USERS.contains(&name)
            && let Ok(user) = UserId::parse(value)
        {
            check(state, &user)?;
        }
    }
    Ok(())
}

/// Refuses what concerns a user who is being erased.
pub(crate) fn check(state: &AppState, user: &UserId) -> Result<(), Problem> {
    if state.core.erasing.contains(user) {
        let detail = format!("user {user} is being erased; come back when that has ended");
        return Err(Problem::new(ProblemKind::BeingErased, detail));
    }
    Ok(())
}
