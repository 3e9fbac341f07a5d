//! The routes of users' lists of other users: put a user into a list, take a user out, list the
//! members, and list their statuses.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::base::ids::{ListName, UserId};
use crate::edge::http::paging::{Listing, Page, Paging, paging_query};
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, run_to_completion};
use crate::edge::http::state::AppState;
use crate::features::feeds::http::feeds::{StatusItem, statuses_of};
use crate::features::feeds::store::FeedStore;
use crate::features::feeds::store::feeds::View;
use crate::features::feeds::store::lists::{MAX_LIST, PutInList};

/// Whether a user is in a list after a call.
#[derive(Serialize, ToSchema)]
#[schema(as = ListState)]
pub(crate) struct ListState {
    /// Whether the user is in the list now.
    listed: bool,
    /// Whether this call made it so.
    changed: bool,
}

refusals!(
    PutRefused = InvalidId,
    ListFull,
    BeingErased,
    StoreUnavailable
);
refusals!(TakeRefused = InvalidId, BeingErased, StoreUnavailable);

/// Put a user into a list
///
/// A list begins with its first member, and has 1,000 at most.
#[utoipa::path(put, path = "/v1/users/{user_id}/lists/{list}/{member}", operation_id = "put_in_list", tag = "feeds",
    params(
        ("user_id" = UserId, Path, description = "Whose list", example = "u1"),
        ("list" = ListName, Path, description = "The list", example = "cooks"),
        ("member" = UserId, Path, description = "Who is put in", example = "s1"),
    ),
    responses((status = 200, description = "The user is in the list", body = ListState), PutRefused))]
pub(crate) async fn put(
    State(state): State<Arc<AppState>>,
    InPath((owner, list, member)): InPath<(UserId, ListName, UserId)>,
) -> Result<Json<ListState>, Problem> {
    let store = state.of::<Arc<dyn FeedStore>>().clone();
    let put =
        run_to_completion(async move { store.put_in_list(&owner, &list, &member).await }).await?;
    match put {
        PutInList::Full => Err(Problem::new(
            ProblemKind::ListFull,
            format!("a list has at most {MAX_LIST} members"),
        )),
        PutInList::Added | PutInList::There => Ok(Json(ListState {
            listed: true,
            changed: put == PutInList::Added,
        })),
    }
}

/// Take a user out of a list
///
/// The list ends with its last member.
#[utoipa::path(delete, path = "/v1/users/{user_id}/lists/{list}/{member}", operation_id = "take_out_of_list",
    tag = "feeds",
    params(
        ("user_id" = UserId, Path, description = "Whose list", example = "u1"),
        ("list" = ListName, Path, description = "The list", example = "cooks"),
        ("member" = UserId, Path, description = "Who is taken out", example = "s1"),
    ),
    responses((status = 200, description = "The user is not in the list", body = ListState), TakeRefused))]
pub(crate) async fn take_out(
    State(state): State<Arc<AppState>>,
    InPath((owner, list, member)): InPath<(UserId, ListName, UserId)>,
) -> Result<Json<ListState>, Problem> {
    let store = state.of::<Arc<dyn FeedStore>>().clone();
    let changed =
        run_to_completion(async move { store.take_out_of_list(&owner, &list, &member).await })
            .await?;
    Ok(Json(ListState {
        listed: false,
        changed,
    }))
}

/// A user in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ListMember {
    /// The user.
    user_id: UserId,
}

paging_query!(MembersQuery = Members);

/// List the members of a list, by their ids
///
/// A list without members is empty, as one that never was.
#[utoipa::path(get, path = "/v1/users/{user_id}/lists/{list}", operation_id = "list_members", tag = "feeds",
    params(
        ("user_id" = UserId, Path, description = "Whose list", example = "u1"),
        ("list" = ListName, Path, description = "The list", example = "cooks"),
        MembersQuery,
    ),
    responses((status = 200, description = "A page", body = Page<ListMember>), ListRefused))]
pub(crate) async fn members(
    State(state): State<Arc<AppState>>,
    InPath((owner, list)): InPath<(UserId, ListName)>,
    paging: Paging,
) -> Result<Json<Page<ListMember>>, Problem> {
    let after = paging.position(resume_members)?;
    let mut members = state
        .of::<Arc<dyn FeedStore>>()
        .list_members(&owner, &list)
        .await?;
    if let Some(after) = &after {
        members.retain(|member| member > after);
    }
    members.sort_unstable();
    let more = members.len() > paging.limit;
    members.truncate(paging.limit);
    let cursor = match members.last() {
        Some(last) if more => Some(Listing::Members.cursor(&[last])),
        _ => None,
    };
    let items = members
        .into_iter()
        .map(|user_id| ListMember { user_id })
        .collect();
    Ok(Json(Page { items, cursor }))
}

/// The member after whom the page begins.
fn resume_members(cursor: &str) -> Result<UserId, Problem> {
    Listing::Members.resume(cursor, |[user]| UserId::parse(user).ok())
}

paging_query!(TimelineQuery = ListTimeline);
refusals!(ListRefused = InvalidId, StoreUnavailable);

/// List what those in a list tell, newest first
///
/// Their announcements, and their lives that are on air. Pages are as those of the feed. A list
/// without members is empty, as one that never was.
#[utoipa::path(get, path = "/v1/users/{user_id}/timelines/{list}", operation_id = "list_timeline", tag = "feeds",
    params(
        ("user_id" = UserId, Path, description = "Whose list", example = "u1"),
        ("list" = ListName, Path, description = "The list", example = "cooks"),
        TimelineQuery,
    ),
    responses((status = 200, description = "A page", body = Page<StatusItem>), ListRefused))]
pub(crate) async fn timeline(
    State(state): State<Arc<AppState>>,
    InPath((owner, list)): InPath<(UserId, ListName)>,
    paging: Paging,
) -> Result<Json<Page<StatusItem>>, Problem> {
    statuses_of(
        &state,
        View::List(&owner, &list),
        Listing::ListTimeline,
        &paging,
    )
    .await
}
