//! `POST /v1/guests`: makes a guest, which is a viewer without an account.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{Extensions, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use super::bill;
use super::problem::{Problem, ProblemKind, refusals};
use super::rate_limits::Payer;
use super::state::AppState;
use crate::auth::guest_token;

/// A new guest.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Guest)]
pub(crate) struct MadeGuest {
    /// The id of the guest. It begins with `~`, as no id of a user does.
    #[schema(example = "~k3vq2xmnlh5a7cde")]
    user_id: String,
    /// Who shows it is this guest: `?token=`, or `Authorization: Bearer`.
    #[schema(example = "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI…")]
    token: String,
    /// When the token ends, in Unix milliseconds.
    #[schema(example = 1_734_592_000_000_u64)]
    expires_at: u64,
}

refusals!(GuestRefused = NotKept, RateLimited);

/// Become a guest
///
/// For viewers without an account, with `--guests on`. A guest may join lives, and is counted among
/// the viewers.
#[utoipa::path(post, path = "/v1/guests", operation_id = "make_guest", tag = "presence",
    responses((status = 201, description = "A new guest", body = MadeGuest), GuestRefused))]
pub(crate) async fn make(
    State(state): State<Arc<AppState>>,
    extensions: Extensions,
) -> Result<(StatusCode, Json<MadeGuest>), Problem> {
    bill::of(&extensions).settle_by_address();
    let payer = Payer::address(&extensions);
    let Some(budget) = &state.guests else {
        state.rate_limits.take(payer)?;
        return Err(Problem::new(
            ProblemKind::NotKept,
            "the gateway runs with --guests off",
        ));
    };
    budget.take(payer)?;
    let now = state.core.clock.unix();
    let guest = guest_token::make(state.presences.secret(), now).ok_or_else(|| {
        Problem::new(
            ProblemKind::Internal,
            "the guest could not be given a token",
        )
    })?;
    let made = MadeGuest {
        user_id: guest.user.to_string(),
        token: guest.text,
        expires_at: guest.expires_at,
    };
    Ok((StatusCode::CREATED, Json(made)))
}
