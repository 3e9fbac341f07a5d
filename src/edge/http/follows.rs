//! The routes of the follow graph: follow and unfollow, and list either side.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::paging::{Listing, Page, Paging, ask_for, paging_query};
use super::problem::{Problem, refusals};
use super::requests::{InPath, run_to_completion};
use super::state::AppState;
use crate::base::ids::UserId;
use crate::store::{Edge, Followed};

/// Whether one user follows another after a call.
#[derive(Serialize, ToSchema)]
#[schema(as = FollowState)]
pub(super) struct FollowState {
    /// Whether the user follows the streamer now.
    following: bool,
    /// Whether this call made it so.
    changed: bool,
}

/// The other end of a follow.
#[derive(Serialize, ToSchema)]
#[schema(as = FollowEntry)]
pub(super) struct FollowEntry {
    /// The user at the other end.
    user_id: UserId,
    /// When the follow happened, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    followed_at: u64,
}

refusals!(FollowRefused = InvalidId, StoreUnavailable);

/// Follow a streamer
///
/// Every gateway hears of it at once: in a live of that streamer the user counts as a fan from now on.
#[utoipa::path(put, path = "/v1/users/{user_id}/following/{streamer_id}", operation_id = "follow", tag = "follows",
    params(
        ("user_id" = UserId, Path, description = "Who follows", example = "u1"),
        ("streamer_id" = UserId, Path, description = "Whom", example = "s1"),
    ),
    responses((status = 200, description = "The user follows the streamer", body = FollowState), FollowRefused))]
pub(super) async fn follow(
    State(state): State<Arc<AppState>>,
    InPath((user, streamer)): InPath<(UserId, UserId)>,
) -> Result<Json<FollowState>, Problem> {
    let changed = run_to_completion(async move { state.follows.follow(&user, &streamer).await }).await?;
    Ok(Json(FollowState { following: true, changed }))
}

/// Unfollow a streamer
#[utoipa::path(delete, path = "/v1/users/{user_id}/following/{streamer_id}", operation_id = "unfollow", tag = "follows",
    params(
        ("user_id" = UserId, Path, description = "Who follows no longer", example = "u1"),
        ("streamer_id" = UserId, Path, description = "Whom", example = "s1"),
    ),
    responses(
        (status = 200, description = "The user does not follow the streamer", body = FollowState),
        FollowRefused,
    ))]
pub(super) async fn unfollow(
    State(state): State<Arc<AppState>>,
    InPath((user, streamer)): InPath<(UserId, UserId)>,
) -> Result<Json<FollowState>, Problem> {
    let changed = run_to_completion(async move { state.follows.unfollow(&user, &streamer).await }).await?;
    Ok(Json(FollowState { following: false, changed }))
}

paging_query!(FollowingQuery = Following);
paging_query!(FollowersQuery = Followers);
refusals!(ListRefused = InvalidId, InvalidCursor, InvalidLimit, InvalidQuery, StoreUnavailable);

/// List whom a user follows, newest first
#[utoipa::path(get, path = "/v1/users/{user_id}/following", operation_id = "list_following", tag = "follows",
    params(("user_id" = UserId, Path, description = "The user", example = "u1"), FollowingQuery),
    responses((status = 200, description = "A page", body = Page<FollowEntry>), ListRefused))]
pub(super) async fn following(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    paging: Paging,
) -> Result<Json<Page<FollowEntry>>, Problem> {
    list(&state, &user, Edge::Following, &paging).await
}

/// List who follows a user, newest first
#[utoipa::path(get, path = "/v1/users/{user_id}/followers", operation_id = "list_followers", tag = "follows",
    params(("user_id" = UserId, Path, description = "The user", example = "s1"), FollowersQuery),
    responses((status = 200, description = "A page", body = Page<FollowEntry>), ListRefused))]
pub(super) async fn followers(
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
    let after = paging.cursor.as_deref().map(|cursor| resume(listing, cursor)).transpose()?;
    let read = state.store_for_clients.follow_page(user, edge, after.as_ref(), ask_for(paging.limit)).await?;
    let page = Page::cut(read, paging.limit, |last| listing.cursor(&[&last.at, &last.user]));
    let entry = |edge: Followed| FollowEntry { user_id: edge.user, followed_at: edge.at };
    Ok(Json(Page { items: page.items.into_iter().map(entry).collect(), cursor: page.cursor }))
}

fn resume(listing: Listing, cursor: &str) -> Result<Followed, Problem> {
    listing.resume(cursor, |[at, user]| Some(Followed { user: UserId::parse(user).ok()?, at: at.parse().ok()? }))
}
