//! The route that lists the friends of a user who are online, or were a moment ago, and the live in
//! which each of them is.

use crate::auth::permissions::Action;
use crate::edge::http::routes::Routes;
use std::cmp::Reverse;
use std::sync::Arc;
use utoipa_axum::routes;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::edge::http::bounded::Whole;
use crate::edge::http::online::{UserStatus, tracked, window_before};
use crate::edge::http::paging::{Listing, Paging, paging_query};
use crate::edge::http::problem::{Problem, refusals};
use crate::edge::http::requests::{InPath, InQuery};
use crate::edge::http::state::AppState;
use crate::features::friends::online::{Friend, FriendsOf, friends_seen};

/// The window if the query names none, in seconds.
const DEFAULT_WINDOW: u64 = 600;

/// Which friends.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FriendsQuery {
    /// Those who are online, and those who were within so many seconds; 600, if left out.
    #[param(inline)]
    window_s: Option<Whole>,
    /// Everybody whom the user follows, or those only who follow back.
    #[param(inline)]
    of: Option<FriendsOf>,
}

/// A page of friends.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FriendsPage {
    /// First those who are online, then the others, the latest first.
    items: Vec<UserStatus>,
    /// Where the next page begins; null at the end.
    cursor: Option<String>,
    /// True if the user follows more than 5,000 users: only the newest follows were looked at.
    partial: bool,
}

paging_query!(FriendsPaging = Friends);
refusals!(FriendsRefused = InvalidId, NotKept, StoreUnavailable);

/// List the friends who are online, or were within a window
///
/// Friends who come or go while the pages are read may be in them or not.
#[utoipa::path(get, path = "/v1/users/{user_id}/friends/online", operation_id = "list_friends_online", tag = "online",
    params(("user_id" = UserId, Path, description = "Whose friends", example = "u1"), FriendsQuery, FriendsPaging),
    responses((status = 200, description = "A page", body = FriendsPage), FriendsRefused))]
pub(crate) async fn online(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    InQuery(query): InQuery<FriendsQuery>,
    paging: Paging,
) -> Result<Json<FriendsPage>, Problem> {
    tracked(&state)?;
    let after = paging.position(resume)?;
    let of = query.of.unwrap_or_default();
    let window = query.window_s.map_or(DEFAULT_WINDOW, |window| window.0);
    let since = window_before(state.core.clock.unix(), window).from;
    let seen = friends_seen(state.core.store_for_clients.as_ref(), &user, of, since).await?;
    let first = match &after {
        Some((seen_at, user)) => {
            let after = (Reverse(*seen_at), user);
            seen.friends
                .partition_point(|friend| friend.place() <= after)
        }
        None => 0,
    };
    let more = seen.friends.len() - first > paging.limit;
    let shown: Vec<Friend> = seen
        .friends
        .into_iter()
        .skip(first)
        .take(paging.limit)
        .collect();
    let cursor = match shown.last() {
        Some(last) if more => Some(Listing::Friends.cursor(&[&last.seen_at(), &last.user])),
        _ => None,
    };
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

/// When the last friend of the previous page was seen, and who it was.
fn resume(cursor: &str) -> Result<(UnixMillis, UserId), Problem> {
    Listing::Friends.resume(cursor, |[seen_at, user]| {
        Some((seen_at.parse().ok()?, UserId::parse(user).ok()?))
    })
}

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes.only_for(Action::ReadOnline, routes!(online))
}
