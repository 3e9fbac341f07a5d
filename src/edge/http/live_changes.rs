//! The route that changes an open live.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use super::authorization::OwnLive;
use super::hosts::{self, HostIds};
use super::lives::{ApiLive, StreamerTimeoutSeconds, Title, length, title_text};
use super::problem::{Problem, ProblemKind, refusals};
use super::removals::judged;
use super::requests::{InPath, JsonObject, run_to_completion};
use super::state::AppState;
use crate::base::ids::LiveId;
use crate::store::LiveChange;

/// What is to change of an open live. What is left out stays.
#[derive(Deserialize, ToSchema)]
#[schema(as = ChangeLive, example = json!({"title": "Baking with s1"}))]
pub(crate) struct ChangeLiveBody {
    /// For people: no control characters. Null or empty: no title.
    #[serde(default, deserialize_with = "given")]
    #[schema(inline, value_type = Option<Title>)]
    title: Option<Option<Title>>,
    /// As in the request that opens a live. Null: the default.
    #[serde(default, deserialize_with = "given")]
    #[schema(inline, value_type = Option<StreamerTimeoutSeconds>)]
    streamer_timeout_s: Option<Option<StreamerTimeoutSeconds>>,
    /// As in the request that opens a live; those who are left out host it no longer. Null: nobody.
    #[serde(default, deserialize_with = "given")]
    #[schema(inline, value_type = Option<HostIds>)]
    hosts: Option<Option<HostIds>>,
}

/// Distinguishes a field that is null from one that is left out.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

impl ChangeLiveBody {
    fn change(self) -> Result<LiveChange, Problem> {
        let hosts = match self.hosts {
            Some(ids) => Some(hosts::read(&ids.unwrap_or_default())?),
            None => None,
        };
        Ok(LiveChange {
            info: None,
            title: self.title.map(|title| title.and_then(title_text)),
            streamer_timeout: self.streamer_timeout_s.map(|seconds| seconds.map(length)),
            hosts,
        })
    }
}

refusals!(
    ChangeRefused = InvalidId,
    Forbidden,
    Banned,
    LiveNotFound,
    LiveNotOpen,
    StoreUnavailable
);

/// Change an open live
///
/// Its title, how long its streamer may be away, and its hosts. Every gateway learns of it at once.
#[utoipa::path(patch, path = "/v1/lives/{live_id}", operation_id = "change_live", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42")), request_body = ChangeLiveBody,
    responses((status = 200, description = "The live as it is now", body = ApiLive), ChangeRefused))]
pub(crate) async fn change(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    own: Option<Extension<OwnLive>>,
    JsonObject(body): JsonObject<ChangeLiveBody>,
) -> Result<Json<ApiLive>, Problem> {
    if own.is_some() && body.streamer_timeout_s.is_some() {
        return Err(Problem::new(
            ProblemKind::Forbidden,
            "only a service or an API key chooses the streamer timeout",
        ));
    }
    let change = body.change()?;
    let changing = async move {
        let record = state.removals.open_record(&live, judged(own)).await?;
        if change == LiveChange::default() {
            return Ok(record);
        }
        let hosts = change.hosts.clone().unwrap_or_default();
        hosts::check(&state, &record.streamer, &hosts).await?;
        let changed = state.live_changes.change(&record, change).await;
        changed.map_err(|why| hosts::refused(why, &hosts))
    };
    Ok(Json(run_to_completion(changing).await?.into()))
}
