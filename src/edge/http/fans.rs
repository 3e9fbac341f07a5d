//! The routes of a live's fans: list the fans who are online, and tell whether one user is among
//! them.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::authorization::CalledBy;
use super::bounded::IdPrefix;
use super::hidden::{LEAST_LOOKED_AT, Sight};
use super::paging::{Listing, MAX_LIMIT, Page, Paging, paging_query};
use super::position::Position;
use super::problem::{Problem, refusals};
use super::requests::{InPath, InQuery};
use super::snapshots::Listed;
use super::state::AppState;
use crate::base::ids::{Group, LiveId, SliceId, UserId};
use crate::store::{LiveRecord, LiveState};
use crate::sync::lives::LiveError;

/// A fan who is online.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Fan)]
pub(crate) struct OnlineFan {
    /// The user.
    user_id: UserId,
}

/// Whether a fan is online.
#[derive(Serialize, ToSchema)]
#[schema(as = FanPresence)]
pub(crate) struct FanPresence {
    /// True if the user is online in the live and follows its streamer.
    online: bool,
}

/// Which fans are asked for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PrefixQuery {
    /// Only those whose ids begin so; later pages need the same.
    #[serde(default)]
    #[param(inline)]
    prefix: IdPrefix,
}

paging_query!(FansQuery = Fans);
refusals!(Refused = InvalidId, LiveNotFound, StoreUnavailable);

/// List the fans who are online
///
/// Each fan at most once. A fan who joins or leaves while the pages are read may be in them or
/// not. A closed live has none.
#[utoipa::path(get, path = "/v1/lives/{live_id}/fans", operation_id = "list_fans", tag = "fans",
    params(("live_id" = LiveId, Path, description = "The live", example = "42"), FansQuery, PrefixQuery),
    responses((status = 200, description = "A page", body = Page<OnlineFan>), Refused))]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    InQuery(PrefixQuery { prefix }): InQuery<PrefixQuery>,
    by: CalledBy,
    paging: Paging,
) -> Result<Json<Page<OnlineFan>>, Problem> {
    let position = Position::read(Listing::Fans, &paging)?;
    let record = load(&state, &live).await?;
    match Position::in_epoch(position, &state, &record)? {
        Some(position) => {
            let sight = Sight::of(&state, by);
            let page = page(&state, &record, position, &prefix.0, paging.limit, &sight).await?;
            Ok(Json(page))
        }
        None => Ok(Json(Page::empty())),
    }
}

/// Fills a page from a position on, with fans of as many slices as the page needs. A cursor names the
/// last fan of the page, so no hidden one.
async fn page(
    state: &AppState,
    record: &LiveRecord,
    mut position: Position,
    prefix: &str,
    limit: usize,
    sight: &Sight<'_>,
) -> Result<Page<OnlineFan>, Problem> {
    let mut items = Vec::new();
    // Only the first slice begins after a user of the previous page.
    let mut after = position.after.take();
    for index in position.slice..=record.slices {
        let slice = SliceId::of_live(record.live.clone(), index, record.slices);
        let snapshot = state
            .snapshots
            .since(
                position.began,
                slice,
                Listed::Group(Group::Fans),
                record.epoch,
            )
            .await?;
        let users = snapshot.beginning_with(prefix, after.take().as_ref());
        for users in users.chunks((limit + 1).clamp(LEAST_LOOKED_AT, MAX_LIMIT)) {
            let unseen = sight.unseen(users).await?;
            for user in users.iter().filter(|user| !unseen.contains(*user)) {
                if items.len() == limit {
                    // One more fan is left over, so the next page will not be empty.
                    return Ok(Page {
                        items,
                        cursor: Some(position.cursor(Listing::Fans)),
                    });
                }
                position.slice = index;
                position.after = Some(user.clone());
                items.push(OnlineFan {
                    user_id: user.clone(),
                });
            }
        }
    }
    Ok(Page {
        items,
        cursor: None,
    })
}

/// Whether one fan is online
#[utoipa::path(get, path = "/v1/lives/{live_id}/fans/{user_id}", operation_id = "get_fan", tag = "fans",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        ("user_id" = UserId, Path, description = "The user", example = "u1"),
    ),
    responses((status = 200, description = "Online or not", body = FanPresence), Refused))]
pub(crate) async fn presence(
    State(state): State<Arc<AppState>>,
    InPath((live, user)): InPath<(LiveId, UserId)>,
    by: CalledBy,
) -> Result<Json<FanPresence>, Problem> {
    let record = load(&state, &live).await?;
    let unseen = Sight::of(&state, by)
        .unseen(std::slice::from_ref(&user))
        .await?;
    if record.state != LiveState::Open || unseen.contains(&user) {
        return Ok(Json(FanPresence { online: false }));
    }
    let slice = SliceId::of_live(live, user.slice_index(record.slices), record.slices);
    let online = state
        .core
        .store_for_clients
        .is_member(&slice, Group::Fans, &user)
        .await?;
    Ok(Json(FanPresence { online }))
}

/// The record of a live, from the store; a problem if the live was never opened.
pub(crate) async fn load(state: &AppState, live: &LiveId) -> Result<LiveRecord, Problem> {
    match state.core.store_for_clients.load_live(live).await? {
        Some(record) => Ok(record),
        None => Err(LiveError::NeverOpened(live.clone()).into()),
    }
}
