//! The routes of moderation: remove a user from a live, ban them for a time, lift the ban, list the
//! bans.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::authorization::{AsStaff, CalledBy, OwnLive};
use super::bounded::Within;
use super::paging::{Listing, Page, Paging, ask_for, paging_query};
use super::problem::{Problem, ProblemKind, refusals};
use super::requests::{InPath, JsonObject, MaybeObject, run_to_completion};
use super::state::AppState;
use crate::base::actor::Actor;
use crate::base::ids::{LiveId, UserId};
use crate::store::{Ban, LiveRecord, LiveState, MAX_BAN};
use crate::sync::lives::LiveError;
use crate::sync::removals::Removed;

type BanSeconds = Within<1, { MAX_BAN.as_secs() }>;

type MaybeBanSeconds = Within<0, { MAX_BAN.as_secs() }>;

/// How to remove a user; the body may be left out.
#[derive(Default, Deserialize, ToSchema)]
#[schema(as = RemoveUser, example = json!({"ban_s": 600}))]
pub(crate) struct RemoveUserBody {
    /// For how many seconds the user's joins are refused; replaces an earlier ban. 0, null or left
    /// out: the user may come back, unless an earlier ban still runs.
    #[schema(inline)]
    ban_s: Option<MaybeBanSeconds>,
}

/// How long a user is banned.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"ban_s": 600}))]
pub(crate) struct PutBan {
    /// For how many seconds the user's joins are refused.
    #[schema(inline)]
    ban_s: BanSeconds,
}

/// A user who was removed.
#[derive(Serialize, ToSchema)]
pub(crate) struct RemovedUser {
    /// The live.
    live_id: LiveId,
    /// Which opening of it.
    #[schema(example = 3)]
    epoch: u64,
    /// The user.
    user_id: UserId,
    /// When the present ban ends, in Unix milliseconds; null if there is none.
    #[schema(example = 1_732_000_600_000_u64)]
    ban_ends_at: Option<u64>,
}

/// A user who may not join.
#[derive(Serialize, ToSchema)]
pub(crate) struct BannedUser {
    /// The live.
    live_id: LiveId,
    /// Which opening of it.
    #[schema(example = 3)]
    epoch: u64,
    /// The user.
    user_id: UserId,
    /// When the ban ends, in Unix milliseconds.
    #[schema(example = 1_732_000_600_000_u64)]
    ban_ends_at: u64,
}

/// What became of a ban.
#[derive(Serialize, ToSchema)]
pub(crate) struct BanState {
    /// Whether the user is banned now.
    banned: bool,
    /// Whether this call made it so.
    changed: bool,
}

/// A ban, in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = BanEntry)]
pub(crate) struct BanEntry {
    /// Who may not join.
    user_id: UserId,
    /// Until when, in Unix milliseconds.
    #[schema(example = 1_732_000_600_000_u64)]
    ban_ends_at: u64,
}

impl From<Ban> for BanEntry {
    fn from(ban: Ban) -> Self {
        Self {
            user_id: ban.user,
            ban_ends_at: ban.until,
        }
    }
}

refusals!(
    RemovalRefused = InvalidId,
    Forbidden,
    LiveNotFound,
    LiveNotOpen,
    TooManyBans,
    BeingErased,
    StoreUnavailable
);

/// Remove a user from an open live
///
/// Every gateway closes the user's sockets in it with 4003. The user may come back at once, unless
/// a ban says otherwise. With `ban_s`, this does what `PUT …/bans/{user_id}` does. The user need not
/// be in the live.
#[utoipa::path(delete, path = "/v1/lives/{live_id}/viewers/{user_id}", operation_id = "remove_viewer",
    tag = "moderation",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        ("user_id" = UserId, Path, description = "Who is removed", example = "u1"),
    ),
    request_body(content = Option<RemoveUserBody>, content_type = "application/json"),
    responses((status = 200, description = "Every gateway removes the user", body = RemovedUser), RemovalRefused))]
pub(crate) async fn remove(
    State(state): State<Arc<AppState>>,
    InPath((live_id, user_id)): InPath<(LiveId, UserId)>,
    own: Option<Extension<OwnLive>>,
    staff: Option<Extension<AsStaff>>,
    CalledBy(by): CalledBy,
    MaybeObject(body): MaybeObject<RemoveUserBody>,
) -> Result<Json<RemovedUser>, Problem> {
    let ban = match body.ban_s {
        Some(seconds) if seconds.0 > 0 => Some(Duration::from_secs(seconds.0)),
        _ => None,
    };
    check_staff(&state, staff, &own, &user_id, ban)?;
    let removed = carry_out(state, live_id.clone(), user_id.clone(), own, by, ban).await?;
    Ok(Json(RemovedUser {
        live_id,
        epoch: removed.epoch.0,
        user_id,
        ban_ends_at: removed.ban_ends_at,
    }))
}

/// Refuses what a moderator or a host may not do in a live.
fn check_staff(
    state: &AppState,
    staff: Option<Extension<AsStaff>>,
    own: &Option<Extension<OwnLive>>,
    user: &UserId,
    ban: Option<Duration>,
) -> Result<(), Problem> {
    let (Some(Extension(staff)), Some(Extension(OwnLive(record)))) = (staff, own) else {
        return Ok(());
    };
    let why = if staff == AsStaff::Moderator && ban.is_some() {
        "a moderator bans with PUT /v1/streamers/{streamer_id}/bans/{user_id}"
    } else if state.core.rules.is_moderator(&record.streamer, user) {
        "neither a moderator nor a host can remove or ban a moderator"
    } else if record.terms.hosts.contains(user) {
        "neither a moderator nor a host can remove or ban a host"
    } else {
        return Ok(());
    };
    Err(Problem::new(ProblemKind::Forbidden, why))
}

/// Removes a user, and bans the user for so long if it is given.
async fn carry_out(
    state: Arc<AppState>,
    live: LiveId,
    user: UserId,
    own: Option<Extension<OwnLive>>,
    by: Option<Actor>,
    ban: Option<Duration>,
) -> Result<Removed, Problem> {
    let remove = async move {
        let record = state.removals.open_record(&live, judged(own)).await?;
        state.removals.remove(record, &user, ban, by).await
    };
    Ok(run_to_completion(remove).await?)
}

/// Ban a user from an open live
///
/// Removes the user, and refuses the user's joins for so long, or until the live closes. Takes the
/// place of an earlier ban. The user need not be in the live. A host of the live cannot be banned
/// from it: change its hosts first.
#[utoipa::path(put, path = "/v1/lives/{live_id}/bans/{user_id}", operation_id = "put_ban", tag = "moderation",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        ("user_id" = UserId, Path, description = "Who is banned", example = "u1"),
    ),
    request_body = PutBan,
    responses((status = 200, description = "The user is banned", body = BannedUser), RemovalRefused))]
pub(crate) async fn ban(
    State(state): State<Arc<AppState>>,
    InPath((live_id, user_id)): InPath<(LiveId, UserId)>,
    own: Option<Extension<OwnLive>>,
    staff: Option<Extension<AsStaff>>,
    CalledBy(by): CalledBy,
    JsonObject(body): JsonObject<PutBan>,
) -> Result<Json<BannedUser>, Problem> {
    let length = Duration::from_secs(body.ban_s.0);
    check_staff(&state, staff, &own, &user_id, Some(length))?;
    let removed = carry_out(
        state,
        live_id.clone(),
        user_id.clone(),
        own,
        by,
        Some(length),
    )
    .await?;
    let Some(ban_ends_at) = removed.ban_ends_at else {
        return Err(Problem::new(
            ProblemKind::Internal,
            "the store made no ban of it",
        ));
    };
    Ok(Json(BannedUser {
        live_id,
        epoch: removed.epoch.0,
        user_id,
        ban_ends_at,
    }))
}

refusals!(
    LiftRefused = InvalidId,
    LiveNotFound,
    LiveNotOpen,
    BeingErased,
    StoreUnavailable
);

/// Let a banned user in again
#[utoipa::path(delete, path = "/v1/lives/{live_id}/bans/{user_id}", operation_id = "lift_ban", tag = "moderation",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        ("user_id" = UserId, Path, description = "Who may join again", example = "u1"),
    ),
    responses((status = 200, description = "The user is not banned", body = BanState), LiftRefused))]
pub(crate) async fn lift(
    State(state): State<Arc<AppState>>,
    InPath((live, user)): InPath<(LiveId, UserId)>,
    own: Option<Extension<OwnLive>>,
    CalledBy(by): CalledBy,
) -> Result<Json<BanState>, Problem> {
    let lift = async move {
        let record = state.removals.open_record(&live, judged(own)).await?;
        state.removals.lift(&record, &user, by).await
    };
    let changed = run_to_completion(lift).await?;
    Ok(Json(BanState {
        banned: false,
        changed,
    }))
}

paging_query!(BansQuery = Bans);
refusals!(ListRefused = InvalidId, LiveNotFound, StoreUnavailable);

/// List who is banned from a live, soonest end first
///
/// The close of a live ends its bans, so nobody is banned from a closed one.
#[utoipa::path(get, path = "/v1/lives/{live_id}/bans", operation_id = "list_bans", tag = "moderation",
    params(("live_id" = LiveId, Path, description = "The live", example = "42"), BansQuery),
    responses((status = 200, description = "A page", body = Page<BanEntry>), ListRefused))]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    own: Option<Extension<OwnLive>>,
    paging: Paging,
) -> Result<Json<Page<BanEntry>>, Problem> {
    let after = paging.position(resume)?;
    let record = match judged(own) {
        Some(record) => record,
        None => state.lives.record(&live).await?,
    };
    if record.state != LiveState::Open {
        return Ok(Json(Page::empty()));
    }
    let read = match state
        .removals
        .bans(&record, after.as_ref(), ask_for(paging.limit))
        .await
    {
        // It closed a moment ago.
        Err(LiveError::NotOpen(_)) => return Ok(Json(Page::empty())),
        read => read?,
    };
    let page = Page::cut(read, paging.limit, |last| {
        Listing::Bans.cursor(&[&last.until, &last.user])
    });
    Ok(Json(page.map(BanEntry::from)))
}

/// The epoch for which [`super::authorization`] found that the streamer owns it. A handler must act
/// on no other one: the body of a request may take long to arrive, and the next epoch may belong to
/// another streamer.
pub(crate) fn judged(own: Option<Extension<OwnLive>>) -> Option<LiveRecord> {
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
