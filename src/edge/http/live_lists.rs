//! The routes of many lives, for pages that show rooms: list the open lives by age or by size, and
//! look up some lives by their ids.
//!
//! The counts of a live are exact if this gateway has a room of it. Otherwise they come from the
//! live's record, which is a few seconds behind ([`crate::store::Counts`]).

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::lives::{InRoom, LiveCounted, OpenLiveEntry};
use super::paging::{Listing, MAX_LIMIT, Page, Paging, ask_for, paging_query};
use super::problem::{Problem, ProblemKind, refusals};
use super::requests::{InQuery, JsonObject};
use super::state::AppState;
use crate::base::ids::LiveId;
use crate::edge::fields::FieldPlace;
use crate::store::{ListedLive, LiveState, Rank, RankedLive, Store, StoreResult};

/// In which order open lives are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Sort {
    /// Oldest first.
    #[default]
    OpenedAt,
    /// Most viewers first.
    Viewers,
    /// Most fans first.
    Fans,
}

/// How open lives are listed.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SortQuery {
    /// `opened_at`, if left out. A cursor goes on in the order of its first page.
    #[serde(default)]
    #[param(inline)]
    sort: Sort,
}

/// The order of a listing, and the live after which the page begins; `None` for the first page.
enum LivePosition {
    ByAge(Option<ListedLive>),
    BySize(Rank, Option<RankedLive>),
}

paging_query!(LivesQuery = Lives);
refusals!(ListRefused = StoreUnavailable);

/// List the open lives, oldest or largest first
///
/// A page may hold fewer than `limit` although the list goes on: a live that is just opening or
/// closing is left out. By size, lives whose counts change while the pages are read may be listed
/// twice or not at all.
#[utoipa::path(get, path = "/v1/lives", operation_id = "list_lives", tag = "lives", params(LivesQuery, SortQuery),
    responses((status = 200, description = "A page", body = Page<OpenLiveEntry>), ListRefused))]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InQuery(SortQuery { sort }): InQuery<SortQuery>,
    paging: Paging,
) -> Result<Json<Page<OpenLiveEntry>>, Problem> {
    let position = paging.position(resume)?.unwrap_or(first_page(sort));
    let store = state.core.store_for_clients.as_ref();
    let (page, rank) = match position {
        LivePosition::ByAge(after) => {
            let page = page_by_age(store, after.as_ref(), paging.limit).await?;
            (page, None)
        }
        LivePosition::BySize(rank, after) => {
            let page = page_by_size(store, rank, after.as_ref(), paging.limit).await?;
            (page, Some(rank))
        }
    };
    // The list is only a hint, because the store lists a live before it opens. The record says
    // whether the live is open.
    let mut items = open_entries(&state, &page.items).await?;
    match rank {
        // The counts here may be newer than those by which the store ranks.
        Some(Rank::Viewers) => items.sort_by_key(|live| Reverse(live.viewers)),
        Some(Rank::Fans) => items.sort_by_key(|live| Reverse(live.fans)),
        None => {}
    }
    Ok(Json(Page {
        items,
        cursor: page.cursor,
    }))
}

/// Those of the lives that are open.
pub(crate) async fn open_entries(
    state: &AppState,
    lives: &[LiveId],
) -> Result<Vec<OpenLiveEntry>, Problem> {
    let records = state.lives.counted(lives).await?;
    let mut entries = Vec::new();
    for record in records.into_iter().flatten() {
        if record.state != LiveState::Open {
            continue;
        }
        let viewers = record.counted.map_or(0, |counted| counted.figures.viewers);
        let room = state.core.rooms.of_epoch(&record);
        let in_room = InRoom::of(state, room.as_deref(), viewers);
        entries.push(OpenLiveEntry::of(record, in_room));
    }
    Ok(entries)
}

async fn page_by_age(
    store: &dyn Store,
    after: Option<&ListedLive>,
    limit: usize,
) -> StoreResult<Page<LiveId>> {
    let listed = store.lives_page(after, ask_for(limit)).await?;
    let page = Page::cut(listed, limit, |last| {
        Listing::Lives.cursor(&[&"a", &last.opened_at, &last.live])
    });
    Ok(page.map(|listed| listed.live))
}

async fn page_by_size(
    store: &dyn Store,
    rank: Rank,
    after: Option<&RankedLive>,
    limit: usize,
) -> StoreResult<Page<LiveId>> {
    let ranked = store.top_lives(rank, after, ask_for(limit)).await?;
    let letter = match rank {
        Rank::Viewers => "v",
        Rank::Fans => "f",
    };
    let page = Page::cut(ranked, limit, |last| {
        Listing::Lives.cursor(&[&letter, &last.figure, &last.live])
    });
    Ok(page.map(|ranked| ranked.live))
}

fn first_page(sort: Sort) -> LivePosition {
    match sort {
        Sort::OpenedAt => LivePosition::ByAge(None),
        Sort::Viewers => LivePosition::BySize(Rank::Viewers, None),
        Sort::Fans => LivePosition::BySize(Rank::Fans, None),
    }
}

fn resume(cursor: &str) -> Result<LivePosition, Problem> {
    Listing::Lives.resume(cursor, |[order, number, live]| {
        let live = LiveId::parse(live).ok()?;
        let number = number.parse().ok()?;
        let rank = match order {
            "a" => {
                return Some(LivePosition::ByAge(Some(ListedLive {
                    live,
                    opened_at: number,
                })));
            }
            "v" => Rank::Viewers,
            "f" => Rank::Fans,
            _ => return None,
        };
        let after = RankedLive {
            live,
            figure: number,
        };
        Some(LivePosition::BySize(rank, Some(after)))
    })
}

/// Which lives are asked about.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"live_ids": ["42", "43"]}))]
pub(crate) struct LivesAsked {
    /// At most 1,000.
    #[schema(value_type = Vec<LiveId>, max_items = 1_000)]
    live_ids: Vec<String>,
}

/// Lives that were asked about.
#[derive(Serialize, ToSchema)]
#[schema(as = LivesFound)]
pub(crate) struct LivesFound {
    /// Those that were ever opened, in the order in which they were asked about.
    items: Vec<LiveCounted>,
    /// The others.
    unknown: Vec<LiveId>,
}

refusals!(QueryRefused = InvalidId, StoreUnavailable);

/// Ask about many lives
///
/// State, counts and peaks of up to 1,000 lives, open or closed.
#[utoipa::path(post, path = "/v1/lives:query", operation_id = "query_lives", tag = "lives", request_body = LivesAsked,
    responses((status = 200, description = "What is known of them", body = LivesFound), QueryRefused))]
pub(crate) async fn query(
    State(state): State<Arc<AppState>>,
    JsonObject(asked): JsonObject<LivesAsked>,
) -> Result<Json<LivesFound>, Problem> {
    if asked.live_ids.len() > MAX_LIMIT {
        let detail = format!("must have at most {MAX_LIMIT} ids");
        return Err(Problem::new(ProblemKind::BadMessage, detail).at(FieldPlace::field("live_ids")));
    }
    let mut lives = Vec::with_capacity(asked.live_ids.len());
    for (index, text) in asked.live_ids.iter().enumerate() {
        let live = LiveId::parse(text)
            .map_err(|why| Problem::from(why).at(FieldPlace::item("live_ids", index)))?;
        lives.push(live);
    }
    let mut known = HashSet::new();
    lives.retain(|live| known.insert(live.clone()));
    let mut items = Vec::with_capacity(lives.len());
    let mut unknown = Vec::new();
    for (live, record) in lives.iter().zip(state.lives.counted(&lives).await?) {
        match record {
            Some(record) => items.push(LiveCounted::from(record)),
            None => unknown.push(live.clone()),
        }
    }
    Ok(Json(LivesFound { items, unknown }))
}
