//! The routes that erase a user, and tell how far that is; and the check that refuses to change
//! anything about a user who is being erased.

use crate::edge::http::routes::Routes;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa_axum::routes;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::auth::permissions::Action;
use crate::base::ids::{ErasureId, UserId};
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, run_to_completion};
use crate::edge::http::state::AppState;
use crate::features::erasure::eraser::{EraseError, Eraser};
use crate::features::erasure::store::{Erasure, ErasureStore};
use crate::store::PersonalData;

/// After how many seconds to ask again if too many users are being erased. Some have been erased by
/// then.
const TOO_MANY_RETRY: u64 = 10;

/// The erasure of a user. It does not name the user, so it may be kept as the proof.
#[derive(Serialize, ToSchema)]
#[schema(as = Erasure)]
pub(crate) struct ErasureNow {
    /// Names the erasure.
    erasure_id: ErasureId,
    /// `running` or `ended`.
    #[schema(example = "ended")]
    state: &'static str,
    /// When it was asked for, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    asked_at: u64,
    /// When it ended, in Unix milliseconds; null while it runs.
    #[schema(example = 1_732_000_012_000_u64)]
    ended_at: Option<u64>,
    /// How many things of each kind it found and erased; null while it runs. Kinds of which there
    /// were none are absent.
    #[schema(example = json!({"profiles": 1, "sessions": 3}))]
    found: Option<BTreeMap<PersonalData, u64>>,
}

impl ErasureNow {
    fn of(erasure_id: ErasureId, erasure: Erasure) -> Self {
        let mut now = Self {
            erasure_id,
            state: "running",
            asked_at: erasure.asked_at,
            ended_at: None,
            found: None,
        };
        if let Some(ended) = erasure.ended {
            now.state = "ended";
            now.ended_at = Some(ended.at);
            now.found = Some(ended.found);
        }
        now
    }
}

refusals!(
    EraseRefused = InvalidId,
    RateLimited,
    TooManyErasures,
    StoreUnavailable
);
refusals!(ShowRefused = InvalidId, ErasureNotFound, StoreUnavailable);

/// Erase a user
///
/// Removes everything that names the user, wherever it is kept, and closes the user's sockets with
/// 4003. It takes some twelve seconds at least; ask at `Location` how far it is. If the erasure of
/// the user runs already, this answers that one. Until it has ended, the user cannot connect, and
/// calls that would change something about the user are refused with `being_erased`. Who comes back
/// after that is a new user.
#[utoipa::path(delete, path = "/v1/users/{user_id}", operation_id = "erase_user", tag = "users",
    params(("user_id" = UserId, Path, description = "The user", example = "u1")),
    responses((status = 202, description = "The erasure runs", body = ErasureNow,
        headers(("Location" = String, description = "Where to ask how far it is"))), EraseRefused))]
pub(crate) async fn erase(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
) -> Result<Response, Problem> {
    let store = state.of::<Arc<dyn ErasureStore>>().clone();
    let erased = run_to_completion(async move {
        match state.of::<Arc<Eraser>>().erase(&user).await {
            Ok(id) => Ok(id),
            Err(EraseError::Store(why)) => Err(why.into()),
            Err(why @ EraseError::TooMany) => {
                let problem = Problem::new(ProblemKind::TooManyErasures, why.to_string());
                Err(problem.retry_after(TOO_MANY_RETRY))
            }
        }
    });
    let id = erased.await?;
    let known = store.erasure(&id).await?.ok_or_else(not_found)?;
    let headers = [(header::LOCATION, format!("/v1/erasures/{id}"))];
    let body = Json(ErasureNow::of(id, known));
    Ok((StatusCode::ACCEPTED, headers, body).into_response())
}

/// How far an erasure is
///
/// Its report is kept for 30 days after the end.
#[utoipa::path(get, path = "/v1/erasures/{erasure_id}", operation_id = "get_erasure", tag = "users",
    params(("erasure_id" = ErasureId, Path, description = "The erasure", example = "er-5m2zkq3wvtcohxya")),
    responses((status = 200, description = "The erasure", body = ErasureNow), ShowRefused))]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InPath(id): InPath<ErasureId>,
) -> Result<Json<ErasureNow>, Problem> {
    let known = state.of::<Arc<dyn ErasureStore>>().erasure(&id).await?;
    let known = known.ok_or_else(not_found)?;
    Ok(Json(ErasureNow::of(id, known)))
}

fn not_found() -> Problem {
    Problem::new(
        ProblemKind::ErasureNotFound,
        "there was no such erasure, or it ended more than 30 days ago",
    )
}

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .only_for(Action::Erase, routes!(erase))
        .only_for(Action::Erase, routes!(show))
}
