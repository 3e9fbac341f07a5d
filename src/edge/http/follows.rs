//! The routes of the follow graph: follow, unfollow, and list the users at either end.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::paging::{Listing, MAX_LIMIT, Page, Paging, ask_for, paging_query};
use super::problem::{Problem, ProblemKind, refusals};
use super::requests::{InPath, InQuery, run_to_completion};
use super::state::AppState;
use crate::base::ids::UserId;
use crate::store::{Edge, Followed};

/// Whether one user follows another after a call.
#[derive(Serialize, ToSchema)]
#[schema(as = FollowState)]
pub(crate) struct FollowState {
    /// Whether the user follows the streamer now.
    follows: bool,
    /// Whether this call made it so.
    changed: bool,
}

/// The other end of a follow.
#[derive(Serialize, ToSchema)]
#[schema(as = FollowEntry)]
pub(crate) struct FollowEntry {
    /// The user at the other end.
    user_id: UserId,
    /// When the follow happened, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    followed_at: u64,
}

impl From<Followed> for FollowEntry {
    fn from(edge: Followed) -> Self {
        Self {
            user_id: edge.user,
            followed_at: edge.at,
        }
    }
}

/// Whether one user follows another.
#[derive(Serialize, ToSchema)]
#[schema(as = Follow)]
pub(crate) struct FollowNow {
    /// Whether the user follows the streamer.
    follows: bool,
}

refusals!(
    FollowRefused = InvalidId,
    SelfFollow,
    BeingErased,
    StoreUnavailable
);
refusals!(UnfollowRefused = InvalidId, BeingErased, StoreUnavailable);

/// Follow a streamer
///
/// Every gateway hears of it at once: in a live of that streamer the user counts as a fan from now
/// on.
#[utoipa::path(put, path = "/v1/users/{user_id}/following/{streamer_id}", operation_id = "follow", tag = "follows",
    params(
        ("user_id" = UserId, Path, description = "Who follows", example = "u1"),
        ("streamer_id" = UserId, Path, description = "Whom", example = "s1"),
    ),
    responses((status = 200, description = "The user follows the streamer", body = FollowState), FollowRefused))]
pub(crate) async fn follow(
    State(state): State<Arc<AppState>>,
    InPath((user, streamer)): InPath<(UserId, UserId)>,
) -> Result<Json<FollowState>, Problem> {
    if user == streamer {
        return Err(Problem::new(
            ProblemKind::SelfFollow,
            "user_id and streamer_id are the same user",
        ));
    }
    let changed =
        run_to_completion(async move { state.follows.follow(&user, &streamer).await }).await?;
    Ok(Json(FollowState {
        follows: true,
        changed,
    }))
}

/// Unfollow a streamer
#[utoipa::path(delete, path = "/v1/users/{user_id}/following/{streamer_id}", operation_id = "unfollow", tag = "follows",
    params(
        ("user_id" = UserId, Path, description = "Who follows no longer", example = "u1"),
        ("streamer_id" = UserId, Path, description = "Whom", example = "s1"),
    ),
    responses(
        (status = 200, description = "The user does not follow the streamer", body = FollowState),
        UnfollowRefused,
    ))]
pub(crate) async fn unfollow(
    State(state): State<Arc<AppState>>,
    InPath((user, streamer)): InPath<(UserId, UserId)>,
) -> Result<Json<FollowState>, Problem> {
    let changed =
        run_to_completion(async move { state.follows.unfollow(&user, &streamer).await }).await?;
    Ok(Json(FollowState {
        follows: false,
        changed,
    }))
}

/// Whether one user follows another
#[utoipa::path(get, path = "/v1/users/{user_id}/following/{streamer_id}", operation_id = "get_follow", tag = "follows",
    params(
        ("user_id" = UserId, Path, description = "Who may follow", example = "u1"),
        ("streamer_id" = UserId, Path, description = "Whom", example = "s1"),
    ),
    responses((status = 200, description = "Whether the user does", body = FollowNow), ReadRefused))]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InPath(pair): InPath<(UserId, UserId)>,
) -> Result<Json<FollowNow>, Problem> {
    let known = state
        .core
        .store_for_clients
        .are_following(&[pair])
        .await
        .pop();
    Ok(Json(FollowNow {
        follows: known.unwrap_or(Ok(false))?,
    }))
}

/// Which of those whom a user follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Of {
    /// All of them.
    #[default]
    Following,
    /// Those who follow the user back.
    Mutual,
}

#[derive(Deserialize)]
pub(crate) struct OfQuery {
    #[serde(default)]
    of: Of,
}

paging_query!(FollowingQuery = Following);
paging_query!(FollowersQuery = Followers);
refusals!(ReadRefused = InvalidId, StoreUnavailable);

/// List whom a user follows, newest first
///
/// With `of=mutual` a page has those who follow the user back, of 1,000 whom the user follows. It
/// may have fewer items than `limit` although the list goes on: the cursor is null at the end.
#[utoipa::path(get, path = "/v1/users/{user_id}/following", operation_id = "list_following", tag = "follows",
    params(
        ("user_id" = UserId, Path, description = "The user", example = "u1"),
        ("of" = inline(Option<Of>), Query, description = "`following` for all, `mutual` for those who follow back"),
        FollowingQuery,
    ),
    responses((status = 200, description = "A page", body = Page<FollowEntry>), ReadRefused))]
pub(crate) async fn following(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    InQuery(query): InQuery<OfQuery>,
    paging: Paging,
) -> Result<Json<Page<FollowEntry>>, Problem> {
    match query.of {
        Of::Following => list(&state, &user, Edge::Following, &paging).await,
        Of::Mutual => list_mutual(&state, &user, &paging).await,
    }
}

/// List who follows a user, newest first
#[utoipa::path(get, path = "/v1/users/{user_id}/followers", operation_id = "list_followers", tag = "follows",
    params(("user_id" = UserId, Path, description = "The user", example = "s1"), FollowersQuery),
    responses((status = 200, description = "A page", body = Page<FollowEntry>), ReadRefused))]
pub(crate) async fn followers(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    paging: Paging,
) -> Result<Json<Page<FollowEntry>>, Problem> {
    list(&state, &user, Edge::Followers, &paging).await
}

async fn list(
    state: &AppState,
    user: &UserId,
    edge: Edge,
    paging: &Paging,
) -> Result<Json<Page<FollowEntry>>, Problem> {
    let listing = match edge {
        Edge::Following => Listing::Following,
        Edge::Followers => Listing::Followers,
    };
    let after = paging.position(|cursor| resume(listing, cursor))?;
    let read = state
        .core
        .store_for_clients
        .follow_page(user, edge, after.as_ref(), ask_for(paging.limit))
        .await?;
    let page = Page::cut(read, paging.limit, |last| {
        listing.cursor(&[&last.at, &last.user])
    });
    Ok(Json(page.map(FollowEntry::from)))
}

/// Reads one page of the users whom the user follows, and lists those who follow back.
async fn list_mutual(
    state: &AppState,
    user: &UserId,
    paging: &Paging,
) -> Result<Json<Page<FollowEntry>>, Problem> {
    let listing = Listing::Following;
    let after = paging.position(|cursor| resume(listing, cursor))?;
    let store = &state.core.store_for_clients;
    let followed = store
        .follow_page(user, Edge::Following, after.as_ref(), MAX_LIMIT)
        .await?;
    let users: Vec<UserId> = followed.iter().map(|edge| edge.user.clone()).collect();
    let back = store.follows(user, &users).await?;
    let mut mutual = Vec::new();
    for (edge, follows_back) in followed.iter().zip(back) {
        if follows_back {
            mutual.push(edge);
        }
    }
    // The next page begins after the last item of a full page, or else after the last user whom
    // this page read.
    let last = if mutual.len() > paging.limit {
        mutual.truncate(paging.limit);
        mutual.last().copied()
    } else if followed.len() == MAX_LIMIT {
        followed.last()
    } else {
        None
    };
    let cursor = last.map(|last| listing.cursor(&[&last.at, &last.user]));
    Ok(Json(Page {
        items: mutual.into_iter().cloned().map(FollowEntry::from).collect(),
        cursor,
    }))
}

fn resume(listing: Listing, cursor: &str) -> Result<Followed, Problem> {
    listing.resume(cursor, |[at, user]| {
        Some(Followed {
            user: UserId::parse(user).ok()?,
            at: at.parse().ok()?,
        })
    })
}
