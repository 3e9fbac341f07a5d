//! The routes of moderation: remove a user from a live, ban them for a time, lift the ban, list the
//! bans.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::authorization::OwnLive;
use super::bounded::Within;
use super::paging::{Listing, Page, Paging, ask_for, paging_query};
use super::problem::{Problem, refusals};
use super::requests::{InPath, MaybeObject, run_to_completion};
use super::state::AppState;
use crate::base::ids::{LiveId, UserId};
use crate::store::{Ban, LiveRecord, MAX_BAN};

type BanSeconds = Within<0, { MAX_BAN.as_secs() }>;

/// How to remove a user; the body may be left out.
#[derive(Default, Deserialize, ToSchema)]
#[schema(example = json!({"ban_s": 600}))]
pub(super) struct RemoveUser {
    /// For how many seconds the user's joins are refused; replaces an earlier ban. 0, null or left
    /// out: the user may come back, unless an earlier ban still runs.
    #[schema(inline)]
    ban_s: Option<BanSeconds>,
}

/// A user who was removed.
#[derive(Serialize, ToSchema)]
pub(super) struct RemovedUser {
    /// The live.
    live_id: LiveId,
    /// Which opening of it.
    #[schema(example = 3)]
    epoch: u64,
    /// The user.
    user_id: UserId,
    /// When the present ban ends, in Unix milliseconds; null if there is none.
    #[schema(example = 1_732_000_600_000_u64)]
    banned_until: Option<u64>,
}

/// What became of a ban.
#[derive(Serialize, ToSchema)]
pub(super) struct BanState {
    /// Whether the user is banned now.
    banned: bool,
    /// Whether this call made it so.
    changed: bool,
}

/// A ban, in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = BanEntry)]
pub(super) struct BanEntry {
    /// Who may not join.
    user_id: UserId,
    /// Until when, in Unix milliseconds.
    #[schema(example = 1_732_000_600_000_u64)]
    banned_until: u64,
}

impl From<Ban> for BanEntry {
    fn from(ban: Ban) -> Self {
        Self {
            user_id: ban.user,
            banned_until: ban.until,
        }
    }
}

refusals!(
    RemoveRefused = BadMessage,
    InvalidId,
    Forbidden,
    LiveNotFound,
    LiveNotOpen,
    TooManyBans,
    BodyTooLarge,
    UnsupportedMediaType,
    StoreUnavailable
);

/// Remove a user from an open live
///
/// Every gateway closes the user's sockets in it with 4003. With `ban_s` the user cannot join for
/// so long, or until the live closes. The user need not be in the live.
#[utoipa::path(delete, path = "/v1/lives/{live_id}/viewers/{user_id}", operation_id = "remove_viewer",
    tag = "moderation",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        ("user_id" = UserId, Path, description = "Who is removed", example = "u1"),
    ),
    request_body(content = Option<RemoveUser>, content_type = "application/json"),
    responses((status = 200, description = "Every gateway removes the user", body = RemovedUser), RemoveRefused))]
pub(super) async fn remove(
    State(state): State<Arc<AppState>>,
    InPath((live, user)): InPath<(LiveId, UserId)>,
    own: Option<Extension<OwnLive>>,
    MaybeObject(body): MaybeObject<RemoveUser>,
) -> Result<Json<RemovedUser>, Problem> {
    let ban = body
        .ban_s
        .filter(|seconds| seconds.0 > 0)
        .map(|seconds| Duration::from_secs(seconds.0));
    let live_id = live.clone();
    let user_id = user.clone();
    let remove = async move {
        let record = state.removals.open_record(&live, judged(own)).await?;
        state.removals.remove(record, &user, ban).await
    };
    let removed = run_to_completion(remove).await?;
    Ok(Json(RemovedUser {
        live_id,
        epoch: removed.epoch.0,
        user_id,
        banned_until: removed.banned_until,
    }))
}

refusals!(
    LiftRefused = InvalidId,
    LiveNotFound,
    LiveNotOpen,
    StoreUnavailable
);

/// Let a banned user in again
#[utoipa::path(delete, path = "/v1/lives/{live_id}/bans/{user_id}", operation_id = "lift_ban", tag = "moderation",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        ("user_id" = UserId, Path, description = "Who may join again", example = "u1"),
    ),
    responses((status = 200, description = "The user is not banned", body = BanState), LiftRefused))]
pub(super) async fn lift(
    State(state): State<Arc<AppState>>,
    InPath((live, user)): InPath<(LiveId, UserId)>,
    own: Option<Extension<OwnLive>>,
) -> Result<Json<BanState>, Problem> {
    let lift = async move {
        let record = state.removals.open_record(&live, judged(own)).await?;
        state.removals.lift(&record, &user).await
    };
    let changed = run_to_completion(lift).await?;
    Ok(Json(BanState {
        banned: false,
        changed,
    }))
}

paging_query!(BansQuery = Bans);
refusals!(
    ListRefused = InvalidId,
    InvalidCursor,
    InvalidLimit,
    InvalidQuery,
    LiveNotFound,
    LiveNotOpen,
    StoreUnavailable
);

/// List who is banned from an open live, soonest end first
#[utoipa::path(get, path = "/v1/lives/{live_id}/bans", operation_id = "list_bans", tag = "moderation",
    params(("live_id" = LiveId, Path, description = "The live", example = "42"), BansQuery),
    responses((status = 200, description = "A page", body = Page<BanEntry>), ListRefused))]
pub(super) async fn list(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    own: Option<Extension<OwnLive>>,
    paging: Paging,
) -> Result<Json<Page<BanEntry>>, Problem> {
    let after = paging.position(resume)?;
    let record = state.removals.open_record(&live, judged(own)).await?;
    let read = state
        .removals
        .bans(&record, after.as_ref(), ask_for(paging.limit))
        .await?;
    let page = Page::cut(read, paging.limit, |last| {
        Listing::Bans.cursor(&[&last.until, &last.user])
    });
    Ok(Json(Page {
        items: page.items.into_iter().map(BanEntry::from).collect(),
        cursor: page.cursor,
    }))
}

/// The epoch for which [`super::authorization`] found that the streamer owns it. A handler must act
/// on no other one: the body of a request may take long to arrive, and the next epoch may belong to
/// another streamer.
pub(super) fn judged(own: Option<Extension<OwnLive>>) -> Option<LiveRecord> {
    own.map(|Extension(OwnLive(record))| record)
}

fn resume(cursor: &str) -> Result<Ban, Problem> {
    Listing::Bans.resume(cursor, |[until, user]| {
        Some(Ban {
            user: UserId::parse(user).ok()?,
            until: until.parse().ok()?,
        })
    })
}
