//! The route by which a back end confirms who really watches a live.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::counting::ConfirmedCounter;
use crate::auth::permissions::Action;
use crate::base::ids::LiveId;
use crate::edge::http::online::Users;
use crate::edge::http::problem::{Problem, refusals};
use crate::edge::http::requests::{InPath, JsonObject, run_to_completion};
use crate::edge::http::routes::{Routes, with_many_ids};
use crate::edge::http::state::AppState;
use crate::store::LiveState;
use crate::sync::lives::{LiveError, known_record};

/// How many viewers are confirmed.
#[derive(Serialize, ToSchema)]
#[schema(as = ConfirmedInLive)]
pub(crate) struct ConfirmedAnswer {
    /// The live.
    live_id: LiveId,
    /// Which opening of it.
    #[schema(example = 3)]
    epoch: u64,
    /// How many of the viewers who are there now were confirmed within the last minute.
    #[schema(example = 812)]
    confirmed: u64,
}

refusals!(
    ConfirmRefused = InvalidId,
    LiveNotFound,
    LiveNotOpen,
    StoreUnavailable
);

/// Confirm who really watches a live
///
/// Up to 1,000 users. Each confirmation is good for one minute. Users who are not in the live do not
/// count, nor do those who leave. Leaves out users who are being erased.
#[utoipa::path(post, path = "/v1/lives/{live_id}/confirmed", operation_id = "confirm_viewers", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42")),
    request_body(content = Users, content_type = "application/json"),
    responses((status = 200, description = "How many are confirmed now", body = ConfirmedAnswer), ConfirmRefused))]
pub(crate) async fn confirm(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    JsonObject(users): JsonObject<Users>,
) -> Result<Json<ConfirmedAnswer>, Problem> {
    let mut users = users.check()?;
    users.retain(|user| !state.core.erasing.contains(user));
    let store = state.core.store_for_clients.as_ref();
    let record = known_record(store, &state.core.rooms, &live).await?;
    if record.state != LiveState::Open {
        return Err(LiveError::NotOpen(live).into());
    }
    let epoch = record.epoch.0;
    let counter = state.of::<Arc<ConfirmedCounter>>().clone();
    let confirm = async move { counter.confirm(&record, users).await };
    let confirmed = run_to_completion(confirm).await?;
    Ok(Json(ConfirmedAnswer {
        live_id: live,
        epoch,
        confirmed,
    }))
}

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes.only_for(Action::Confirm, with_many_ids(routes!(confirm)))
}
