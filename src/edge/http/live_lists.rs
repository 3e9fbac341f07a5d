//! The routes of many lives, for pages that show rooms: list the open ones by age or by size, ask
//! about some.
//!
//! Counts are exact for lives that this gateway has a room of. Those of others come from their
//! records, which are a few seconds behind ([`crate::store::Counts`]).

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::lives::{InRoom, LiveCounted, OpenLiveEntry};
use super::paging::{Listing, MAX_LIMIT, Page, Paging, ask_for, paging_query};
use super::problem::{Kind, Problem, refusals};
use super::requests::{InQuery, JsonObject};
use super::state::AppState;
use crate::base::ids::LiveId;
use crate::edge::fields::Place;
use crate::store::{ListedLive, LiveRecord, LiveState, Rank, RankedLive};

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
pub(super) struct SortQuery {
    /// `opened_at`, if left out. A cursor goes on in the order of its first page.
    #[serde(default)]
    #[param(inline)]
    sort: Sort,
}

/// Where a listing goes on.
enum GoesOn {
    ByAge(Option<ListedLive>),
    BySize(Rank, Option<RankedLive>),
}

paging_query!(LivesQuery = Lives);
refusals!(
    ListRefused = InvalidCursor,
    InvalidLimit,
    InvalidQuery,
    StoreUnavailable
);

/// List the open lives, oldest or largest first
///
/// A page may hold fewer than `limit` although the list goes on: a live that is just opening or
/// closing is left out. By size, lives whose counts change while the pages are read may be listed
/// twice or not at all.
#[utoipa::path(get, path = "/v1/lives", operation_id = "list_lives", tag = "lives", params(LivesQuery, SortQuery),
    responses((status = 200, description = "A page", body = Page<OpenLiveEntry>), ListRefused))]
pub(super) async fn list(
    State(state): State<Arc<AppState>>,
    InQuery(SortQuery { sort }): InQuery<SortQuery>,
    paging: Paging,
) -> Result<Json<Page<OpenLiveEntry>>, Problem> {
    let place = paging
        .cursor
        .as_deref()
        .map_or_else(|| Ok(begin(sort)), resume)?;
    let store = &state.store_for_clients;
    let (lives, cursor, rank) = match place {
        GoesOn::ByAge(after) => {
            let listed = store
                .lives_page(after.as_ref(), ask_for(paging.limit))
                .await?;
            let cursor =
                |last: &ListedLive| Listing::Lives.cursor(&[&"a", &last.opened_at, &last.live]);
            let Page { items, cursor } = Page::cut(listed, paging.limit, cursor);
            (
                items
                    .into_iter()
                    .map(|listed| listed.live)
                    .collect::<Vec<_>>(),
                cursor,
                None,
            )
        }
        GoesOn::BySize(rank, after) => {
            let ranked = store
                .top_lives(rank, after.as_ref(), ask_for(paging.limit))
                .await?;
            let letter = if rank == Rank::Viewers { "v" } else { "f" };
            let cursor =
                |last: &RankedLive| Listing::Lives.cursor(&[&letter, &last.figure, &last.live]);
            let Page { items, cursor } = Page::cut(ranked, paging.limit, cursor);
            (
                items.into_iter().map(|ranked| ranked.live).collect(),
                cursor,
                Some(rank),
            )
        }
    };
    // The list is only a hint, because a live is listed before it opens. The record says whether it
    // is open.
    let records = state.lives.counted(&lives).await?.into_iter().flatten();
    let open = records.filter(|record| record.state == LiveState::Open);
    let entry = |record: LiveRecord| {
        let viewers = record.counted.map_or(0, |counted| counted.figures.viewers);
        let room = InRoom::of(&state, state.rooms.of_epoch(&record).as_deref(), viewers);
        OpenLiveEntry::of(record, room)
    };
    let mut items: Vec<OpenLiveEntry> = open.map(entry).collect();
    match rank {
        // The counts here may be newer than those by which the store ranks.
        Some(Rank::Viewers) => items.sort_by_key(|live| std::cmp::Reverse(live.viewers)),
        Some(Rank::Fans) => items.sort_by_key(|live| std::cmp::Reverse(live.fans)),
        None => {}
    }
    Ok(Json(Page { items, cursor }))
}

fn begin(sort: Sort) -> GoesOn {
    match sort {
        Sort::OpenedAt => GoesOn::ByAge(None),
        Sort::Viewers => GoesOn::BySize(Rank::Viewers, None),
        Sort::Fans => GoesOn::BySize(Rank::Fans, None),
    }
}

fn resume(cursor: &str) -> Result<GoesOn, Problem> {
    Listing::Lives.resume(cursor, |[sort, number, live]| {
        let (live, number) = (LiveId::parse(live).ok()?, number.parse().ok()?);
        Some(match sort {
            "a" => GoesOn::ByAge(Some(ListedLive {
                live,
                opened_at: number,
            })),
            "v" => GoesOn::BySize(
                Rank::Viewers,
                Some(RankedLive {
                    live,
                    figure: number,
                }),
            ),
            "f" => GoesOn::BySize(
                Rank::Fans,
                Some(RankedLive {
                    live,
                    figure: number,
                }),
            ),
            _ => return None,
        })
    })
}

/// Which lives are asked about.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"live_ids": ["42", "43"]}))]
pub(super) struct LivesAsked {
    /// At most 1,000.
    #[schema(value_type = Vec<LiveId>, max_items = 1_000)]
    live_ids: Vec<String>,
}

/// Lives that were asked about.
#[derive(Serialize, ToSchema)]
#[schema(as = LivesFound)]
pub(super) struct LivesFound {
    /// Those that were ever opened, in the order in which they were asked about.
    items: Vec<LiveCounted>,
    /// The others.
    unknown: Vec<LiveId>,
}

refusals!(
    QueryRefused = BadMessage,
    InvalidId,
    BodyTooLarge,
    UnsupportedMediaType,
    StoreUnavailable
);

/// Ask about many lives
///
/// State, counts and peaks of up to 1,000 lives, open or closed.
#[utoipa::path(post, path = "/v1/lives/query", operation_id = "query_lives", tag = "lives", request_body = LivesAsked,
    responses((status = 200, description = "What is known of them", body = LivesFound), QueryRefused))]
pub(super) async fn query(
    State(state): State<Arc<AppState>>,
    JsonObject(asked): JsonObject<LivesAsked>,
) -> Result<Json<LivesFound>, Problem> {
    if asked.live_ids.len() > MAX_LIMIT {
        let detail = format!("must have at most {MAX_LIMIT} ids");
        return Err(Problem::new(Kind::BadMessage, detail).at(Place::field("live_ids")));
    }
    let mut lives = Vec::with_capacity(asked.live_ids.len());
    for (index, live) in asked.live_ids.iter().enumerate() {
        lives.push(
            LiveId::parse(live)
                .map_err(|why| Problem::from(why).at(Place::item("live_ids", index)))?,
        );
    }
    let mut known = HashSet::new();
    lives.retain(|live| known.insert(live.clone()));
    let (mut items, mut unknown) = (Vec::with_capacity(lives.len()), Vec::new());
    for (live, record) in lives.iter().zip(state.lives.counted(&lives).await?) {
        match record {
            Some(record) => items.push(LiveCounted::from(record)),
            None => unknown.push(live.clone()),
        }
    }
    Ok(Json(LivesFound { items, unknown }))
}
