//! The route that lists the users who are online, then those who were by the time when they were
//! seen last.

use std::pin::pin;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Deserialize;
use utoipa::IntoParams;

use super::bounded::Whole;
use super::online::{UserStatus, span, statuses, tracked};
use super::paging::{Listing, Page, Paging, paging_query};
use super::problem::{Problem, refusals};
use super::requests::InQuery;
use super::snapshots::Listed;
use super::snapshots::Snapshot;
use super::state::AppState;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Group, OnlineSet, PLATFORM_EPOCH, SliceId, USERS_SLICES, UserId};
use crate::store::{Seen, Span, StoreResult, UserPresence};

/// Which users.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Also those who were seen within so many seconds.
    #[param(inline, example = 300)]
    window_s: Option<Whole>,
    /// Also those who were seen last at this time or later, in Unix milliseconds. With `window_s`,
    /// the later of the two beginnings counts.
    #[param(inline)]
    from: Option<Whole>,
    /// And not later than this. If it is in the past, those who are online now are not in the list.
    #[param(inline)]
    to: Option<Whole>,
}

/// What a list of users has.
#[derive(Debug, Clone, Copy)]
struct ListedUsers {
    online: bool,
    /// When the others were seen; `None`: no others.
    seen: Option<Span>,
}

impl ListQuery {
    fn listed(self, now: UnixMillis) -> ListedUsers {
        let Self { window_s, from, to } = self;
        if window_s.is_none() && from.is_none() && to.is_none() {
            return ListedUsers {
                online: true,
                seen: None,
            };
        }
        let span = span(window_s, from, to, now);
        ListedUsers {
            online: span.to >= now && !span.is_empty(),
            seen: if span.is_empty() { None } else { Some(span) },
        }
    }
}

/// Where a list of users goes on.
enum ListPlace {
    Online(OnlinePlace),
    /// After this user, or with the first.
    Seen(Option<Seen>),
}

/// Among the users who are online: after this user of this slice, or with the first of all.
struct OnlinePlace {
    /// When the list began: no older copy of a slice is shown in it.
    began: u64,
    slice: u32,
    after: Option<UserId>,
}

impl OnlinePlace {
    fn first(state: &AppState) -> Self {
        Self {
            began: state.snapshots.stamp(),
            slice: 1,
            after: None,
        }
    }

    fn cursor(&self) -> String {
        let after = self.after.as_ref().map_or("", UserId::as_str);
        Listing::Online.cursor(&[&self.began, &self.slice, &after])
    }

    /// Up to `limit` users from here on, and whether there are more. Moves behind the last of them.
    async fn page(&mut self, state: &AppState, limit: usize) -> StoreResult<(Vec<UserId>, bool)> {
        let began = self.began;
        let slices = SliceId::all(OnlineSet::Users, USERS_SLICES).skip(self.slice as usize - 1);
        let reads = stream::iter(slices).map(|slice| read_slice(state, began, slice));
        let mut snapshots = pin!(reads.buffered(READ_AHEAD));
        let mut users: Vec<UserId> = Vec::new();
        while let Some((index, snapshot)) = snapshots.try_next().await? {
            let after = if index == self.slice {
                self.after.as_ref()
            } else {
                None
            };
            let rest = snapshot.after(after);
            let shown = &rest[..rest.len().min(limit - users.len())];
            let more = rest.len() > shown.len();
            if let Some(last) = shown.last() {
                self.slice = index;
                self.after = Some(last.clone());
            }
            users.extend_from_slice(shown);
            if more {
                return Ok((users, true));
            }
        }
        Ok((users, false))
    }
}

/// Slices that one request reads at a time.
const READ_AHEAD: usize = 4;

/// A copy of a slice of the users who are online, read after `began`, with the slice's number.
async fn read_slice(
    state: &AppState,
    began: u64,
    slice: SliceId,
) -> StoreResult<(u32, Arc<Snapshot>)> {
    let index = slice.index;
    let snapshot = state
        .snapshots
        .since(began, slice, Listed::Group(Group::All), PLATFORM_EPOCH)
        .await?;
    Ok((index, snapshot))
}

paging_query!(ListPaging = Online);
refusals!(ListRefused = NotKept, StoreUnavailable);

/// List who is online now
///
/// With `window_s`, `from` or `to`: also who was seen in that time, after those who are online and
/// with those first who were seen longest ago. Users who come or go while the pages are read may be
/// in them twice, or not at all. A page may have fewer items than `limit` although more follow.
#[utoipa::path(get, path = "/v1/online", operation_id = "list_online", tag = "online", params(ListQuery, ListPaging),
    responses((status = 200, description = "A page", body = Page<UserStatus>), ListRefused))]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InQuery(query): InQuery<ListQuery>,
    paging: Paging,
) -> Result<Json<Page<UserStatus>>, Problem> {
    tracked(&state)?;
    let listed = query.listed(state.core.clock.unix());
    let place = match paging.position(resume)? {
        Some(place) => place,
        None if listed.online => ListPlace::Online(OnlinePlace::first(&state)),
        None => ListPlace::Seen(None),
    };
    let mut items = Vec::new();
    let after = match place {
        ListPlace::Seen(after) => after,
        ListPlace::Online(mut place) => {
            let (users, more) = place.page(&state, paging.limit).await?;
            let is_full = users.len() == paging.limit;
            items = statuses(&state, users).await?;
            if more || (is_full && listed.seen.is_some()) {
                return Ok(Json(Page {
                    items,
                    cursor: Some(place.cursor()),
                }));
            }
            None
        }
    };
    let Some(span) = listed.seen else {
        return Ok(Json(Page {
            items,
            cursor: None,
        }));
    };
    let room = paging.limit - items.len();
    let (page, more) = state
        .core
        .store_for_clients
        .seen_page(span, after.as_ref(), room)
        .await?;
    let cursor = match page.last() {
        Some(last) if more => Some(Listing::Seen.cursor(&[&last.at, &last.user])),
        _ => None,
    };
    let mut known = Vec::with_capacity(page.len());
    for seen in page {
        let presence = UserPresence {
            last_seen: Some(seen.at),
            ..UserPresence::default()
        };
        known.push((seen.user, presence));
    }
    items.extend(UserStatus::of(&state, known.into_iter()));
    Ok(Json(Page { items, cursor }))
}

fn resume(cursor: &str) -> Result<ListPlace, Problem> {
    if cursor.starts_with(Listing::Online.letter()) {
        return Listing::Online.resume(cursor, |[began, slice, after]| {
            let slice: u32 = slice.parse().ok()?;
            if !(1..=USERS_SLICES).contains(&slice) {
                return None;
            }
            Some(ListPlace::Online(OnlinePlace {
                began: began.parse().ok()?,
                slice,
                after: Some(UserId::parse(after).ok()?),
            }))
        });
    }
    Listing::Seen.resume(cursor, |[at, user]| {
        Some(ListPlace::Seen(Some(Seen {
            user: UserId::parse(user).ok()?,
            at: at.parse().ok()?,
        })))
    })
}
