//! The routes of the information that a back end sends to the clients of a live: write it, and read
//! it.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::authorization::OwnLive;
use super::fans::load;
use super::problem::{Problem, ProblemKind, refusals};
use super::removals::judged;
use super::requests::{InPath, JsonText, json, run_to_completion};
use super::state::AppState;
use crate::base::ids::{Epoch, LiveId};
use crate::edge::fields;
use crate::store::{Info, LiveChange};

/// The longest information, in bytes.
const MAX_INFO: usize = 1_024;

/// What clients are told about a live.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveInfo)]
pub(crate) struct LiveInfo {
    /// The live.
    live_id: LiveId,
    /// Which opening of it.
    #[schema(example = 3)]
    epoch: u64,
    /// The version of the information; a later one is higher. 0 if nothing was ever written.
    #[schema(example = 1_732_000_000_000_u64)]
    info_version: u64,
    /// The information, as it was written; null if there is none.
    #[schema(value_type = serde_json::Value)]
    info: Option<Box<RawValue>>,
}

impl LiveInfo {
    fn of(live_id: LiveId, epoch: Epoch, info: &Info) -> Self {
        Self {
            live_id,
            epoch: epoch.0,
            info_version: info.version,
            info: text_of(info),
        }
    }
}

/// The information as it was written; `None` if there is none.
pub(crate) fn text_of(info: &Info) -> Option<Box<RawValue>> {
    RawValue::from_string(info.json.as_ref()?.to_string()).ok()
}

refusals!(
    InfoRefused = InvalidId,
    LiveNotFound,
    LiveNotOpen,
    StoreUnavailable
);

/// Tell the clients of an open live something
///
/// Any JSON of at most 1,024 bytes, such as goods on sale or a pinned text; `null` clears it. Every
/// socket in the live, and every one that watches it, gets it once, with its next message about the
/// live.
#[utoipa::path(put, path = "/v1/lives/{live_id}/info", operation_id = "write_live_info", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42")),
    request_body(content = serde_json::Value, content_type = "application/json"),
    responses((status = 200, description = "Every gateway tells its clients", body = LiveInfo), InfoRefused))]
pub(crate) async fn write(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    own: Option<Extension<OwnLive>>,
    JsonText(body): JsonText,
) -> Result<Json<LiveInfo>, Problem> {
    let json = read(&body)?;
    let write = async move {
        let record = state.removals.open_record(&live, judged(own)).await?;
        let change = LiveChange {
            info: Some(json),
            ..LiveChange::default()
        };
        let changed = state.live_changes.change(&record, change).await?;
        Ok(Json(LiveInfo::of(live, changed.epoch, &changed.info)))
    };
    run_to_completion(write).await
}

refusals!(ShowRefused = InvalidId, LiveNotFound, StoreUnavailable);

/// Read what the clients of a live are told
///
/// The information ends with the live, so that of a closed one is null.
#[utoipa::path(get, path = "/v1/lives/{live_id}/info", operation_id = "get_live_info", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42")),
    responses((status = 200, description = "What was written last", body = LiveInfo), ShowRefused))]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
) -> Result<Json<LiveInfo>, Problem> {
    let record = load(&state, &live).await?;
    Ok(Json(LiveInfo::of(live, record.epoch, &record.info)))
}

/// The information as the back end sent it; `None` for `null`.
fn read(body: &[u8]) -> Result<Option<Arc<str>>, Problem> {
    let text = body.trim_ascii();
    if text.len() > MAX_INFO {
        return Err(Problem::new(
            ProblemKind::BodyTooLarge,
            format!("the information has at most {MAX_INFO} bytes"),
        ));
    }
    if json(text)? == fields::Json::Null {
        return Ok(None);
    }
    let text = str::from_utf8(text)
        .map_err(|_| Problem::new(ProblemKind::BadMessage, "the body is not UTF-8"))?;
    Ok(Some(text.into()))
}
