//! The routes of feeds: the lives on air, and the statuses, of the users whom a user follows. Also
//! the items of such lists.

use crate::features::feeds::Feeds;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::base::ids::{LiveId, UserId};
use crate::edge::http::paging::{Listing, Page, Paging, paging_query};
use crate::edge::http::problem::{Problem, refusals};
use crate::edge::http::requests::InPath;
use crate::edge::http::state::AppState;
use crate::features::feeds::store::feeds::{ShownStatus, StatusContent, StatusPage, View};
use crate::features::feeds::store::statuses::{StatusId, TimelineEntry};

/// A live that is on air.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FeedEntry {
    /// The live.
    live_id: LiveId,
    /// Whose live it is.
    streamer_id: UserId,
    /// What the live was opened with.
    #[schema(example = "Cooking with Ann")]
    title: Option<String>,
    /// In Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    opened_at: u64,
}

/// What a user tells: an announcement, or that a live is on air.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Status)]
pub(crate) struct StatusItem {
    /// Names the status.
    #[schema(value_type = StatusId)]
    status_id: String,
    /// Whose status it is.
    user_id: UserId,
    /// When the announcement was made, or the live opened, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    posted_at: u64,
    /// What an announcement says; null for a live.
    #[schema(example = "Tomorrow at eight")]
    text: Option<String>,
    /// What came with an announcement.
    #[schema(value_type = serde_json::Value)]
    data: Option<Box<RawValue>>,
    /// The live that is on air; null for an announcement.
    live: Option<FeedEntry>,
}

/// `None` for an announcement.
fn feed_entry(status: &ShownStatus) -> Option<FeedEntry> {
    let (live, _) = status.entry.id.live()?;
    let StatusContent::Live { title } = &status.content else {
        return None;
    };
    Some(FeedEntry {
        live_id: live.clone(),
        streamer_id: status.entry.id.author().clone(),
        title: title.clone(),
        opened_at: status.entry.at,
    })
}

impl From<ShownStatus> for StatusItem {
    fn from(status: ShownStatus) -> Self {
        let live = feed_entry(&status);
        let (text, data) = match status.content {
            StatusContent::Post(post) => (Some(post.text), post.data),
            StatusContent::Live { .. } => (None, None),
        };
        Self {
            status_id: status.entry.id.to_string(),
            user_id: status.entry.id.author().clone(),
            posted_at: status.entry.at,
            text,
            data: data.and_then(|json| RawValue::from_string(json).ok()),
            live,
        }
    }
}

/// Reads one page of a view.
pub(crate) async fn page_of(
    state: &AppState,
    view: View<'_>,
    listing: Listing,
    paging: &Paging,
) -> Result<Page<ShownStatus>, Problem> {
    let after = paging.position(|cursor| resume(listing, cursor))?;
    let StatusPage { items, next } = state
        .of::<Arc<Feeds>>()
        .page(view, after.as_ref(), paging.limit)
        .await?;
    let cursor = next.map(|next| listing.cursor(&[&next.at, &next.id]));
    Ok(Page { items, cursor })
}

/// A status id contains the separator of cursors, so it takes two fields of a cursor.
fn resume(listing: Listing, cursor: &str) -> Result<TimelineEntry, Problem> {
    listing.resume(cursor, |[at, author, subject]| {
        Some(TimelineEntry {
            at: at.parse().ok()?,
            id: StatusId::parse(&format!("{author}~{subject}"))?,
        })
    })
}

/// The answer with one page of a view, for every route that lists statuses.
pub(crate) async fn statuses_of(
    state: &AppState,
    view: View<'_>,
    listing: Listing,
    paging: &Paging,
) -> Result<Json<Page<StatusItem>>, Problem> {
    let page = page_of(state, view, listing, paging).await?;
    Ok(Json(page.map(StatusItem::from)))
}

paging_query!(FeedQuery = Feed);
paging_query!(HomeQuery = Home);
paging_query!(ProfileQuery = Profile);
refusals!(ListRefused = InvalidId, StoreUnavailable);

/// List the lives on air of the streamers whom a user follows, newest first
///
/// A page may have fewer items than `limit` although the list goes on: the cursor is null at the
/// end.
#[utoipa::path(get, path = "/v1/users/{user_id}/feed", operation_id = "list_feed", tag = "feeds",
    params(("user_id" = UserId, Path, description = "Whose feed", example = "u1"), FeedQuery),
    responses((status = 200, description = "A page", body = Page<FeedEntry>), ListRefused))]
pub(crate) async fn feed(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    paging: Paging,
) -> Result<Json<Page<FeedEntry>>, Problem> {
    let page = page_of(&state, View::Feed(&user), Listing::Feed, &paging).await?;
    Ok(Json(Page {
        items: page.items.iter().filter_map(feed_entry).collect(),
        cursor: page.cursor,
    }))
}

/// List what those tell whom a user follows, newest first
///
/// Their announcements, and their lives that are on air. Pages are as those of the feed.
#[utoipa::path(get, path = "/v1/users/{user_id}/home", operation_id = "list_home", tag = "feeds",
    params(("user_id" = UserId, Path, description = "Whose home timeline", example = "u1"), HomeQuery),
    responses((status = 200, description = "A page", body = Page<StatusItem>), ListRefused))]
pub(crate) async fn home(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    paging: Paging,
) -> Result<Json<Page<StatusItem>>, Problem> {
    statuses_of(&state, View::Home(&user), Listing::Home, &paging).await
}

/// List what a user tells, newest first
///
/// The user's announcements, and the user's lives that are on air. Pages are as those of the feed.
#[utoipa::path(get, path = "/v1/users/{user_id}/profile", operation_id = "list_profile", tag = "feeds",
    params(("user_id" = UserId, Path, description = "Whose statuses", example = "s1"), ProfileQuery),
    responses((status = 200, description = "A page", body = Page<StatusItem>), ListRefused))]
pub(crate) async fn profile(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    paging: Paging,
) -> Result<Json<Page<StatusItem>>, Problem> {
    statuses_of(&state, View::Profile(&user), Listing::Profile, &paging).await
}
