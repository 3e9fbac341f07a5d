//! The route that lists all viewers of a live, fans or not.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::authorization::CalledBy;
use super::fans::load;
use super::hidden::{LEAST_LOOKED_AT, Sight};
use super::paging::{Listing, MAX_LIMIT, Page, Paging, paging_query};
use super::position::Position;
use super::problem::{Problem, refusals};
use super::requests::{InPath, InQuery};
use super::snapshots::Listed;
use super::state::AppState;
use crate::base::ids::{Group, LiveId, OnlineSet, SliceId, UserId};
use crate::store::LiveRecord;

/// Maximum viewers that one request examines to find the fans, or the others, that it lists.
const MAX_EXAMINED: usize = 10 * MAX_LIMIT;

/// A viewer who is online.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Viewer)]
pub(crate) struct OnlineViewer {
    /// The user; null for a guest.
    user_id: Option<UserId>,
    /// Whether the user follows the streamer.
    fan: bool,
    /// Since when the user is in the live without a break, in Unix milliseconds; null if the store
    /// does not know.
    #[schema(example = 1_732_000_000_000_u64)]
    since: Option<u64>,
}

/// Which viewers are asked for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FanQuery {
    /// True: only fans. False: only others.
    fan: Option<bool>,
    /// True: guests, too, each as an item without an id.
    #[serde(default)]
    with_guests: bool,
}

paging_query!(ViewersQuery = Viewers);
refusals!(ListRefused = InvalidId, LiveNotFound, StoreUnavailable);

/// List all viewers who are online
///
/// Each viewer at most once. A viewer who joins or leaves while the pages are read may be in them
/// or not. A page may hold fewer than `limit` although the list goes on. A closed live has none.
#[utoipa::path(get, path = "/v1/lives/{live_id}/viewers", operation_id = "list_viewers", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42"), ViewersQuery, FanQuery),
    responses((status = 200, description = "A page", body = Page<OnlineViewer>), ListRefused))]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    InQuery(only): InQuery<FanQuery>,
    by: CalledBy,
    paging: Paging,
) -> Result<Json<Page<OnlineViewer>>, Problem> {
    let position = Position::read(Listing::Viewers, &paging)?;
    let record = load(&state, &live).await?;
    match Position::in_epoch(position, &state, &record)? {
        Some(position) => {
            let sight = Sight::of(&state, by);
            let page = page(&state, &record, position, &only, paging.limit, &sight).await?;
            Ok(Json(page))
        }
        None => Ok(Json(Page::empty())),
    }
}

/// Fills a page from a position on, with viewers of as many slices as the page needs. With
/// `only.fan` the page holds only fans, or only others. A cursor names no hidden viewer.
async fn page(
    state: &AppState,
    record: &LiveRecord,
    mut position: Position,
    only: &FanQuery,
    limit: usize,
    sight: &Sight<'_>,
) -> Result<Page<OnlineViewer>, Problem> {
    let only_fans = only.fan;
    let listed = if only.with_guests {
        Listed::WithGuests
    } else {
        Listed::Group(Group::All)
    };
    let mut items = Vec::new();
    let mut examined = 0;
    // Only the first slice begins after a user of the previous page.
    let mut after = position.after.take();
    // One more than fits, so that the page knows whether another one follows.
    let chunk_size = if only_fans.is_some() {
        MAX_LIMIT
    } else {
        (limit + 1).clamp(LEAST_LOOKED_AT, MAX_LIMIT)
    };
    let slices = SliceId::all(OnlineSet::Live(record.live.clone()), record.slices);
    for slice in slices.skip(position.slice as usize - 1) {
        let snapshot = state
            .snapshots
            .since(position.began, slice.clone(), listed, record.epoch)
            .await?;
        for users in snapshot.after(after.take().as_ref()).chunks(chunk_size) {
            if examined >= MAX_EXAMINED && position.after.is_some() {
                return Ok(Page {
                    items,
                    cursor: Some(position.cursor(Listing::Viewers)),
                });
            }
            examined += users.len();
            let store = &state.core.store_for_clients;
            let (are_fans, since, unseen) = tokio::try_join!(
                store.are_members(&slice, Group::Fans, users),
                store.since_of(&slice, users),
                sight.unseen(users)
            )?;
            for ((user, fan), since) in users.iter().zip(are_fans).zip(since) {
                if unseen.contains(user) {
                    continue;
                }
                if only_fans.is_none_or(|only_fans| only_fans == fan) {
                    if items.len() == limit {
                        return Ok(Page {
                            items,
                            cursor: Some(position.cursor(Listing::Viewers)),
                        });
                    }
                    items.push(OnlineViewer {
                        user_id: (!user.is_guest()).then(|| user.clone()),
                        fan,
                        since,
                    });
                }
                position.slice = slice.index;
                position.after = Some(user.clone());
            }
        }
    }
    Ok(Page {
        items,
        cursor: None,
    })
}
