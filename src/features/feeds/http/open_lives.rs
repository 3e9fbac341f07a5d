//! The route that lists the open lives of a streamer, as feeds show them.

use crate::base::ids::UserId;
use crate::edge::http::live_lists::open_entries;
use crate::edge::http::lives::OpenLiveEntry;
use crate::edge::http::paging::Listing;
use crate::edge::http::paging::Page;
use crate::edge::http::paging::Paging;
use crate::edge::http::paging::paging_query;
use crate::edge::http::problem::Problem;
use crate::edge::http::problem::refusals;
use crate::edge::http::requests::InPath;
use crate::edge::http::state::AppState;
use crate::features::feeds::store::feeds::View;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::feeds::page_of;

paging_query!(OnAirQuery = OnAir);
refusals!(OnAirRefused = InvalidId, StoreUnavailable);

/// List the open lives of a streamer, newest first
///
/// Those that are in feeds, so an invisible one is not in it. A page may hold fewer than `limit`
/// although the list goes on: the cursor is null at the end.
#[utoipa::path(get, path = "/v1/streamers/{streamer_id}/lives/open", operation_id = "list_streamer_open_lives",
    tag = "lives", params(("streamer_id" = UserId, Path, description = "The streamer", example = "s1"), OnAirQuery),
    responses((status = 200, description = "A page", body = Page<OpenLiveEntry>), OnAirRefused))]
pub(crate) async fn of_streamer(
    State(state): State<Arc<AppState>>,
    InPath(streamer): InPath<UserId>,
    paging: Paging,
) -> Result<Json<Page<OpenLiveEntry>>, Problem> {
    let page = page_of(&state, View::OnAir(&streamer), Listing::OnAir, &paging).await?;
    let mut lives = Vec::with_capacity(page.items.len());
    for status in &page.items {
        if let Some((live, _)) = status.entry.id.live() {
            lives.push(live.clone());
        }
    }
    Ok(Json(Page {
        items: open_entries(&state, &lives).await?,
        cursor: page.cursor,
    }))
}
