//! The routes that show what this gateway holds in its own memory, so that audits can compare it
//! with the store. No handler here calls the store, and each holds a lock only to copy some numbers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::bounded::Within;
use super::paging::{Listing, Paging, paging_query};
use super::problem::{Problem, refusals};
use super::requests::{InPath, InQuery, in_query};
use super::state::AppState;
use crate::base::clock::millis;
use crate::base::ids::{GatewayId, LiveId, MAX_SLICES, OnlineSet, SliceId, UserId};
use crate::presence::desired_state::Standing;
use crate::presence::{Audience, Fan, SliceRef};

/// What this gateway holds in a slice.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = GatewaySlice)]
pub(crate) struct SliceHeld {
    /// Of which set it is: the viewers of a `live`, the `users` online on the platform, or the
    /// `streamers` with a socket.
    pub(crate) set: SetName,
    /// The live; null for the platform.
    #[schema(value_type = Option<LiveId>)]
    pub(crate) live_id: Option<String>,
    /// Which opening of it.
    #[schema(example = 3)]
    pub(crate) epoch: u64,
    /// Over how many slices the set is spread.
    #[schema(example = 8)]
    pub(crate) slices: u32,
    /// Which of them, from 1.
    #[schema(example = 1)]
    pub(crate) slice: u32,
    /// Whether every call to the store has been answered. If not, it is unknown what the store
    /// holds, and `members` and `fans` are null.
    pub(crate) settled: bool,
    /// How many users the store must hold for this gateway by now.
    #[schema(example = 12)]
    pub(crate) members: Option<u64>,
    /// How many of them as fans.
    #[schema(example = 3)]
    pub(crate) fans: Option<u64>,
    /// The number of the last call to the store. The store's entry of this gateway has a number
    /// too: only if both are equal can `members` and `fans` be compared.
    #[schema(example = 5_000_007)]
    pub(crate) number: Option<u64>,
    /// Users whose change the store does not know yet.
    #[schema(example = 0)]
    pub(crate) unsettled: u64,
    /// For how many milliseconds the oldest of these changes has waited; null if none waits.
    #[serde(default)]
    pub(crate) unsettled_ms: Option<u64>,
}

/// A kind of set of online users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SetName {
    /// The viewers of a live.
    Live,
    /// All users on the platform.
    Users,
    /// The streamers with a socket.
    Streamers,
}

impl From<&OnlineSet> for SetName {
    fn from(set: &OnlineSet) -> Self {
        match set {
            OnlineSet::Live(_) => Self::Live,
            OnlineSet::Users => Self::Users,
            OnlineSet::Streamers => Self::Streamers,
        }
    }
}

impl SliceHeld {
    /// The slice that this describes. `None` if the set is a live without a valid id.
    pub(crate) fn id(&self) -> Option<SliceId> {
        let set = match self.set {
            SetName::Live => OnlineSet::Live(LiveId::parse(self.live_id.as_deref()?).ok()?),
            SetName::Users => OnlineSet::Users,
            SetName::Streamers => OnlineSet::Streamers,
        };
        Some(SliceId {
            set,
            index: self.slice,
            of: self.slices,
        })
    }

    /// `None` if this gateway neither has an entry in the slice nor any changes for it.
    fn of(slice: &SliceRef) -> Option<Self> {
        let state = slice.lock();
        let is_registered = state.desired().is_registered();
        let unsettled = state.desired().unsettled() as u64;
        // A slice without an entry may have changes: a store that is full refuses even the first
        // entry.
        if !is_registered && unsettled == 0 {
            return None;
        }
        let held = if is_registered {
            state.desired().held()
        } else {
            None
        };
        let since = if unsettled > 0 {
            state.unconfirmed_since()
        } else {
            None
        };
        drop(state);
        Some(Self {
            set: (&slice.id.set).into(),
            live_id: slice.id.live().map(ToString::to_string),
            epoch: slice.epoch().0,
            slices: slice.id.of,
            slice: slice.id.index,
            settled: held.is_some(),
            members: held.map(|held| held.members),
            fans: held.map(|held| held.fans),
            number: held.map(|held| held.number),
            unsettled,
            unsettled_ms: since.map(|since| millis(since.elapsed())),
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
    /// Slices in which it has, or may have, an entry, or for which it has changes.
    pub(crate) items: Vec<SliceHeld>,
    /// Where the next page begins; null at the end.
    pub(crate) cursor: Option<String>,
}

type SliceNumber = Within<1, { MAX_SLICES as u64 }>;

/// Which slices are asked for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OnlyQuery {
    /// Only slices of this live.
    #[param(value_type = Option<LiveId>)]
    live_id: Option<String>,
    /// Only slices of such sets.
    set: Option<SetName>,
    /// Only slices with this number, from 1.
    #[param(inline)]
    slice: Option<SliceNumber>,
}

paging_query!(HeldQuery = Held);
refusals!(Refused = InvalidId, StoreUnavailable);

/// List what this gateway holds
///
/// From its own memory, not from the store: for comparing the two.
#[utoipa::path(get, path = "/v1/gateway/slices", operation_id = "list_gateway_slices", tag = "operations",
    params(HeldQuery, OnlyQuery),
    responses((status = 200, description = "A page", body = SlicesHeld), Refused))]
pub(crate) async fn slices(
    State(state): State<Arc<AppState>>,
    InQuery(only): InQuery<OnlyQuery>,
    paging: Paging,
) -> Result<Json<SlicesHeld>, Problem> {
    let after = paging.position(resume)?;
    let audiences = match &only.live_id {
        Some(live) => {
            let live = in_query("live_id", LiveId::parse(live))?;
            match state.core.rooms.get(&live) {
                Some(room) => vec![Audience::Room(room)],
                None => Vec::new(),
            }
        }
        None => state.core.rooms.audiences(),
    };
    let mut slices = Vec::new();
    for audience in &audiences {
        for slice in audience.slices() {
            let place = HeldPlace::of(&slice.id);
            let is_on_later_page = match &after {
                Some(after) => place > *after,
                None => true,
            };
            if is_on_later_page && only.selects(&slice.id) {
                slices.push(slice);
            }
        }
    }
    slices.sort_by_cached_key(|slice| HeldPlace::of(&slice.id));
    let mut items = Vec::new();
    let mut last_slice = None;
    let mut has_more = false;
    for slice in &slices {
        let Some(held) = SliceHeld::of(slice) else {
            continue;
        };
        if items.len() == paging.limit {
            has_more = true;
            break;
        }
        items.push(held);
        last_slice = Some(&slice.id);
    }
    let cursor = match last_slice {
        Some(last) if has_more => Some(HeldPlace::of(last).cursor()),
        _ => None,
    };
    Ok(Json(SlicesHeld {
        gateway_id: state.core.gateways.id().to_string(),
        items,
        cursor,
    }))
}

impl OnlyQuery {
    /// Whether the query selects a slice, apart from its live.
    fn selects(&self, slice: &SliceId) -> bool {
        if let Some(index) = self.slice
            && index.0 != u64::from(slice.index)
        {
            return false;
        }
        match self.set {
            Some(set) => set == SetName::from(&slice.set),
            None => true,
        }
    }
}

/// The position of a slice in the listing, which sorts slices by it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HeldPlace {
    set: SetName,
    live: Option<LiveId>,
    index: u32,
}

impl HeldPlace {
    fn of(slice: &SliceId) -> Self {
        Self {
            set: (&slice.set).into(),
            live: slice.live().cloned(),
            index: slice.index,
        }
    }

    fn cursor(&self) -> String {
        let live = self.live.as_ref().map_or("", LiveId::as_str);
        Listing::Held.cursor(&[&(self.set as u32), &live, &self.index])
    }
}

fn resume(cursor: &str) -> Result<HeldPlace, Problem> {
    Listing::Held.resume(cursor, |[set, live, slice]| {
        let set = [SetName::Live, SetName::Users, SetName::Streamers]
            .into_iter()
            .nth(set.parse().ok()?)?;
        let live = match set {
            SetName::Live => Some(LiveId::parse(live).ok()?),
            SetName::Users | SetName::Streamers if live.is_empty() => None,
            SetName::Users | SetName::Streamers => return None,
        };
        Some(HeldPlace {
            set,
            live,
            index: slice.parse().ok()?,
        })
    })
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
    /// Whether any of them counts (`count=false` and `invisible=true` ones do not).
    pub counted: bool,
    /// The last answer of the fan check; null before the first.
    pub fan: Option<bool>,
    /// For how long the gateway has heard none of these sockets.
    #[schema(example = 350)]
    pub silent_ms: Option<u64>,
    /// Whether the store must hold the user as a fan for this gateway.
    pub wanted: bool,
}

fn read_gateway<'de, D: serde::Deserializer<'de>>(from: D) -> Result<GatewayId, D::Error> {
    let name = String::deserialize(from)?;
    GatewayId::parse(&name).map_err(serde::de::Error::custom)
}

/// What this gateway knows of a user in a live
///
/// From its own memory, not from the store.
#[utoipa::path(get, path = "/v1/gateway/lives/{live_id}/viewers/{user_id}", operation_id = "get_gateway_viewer",
    tag = "operations",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        ("user_id" = UserId, Path, description = "The user", example = "u1"),
    ),
    responses((status = 200, description = "What it knows, which may be nothing", body = ViewerKnown), Refused))]
pub(crate) async fn viewer(
    State(state): State<Arc<AppState>>,
    InPath((live, user)): InPath<(LiveId, UserId)>,
) -> Json<ViewerKnown> {
    let mut known = ViewerKnown {
        gateway_id: state.core.gateways.id(),
        live_here: false,
        joined: false,
        sockets: 0,
        counted: false,
        fan: None,
        silent_ms: None,
        wanted: false,
    };
    let Some(room) = state.core.rooms.get(&live) else {
        return Json(known);
    };
    known.live_here = true;
    let slice = Audience::from(&room).slice_of(&user);
    let standing = slice.lock().desired().standing(&user);
    known.wanted = standing == Standing::Fan;
    if let Some(seat) = room.seats.view(&user) {
        known.joined = true;
        known.sockets = seat.sockets as u64;
        known.counted = seat.counted;
        known.fan = match seat.fan {
            Fan::Unknown => None,
            Fan::No => Some(false),
            Fan::Yes => Some(true),
        };
        known.silent_ms = Some(state.core.clock.now().since(seat.last_heard));
    }
    Json(known)
}
