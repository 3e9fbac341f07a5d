//! The routes that show what this gateway holds in its own memory, so that audits can compare it with the store. No
//! handler here asks the store, and each holds a lock only to copy some numbers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::Uri;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::paging::{Listing, Paging, paging_query};
use super::problem::{Kind, Problem, refusals};
use super::requests::InPath;
use super::state::AppState;
use crate::base::ids::{GatewayId, LiveId, MAX_SLICES, UserId};
use crate::presence::{Fan, Room, Slice};

/// What this gateway holds in a slice.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = GatewaySlice)]
pub(crate) struct SliceHeld {
    /// The live.
    #[schema(example = "42")]
    pub(crate) live_id: String,
    /// Which opening of it.
    #[schema(example = 3)]
    pub(crate) epoch: u64,
    /// Over how many slices its fans are spread.
    #[schema(example = 8)]
    pub(crate) slices: u32,
    /// Which of them, from 1.
    #[schema(example = 1)]
    pub(crate) slice: u32,
    /// Whether every call to the store has been answered. If not, it is unknown what the store holds, and `members` and
    /// `digest` are null.
    pub(crate) settled: bool,
    /// How many fans the store must hold for this gateway by now.
    #[schema(example = 12)]
    pub(crate) members: Option<u64>,
    /// The sum of `xxh3_64` of their ids, modulo 2^64, in 16 hexadecimal digits.
    #[schema(example = "9dc0c0a7b1f2e3d4")]
    pub(crate) digest: Option<String>,
    /// The number of the last call to the store. The store's entry of this gateway has a number too: only if both
    /// are equal can `members` and `digest` be compared.
    #[schema(example = 5_000_007)]
    pub(crate) number: Option<u64>,
    /// Fans whose change the store does not know yet.
    #[schema(example = 0)]
    pub(crate) unsettled: u64,
}

impl SliceHeld {
    fn of(room: &Room, slice: &Slice) -> Option<Self> {
        let state = slice.lock();
        if !state.desired().is_registered() {
            return None;
        }
        let (held, unsettled) = (state.desired().held(), state.desired().unsettled() as u64);
        drop(state);
        Some(Self {
            live_id: room.record.live.to_string(),
            epoch: room.record.epoch.0,
            slices: slice.id.of,
            slice: slice.id.index,
            settled: held.is_some(),
            members: held.map(|held| held.members),
            digest: held.map(|held| format!("{:016x}", held.digest)),
            number: held.map(|held| held.number),
            unsettled,
        })
    }
}

/// A page of what this gateway holds.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = GatewaySlices)]
pub(crate) struct SlicesHeld {
    /// The gateway that answers.
    #[schema(example = "gw-nlv76ootsqk3vjsq")]
    pub(crate) gateway_id: String,
    /// Slices in which it has, or may have, an entry.
    pub(crate) items: Vec<SliceHeld>,
    /// Where the next page begins; null at the end.
    pub(crate) cursor: Option<String>,
}

/// Which slices are asked for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct OnlyQuery {
    /// Only slices of this live.
    #[param(value_type = Option<LiveId>)]
    live_id: Option<String>,
    /// Only this slice of it, from 1.
    #[param(minimum = 1, maximum = 256)]
    slice: Option<u32>,
}

paging_query!(HeldQuery = Held);
refusals!(SlicesRefused = InvalidId, InvalidCursor, InvalidLimit, InvalidQuery, StoreUnavailable);

/// List what this gateway holds
///
/// From its own memory, not from the store: for comparing the two.
#[utoipa::path(get, path = "/v1/gateway/slices", operation_id = "list_gateway_slices", tag = "operations",
    params(HeldQuery, OnlyQuery),
    responses((status = 200, description = "A page", body = SlicesHeld), SlicesRefused))]
pub(super) async fn slices(
    State(state): State<Arc<AppState>>,
    uri: Uri,
    paging: Paging,
) -> Result<Json<SlicesHeld>, Problem> {
    let Query(only) =
        Query::<OnlyQuery>::try_from_uri(&uri).map_err(|error| Problem::new(Kind::InvalidQuery, error.body_text()))?;
    if only.slice.is_some_and(|slice| !(1..=MAX_SLICES).contains(&slice)) {
        return Err(Problem::new(Kind::InvalidQuery, format!("slice is a number from 1 to {MAX_SLICES}")));
    }
    let after = paging.cursor.as_deref().map(resume).transpose()?;
    let mut rooms = match only.live_id {
        Some(live) => state.rooms.get(&LiveId::parse(&live)?).into_iter().collect(),
        None => state.rooms.all(),
    };
    rooms.sort_by(|a, b| a.record.live.cmp(&b.record.live));
    let slices = rooms.iter().flat_map(|room| room.slices().iter().map(move |slice| (room, slice)));
    let is_asked = |room: &Room, slice: &Slice| {
        only.slice.is_none_or(|index| index == slice.id.index)
            && after.as_ref().is_none_or(|(live, index)| (&room.record.live, slice.id.index) > (live, *index))
    };
    let mut items =
        slices.filter(|(room, slice)| is_asked(room, slice)).filter_map(|(room, slice)| SliceHeld::of(room, slice));
    let page: Vec<SliceHeld> = items.by_ref().take(paging.limit).collect();
    let more = items.next().is_some();
    let cursor = page.last().filter(|_| more).map(|last| Listing::Held.cursor(&[&last.live_id, &last.slice]));
    Ok(Json(SlicesHeld { gateway_id: state.gateways.id().to_string(), items: page, cursor }))
}

fn resume(cursor: &str) -> Result<(LiveId, u32), Problem> {
    Listing::Held.resume(cursor, |[live, slice]| Some((LiveId::parse(live).ok()?, slice.parse().ok()?)))
}

/// What this gateway knows of a user in a live.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = GatewayViewer)]
pub struct ViewerKnown {
    /// The gateway that answers.
    #[schema(value_type = String, example = "gw-nlv76ootsqk3vjsq")]
    #[serde(deserialize_with = "read_gateway")]
    pub gateway_id: GatewayId,
    /// Whether this gateway has the live open at all.
    pub live_here: bool,
    /// Whether the user has joined it here.
    pub joined: bool,
    /// Sockets of the user in the live, here.
    #[schema(example = 1)]
    pub sockets: u64,
    /// Whether any of them counts (`count=false` ones do not).
    pub counted: bool,
    /// The last answer of the fan check; null before the first.
    pub fan: Option<bool>,
    /// Milliseconds since the gateway last heard any of these sockets.
    #[schema(example = 350)]
    pub heard_ms_ago: Option<u64>,
    /// Whether the store must hold the user for this gateway.
    pub wanted: bool,
}

fn read_gateway<'de, D: serde::Deserializer<'de>>(from: D) -> Result<GatewayId, D::Error> {
    let name = String::deserialize(from)?;
    GatewayId::parse(&name).map_err(serde::de::Error::custom)
}

refusals!(ViewerRefused = InvalidId, StoreUnavailable);

/// What this gateway knows of a user in a live
///
/// From its own memory, not from the store.
#[utoipa::path(get, path = "/v1/gateway/lives/{live_id}/viewers/{user_id}", operation_id = "get_gateway_viewer",
    tag = "operations",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        ("user_id" = UserId, Path, description = "The user", example = "u1"),
    ),
    responses((status = 200, description = "What it knows, which may be nothing", body = ViewerKnown), ViewerRefused))]
pub(super) async fn viewer(
    State(state): State<Arc<AppState>>,
    InPath((live, user)): InPath<(LiveId, UserId)>,
) -> Json<ViewerKnown> {
    let room = state.rooms.get(&live);
    let (seat, wanted) = match &room {
        Some(room) => {
            let state = room.slice_of(&user).1.lock();
            (state.seat(&user), state.desired().contains(&user))
        }
        None => (None, false),
    };
    Json(ViewerKnown {
        gateway_id: state.gateways.id(),
        live_here: room.is_some(),
        joined: seat.is_some(),
        sockets: seat.map_or(0, |seat| seat.sockets as u64),
        counted: seat.is_some_and(|seat| seat.counted),
        fan: seat.and_then(|seat| match seat.fan {
            Fan::Unknown => None,
            Fan::No => Some(false),
            Fan::Yes => Some(true),
        }),
        heard_ms_ago: seat.map(|seat| state.clock.now().saturating_sub(seat.last_heard)),
        wanted,
    })
}
