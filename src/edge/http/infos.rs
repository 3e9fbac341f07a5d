//! The route of the information that a back end sends to the clients of a live.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use super::authorization::OwnLive;
use super::problem::{Kind, Problem, refusals};
use super::removals::judged;
use super::requests::{InPath, JsonText, json, run_to_completion};
use super::state::AppState;
use crate::base::ids::LiveId;
use crate::edge::fields;

/// The longest information, in bytes.
const MAX_INFO: usize = 1_024;

/// What clients are told about a live from now on.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveInfo)]
pub(super) struct InfoWritten {
    /// The live.
    live_id: LiveId,
    /// Which opening of it.
    #[schema(example = 3)]
    epoch: u64,
    /// The version of the information; a later one is higher.
    #[schema(example = 1_732_000_000_000_u64)]
    info_version: u64,
}

refusals!(
    InfoRefused = BadMessage,
    InvalidId,
    LiveNotFound,
    LiveNotOpen,
    BodyTooLarge,
    UnsupportedMediaType,
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
    responses((status = 200, description = "Every gateway tells its clients", body = InfoWritten), InfoRefused))]
pub(super) async fn write(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    own: Option<Extension<OwnLive>>,
    JsonText(body): JsonText,
) -> Result<Json<InfoWritten>, Problem> {
    let json = read(&body)?;
    let write = async move {
        let record = state.removals.open_record(&live, judged(own)).await?;
        let info = state.info.write(&record, json).await?;
        Ok(Json(InfoWritten {
            live_id: live,
            epoch: record.epoch.0,
            info_version: info.version,
        }))
    };
    run_to_completion(write).await
}

/// The information as the back end sent it; `None` for `null`.
fn read(body: &[u8]) -> Result<Option<Arc<str>>, Problem> {
    let text = body.trim_ascii();
    if text.len() > MAX_INFO {
        return Err(Problem::new(
            Kind::BodyTooLarge,
            format!("the information has at most {MAX_INFO} bytes"),
        ));
    }
    if json(text)? == fields::Json::Null {
        return Ok(None);
    }
    let text = str::from_utf8(text)
        .map_err(|_| Problem::new(Kind::BadMessage, "the body is not UTF-8"))?;
    Ok(Some(text.into()))
}
