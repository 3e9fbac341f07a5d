//! The route that shows how the viewers of a live spread.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::counting::{ShapeCounter, WholeShape};
use crate::auth::permissions::Action;
use crate::base::ids::{GatewayId, LiveId};
use crate::edge::http::bounded::Within;
use crate::edge::http::problem::{Problem, refusals};
use crate::edge::http::requests::{InPath, InQuery};
use crate::edge::http::routes::Routes;
use crate::edge::http::state::AppState;
use crate::presence::shape::{ID_AGES, MINUTES, MOST_NETWORKS};
use crate::store::LiveRecord;
use crate::sync::lives::known_record;

/// How many networks are shown if the query does not say.
const NETWORKS_SHOWN: usize = 20;

type NetworkLimit = Within<1, { MOST_NETWORKS as u64 }>;

/// How much is asked for.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ShapeQuery {
    /// How many networks to show at most, 20 by default.
    #[param(inline)]
    limit: Option<NetworkLimit>,
}

/// A network, and how many viewers are in it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NetworkShare {
    /// The name of the network. It is the same as long as the live is open, on every gateway, and
    /// means nothing elsewhere.
    #[schema(example = "q0tkVmX1tDc")]
    network: String,
    /// How many viewers.
    #[schema(example = 812)]
    viewers: u64,
}

/// By which way viewers keep their seats.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WayShares {
    /// By a WebSocket.
    #[schema(example = 900)]
    websocket: u64,
    /// By beats over HTTP, or an open stream of events.
    #[schema(example = 90)]
    http: u64,
    /// By datagrams.
    #[schema(example = 10)]
    datagram: u64,
}

/// How many viewers have ids of some age.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct IdAgeShare {
    /// Younger than so many seconds, and not younger than those before say; null: older.
    #[schema(example = 3_600)]
    below_s: Option<u64>,
    /// How many viewers.
    #[schema(example = 700)]
    viewers: u64,
}

/// How the viewers who are in a live now spread. Everybody counts once on each gateway, with the newest
/// connection.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LiveShape)]
pub(crate) struct ShapeShown {
    /// The live.
    live_id: LiveId,
    /// Which opening of it.
    #[schema(example = 3)]
    epoch: u64,
    /// How many viewers the gateways have that answered.
    #[schema(example = 1_000)]
    viewers: u64,
    /// The guests among them.
    #[schema(example = 200)]
    guests: u64,
    /// The networks with most viewers, those with more first. A network is the first 24 bits of an
    /// IPv4 address, or the first 48 of an IPv6 address.
    networks: Vec<NetworkShare>,
    /// In how many networks viewers are: exactly, or at least.
    #[schema(example = 143)]
    networks_total: u64,
    /// Whether `networks_total` and the viewers of each network are exact. A gateway tells of its
    /// 1,000 largest networks.
    networks_exact: bool,
    ways: WayShares,
    /// How old the ids of viewers are: the youngest first.
    id_ages: Vec<IdAgeShare>,
    /// Viewers of whose ids the gateways do not know when they were made.
    #[schema(example = 0)]
    id_ages_unknown: u64,
    /// How many joined in each of the last 60 minutes: the present one first.
    joined_by_minute: Vec<u64>,
    /// How many came before.
    #[schema(example = 100)]
    joined_before: u64,
    /// The gateways that answered.
    #[schema(value_type = Vec<String>)]
    gateways: Vec<GatewayId>,
    /// The gateways that are there and did not answer within a second. Their viewers are missing.
    #[schema(value_type = Vec<String>)]
    gateways_silent: Vec<GatewayId>,
}

impl ShapeShown {
    fn of(record: &LiveRecord, whole: WholeShape, limit: usize) -> Self {
        let (networks_total, networks_exact) = whole.all_networks();
        let WholeShape {
            sums,
            networks,
            mut answered,
            silent,
            ..
        } = whole;
        let mut networks: Vec<(u64, u64)> = networks.into_iter().collect();
        networks.sort_unstable_by_key(|(name, viewers)| (u64::MAX - viewers, *name));
        networks.truncate(limit);
        let networks = networks
            .into_iter()
            .map(|(name, viewers)| NetworkShare {
                network: BASE64URL_NOPAD.encode(&name.to_be_bytes()),
                viewers,
            })
            .collect();
        let limits = ID_AGES.iter().copied().map(Some).chain([None]);
        let id_ages = limits
            .zip(sums.id_ages)
            .map(|(below_s, viewers)| IdAgeShare { below_s, viewers })
            .collect();
        let [websocket, http, datagram] = sums.ways;
        answered.sort_unstable();
        Self {
            live_id: record.live.clone(),
            epoch: record.epoch.0,
            viewers: sums.viewers,
            guests: sums.guests,
            networks,
            networks_total,
            networks_exact,
            ways: WayShares {
                websocket,
                http,
                datagram,
            },
            id_ages,
            id_ages_unknown: sums.id_ages[ID_AGES.len() + 1],
            joined_by_minute: sums.joined[..MINUTES].to_vec(),
            joined_before: sums.joined[MINUTES],
            gateways: answered,
            gateways_silent: silent.into_iter().collect(),
        }
    }
}

refusals!(ShapeRefused = InvalidId, LiveNotFound, StoreUnavailable);

/// See how the viewers of a live spread
///
/// Over networks, ways, ages of ids and times of joining, as all gateways know this moment. It shows
/// no addresses and judges nobody.
#[utoipa::path(get, path = "/v1/lives/{live_id}/shape", operation_id = "get_live_shape", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42"), ShapeQuery),
    responses((status = 200, description = "How they spread", body = ShapeShown), ShapeRefused))]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    InQuery(query): InQuery<ShapeQuery>,
) -> Result<Json<ShapeShown>, Problem> {
    let store = state.core.store_for_clients.as_ref();
    let record = known_record(store, &state.core.rooms, &live).await?;
    let limit = query.limit.map_or(NETWORKS_SHOWN, |limit| limit.0 as usize);
    let whole = ShapeCounter::of(&state)
        .everywhere(&record.live_epoch())
        .await;
    Ok(Json(ShapeShown::of(&record, whole, limit)))
}

/// Adds the route of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes.only_for(Action::ReadShape, routes!(show))
}
