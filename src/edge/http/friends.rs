//! The route that shows which friends of a user are online, or were a moment ago, and in which live
//! they are.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::bounded::Whole;
use super::online::{UserStatus, tracked, window_before};
use super::paging::{Listing, Paging, paging_query};
use super::problem::{Problem, refusals};
use super::requests::{InPath, InQuery};
use super::state::AppState;
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::{Friend, FriendsOf, friends_seen};

/// In seconds.
const DEFAULT_WINDOW: u64 = 600;

/// Which friends.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct FriendsQuery {
    /// Those who are online, and those who were within so many seconds; 600, if left out.
    #[param(inline)]
    window_s: Option<Whole>,
    /// Everybody whom the user follows, or those only who follow back.
    #[param(inline)]
    of: Option<Of>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Of {
    #[default]
    Following,
    Mutual,
}

/// A page of friends.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FriendsPage {
    /// First those who are online, then the others, the latest first.
    items: Vec<UserStatus>,
    /// Where the next page begins; null at the end.
    cursor: Option<String>,
    /// True if the user follows more than 5,000 users: only the newest follows were looked at.
    partial: bool,
}

paging_query!(FriendsPaging = Friends);
refusals!(
    FriendsRefused = InvalidId,
    InvalidCursor,
    InvalidLimit,
    InvalidQuery,
    NotKept,
    StoreUnavailable,
);

/// List the friends who are online, or were within a window
///
/// Friends who come or go while the pages are read may be in them or not.
#[utoipa::path(get, path = "/v1/users/{user_id}/friends/online", operation_id = "list_friends_online", tag = "online",
    params(("user_id" = UserId, Path, description = "Whose friends", example = "u1"), FriendsQuery, FriendsPaging),
    responses((status = 200, description = "A page", body = FriendsPage), FriendsRefused))]
pub(super) async fn online(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    InQuery(query): InQuery<FriendsQuery>,
    paging: Paging,
) -> Result<Json<FriendsPage>, Problem> {
    tracked(&state)?;
    let after = paging.cursor.as_deref().map(resume).transpose()?;
    let of = match query.of.unwrap_or_default() {
        Of::Following => FriendsOf::Following,
        Of::Mutual => FriendsOf::Mutual,
    };
    let since = window_before(
        state.clock.unix(),
        query.window_s.map_or(DEFAULT_WINDOW, |window| window.0),
    )
    .from;
    let seen = friends_seen(state.store_for_clients.as_ref(), &user, of, since).await?;
    let is_later = |friend: &Friend| {
        let after = after
            .as_ref()
            .map(|(at, user)| (std::cmp::Reverse(*at), user));
        after.is_none_or(|after| friend.place() > after)
    };
    let first = seen.friends.partition_point(|friend| !is_later(friend));
    let more = seen.friends.len() - first > paging.limit;
    let shown: Vec<Friend> = seen
        .friends
        .into_iter()
        .skip(first)
        .take(paging.limit)
        .collect();
    let last = shown.last().filter(|_| more);
    let cursor = last.map(|last| Listing::Friends.cursor(&[&last.seen_at(), &last.user]));
    let items = UserStatus::of(
        &state,
        shown
            .into_iter()
            .map(|friend| (friend.user, friend.presence)),
    );
    Ok(Json(FriendsPage {
        items,
        cursor,
        partial: seen.partial,
    }))
}

fn resume(cursor: &str) -> Result<(UnixMillis, UserId), Problem> {
    Listing::Friends.resume(cursor, |[at, user]| {
        Some((at.parse().ok()?, UserId::parse(user).ok()?))
    })
}
