//! The routes of one status: make an announcement, read a status, and delete an announcement.

use crate::base::ids::InvalidId;
use crate::edge::http::openapi::id;
use crate::edge::http::requests::Ids;
use crate::edge::http::requests::PathParams;
use std::sync::Arc;
use utoipa::PartialSchema;
use utoipa::openapi::{RefOr, Schema};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::base::ids::{PostId, UserId};
use crate::edge::fields::FieldPlace;
use crate::edge::http::idempotency::{IdempotencyKey, Made, Repeatable};
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, JsonText, object, run_to_completion};
use crate::edge::http::state::AppState;
use crate::features::feeds::announcements::{Deleted, Feeds};
use crate::features::feeds::http::feeds::StatusItem;
use crate::features::feeds::store::FeedStore;
use crate::features::feeds::store::statuses::StatusId;

/// The longest text, in characters.
const MAX_TEXT: usize = 1_000;

/// The longest data, in bytes.
const MAX_DATA: usize = 1_024;

/// An announcement.
#[derive(Deserialize, ToSchema)]
#[schema(as = PostStatus)]
pub(crate) struct PostStatus {
    /// For people: 1 to 1,000 characters.
    #[schema(min_length = 1, max_length = 1_000, example = "Tomorrow at eight")]
    text: String,
    /// For programs: any JSON of at most 1,024 bytes.
    #[serde(default)]
    data: Value,
}

refusals!(
    PostRefused = InvalidId,
    InvalidIdempotencyKey,
    UserNotFound,
    IdempotencyKeyReused,
    Erased,
    BeingErased,
    StoreUnavailable
);

/// Announce something to those who follow a user
///
/// The author needs a profile. With an `Idempotency-Key`, you may repeat the request for a day, and
/// it makes one announcement. Without it, look at the author's statuses before trying again after an
/// error that leaves open whether it was made.
#[utoipa::path(post, path = "/v1/users/{user_id}/statuses", operation_id = "post_status", tag = "feeds",
    params(
        ("user_id" = UserId, Path, description = "The author", example = "s1"),
        IdempotencyKey,
    ),
    request_body = PostStatus,
    responses(
        (status = 201, description = "It was made", body = StatusItem, headers(
            ("Location" = String, description = "Where it is"),
            ("Idempotent-Replayed" = bool, description = "True if an earlier request was answered so"),
        )),
        PostRefused,
    ))]
pub(crate) async fn post(
    State(state): State<Arc<AppState>>,
    InPath(author): InPath<UserId>,
    repeatable: Repeatable,
    JsonText(sent): JsonText,
) -> Result<Response, Problem> {
    let body: PostStatus = object(&sent)?;
    if !(1..=MAX_TEXT).contains(&body.text.chars().count()) {
        let detail = format!("must have 1 to {MAX_TEXT} characters");
        return Err(Problem::new(ProblemKind::BadMessage, detail).at(FieldPlace::field("text")));
    }
    let data = match body.data {
        Value::Null => None,
        _ => data_as_sent(&sent),
    };
    if data.as_ref().is_some_and(|data| data.len() > MAX_DATA) {
        let detail = format!("must have at most {MAX_DATA} bytes");
        return Err(Problem::new(ProblemKind::BodyTooLarge, detail).at(FieldPlace::field("data")));
    }
    let text = body.text;
    let asked = [text.clone(), data.clone().unwrap_or_default()];
    let feeds = state.of::<Arc<Feeds>>().clone();
    let store = state.of::<Arc<dyn FeedStore>>().clone();
    repeatable
        .carry_out(store, &asked, (author, PostId::random()), |id| {
            announce(feeds, id, text, data)
        })
        .await
}

/// The data of an announcement as the client wrote it, with each digit of its numbers.
fn data_as_sent(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct AsSent<'a> {
        #[serde(borrow)]
        data: &'a RawValue,
    }
    let sent: AsSent<'_> = serde_json::from_slice(body).ok()?;
    Some(sent.data.get().to_owned())
}

async fn announce(
    feeds: Arc<Feeds>,
    (author, post): (UserId, PostId),
    text: String,
    data: Option<String>,
) -> Result<Made, Problem> {
    let Some(status) = feeds.post(&author, post, text, data).await? else {
        let detail = "the author has no profile";
        return Err(Problem::new(ProblemKind::UserNotFound, detail));
    };
    let location = format!("/v1/users/{author}/statuses/{}", status.entry.id);
    Made::new(location, &StatusItem::from(status))
}

refusals!(ShowRefused = InvalidId, StatusNotFound, StoreUnavailable);

/// Read one status
///
/// An announcement, or that a live is on air.
#[utoipa::path(get, path = "/v1/users/{user_id}/statuses/{status_id}", operation_id = "get_status", tag = "feeds",
    params(
        ("user_id" = UserId, Path, description = "The author", example = "s1"),
        ("status_id" = StatusId, Path, description = "The status", example = "s1~5m2zkq3wvtcohxya"),
    ),
    responses((status = 200, description = "What it says", body = StatusItem), ShowRefused))]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InPath((user, status)): InPath<(UserId, StatusId)>,
) -> Result<Json<StatusItem>, Problem> {
    match state.of::<Arc<Feeds>>().find(&user, &status).await? {
        Some(found) => Ok(Json(StatusItem::from(found))),
        None => Err(Problem::new(
            ProblemKind::StatusNotFound,
            "there is no such status of this user",
        )),
    }
}

refusals!(
    DeleteRefused = InvalidId,
    Forbidden,
    StatusNotFound,
    BeingErased,
    StoreUnavailable
);

/// Delete an announcement
///
/// It is gone from the author's statuses at once, and nobody is shown it any more. The timelines of
/// very many followers forget it a little later.
#[utoipa::path(delete, path = "/v1/users/{user_id}/statuses/{status_id}", operation_id = "delete_status", tag = "feeds",
    params(
        ("user_id" = UserId, Path, description = "The author", example = "s1"),
        ("status_id" = StatusId, Path, description = "The announcement", example = "s1~5m2zkq3wvtcohxya"),
    ),
    responses((status = 204, description = "It is gone"), DeleteRefused))]
pub(crate) async fn delete(
    State(state): State<Arc<AppState>>,
    InPath((user, status)): InPath<(UserId, StatusId)>,
) -> Result<StatusCode, Problem> {
    match run_to_completion(async move { state.of::<Arc<Feeds>>().delete(&user, &status).await })
        .await?
    {
        Deleted::Done => Ok(StatusCode::NO_CONTENT),
        Deleted::Absent => Err(Problem::new(
            ProblemKind::StatusNotFound,
            "there is no such announcement",
        )),
        Deleted::Another => Err(Problem::new(
            ProblemKind::Forbidden,
            "the status is not this user's announcement",
        )),
    }
}

impl Ids for StatusId {
    fn parse(params: &mut PathParams<'_>) -> Result<Self, InvalidId> {
        Self::parse(params.next_value()).ok_or(InvalidId::Alphabet)
    }
}

impl PartialSchema for StatusId {
    fn schema() -> RefOr<Schema> {
        let description = "Names an announcement, as the answer to it did, or a live on air";
        let pattern = concat!(
            r"^(?!\.{1,2}~)[A-Za-z0-9_.:@-]{1,64}~(?!\.{1,2}(@|$))(?!.*_slice[0-9]+@)",
            r"[A-Za-z0-9_.-]{1,64}(@(0|[1-9][0-9]{0,18}))?$"
        );
        id(pattern, description, "s1~5m2zkq3wvtcohxya")
    }
}

impl ToSchema for StatusId {}
