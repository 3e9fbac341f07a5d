//! The routes for orchestrators and monitoring: liveness, readiness, metrics.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::problem::{Problem, ProblemKind, refusals};
use super::requests::InQuery;
use super::state::AppState;
use crate::base::ids::GatewayId;
use crate::base::metrics::TextFormat;
use crate::presence::gauges;
use crate::presence::own_lease::LeaseState;
use crate::store::Health;

/// A running process.
#[derive(Serialize, ToSchema)]
#[schema(as = Alive)]
pub(crate) struct Alive {
    /// Always `ok`: a process that does not run does not answer.
    #[schema(example = "ok")]
    status: &'static str,
    /// The program's version.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// This process; new at every start.
    #[schema(value_type = String, example = "gw-abcdefghijklmnop")]
    gateway_id: GatewayId,
    /// Where lives and fans are kept: `redis`, or `memory`, which no other process shares.
    #[schema(example = "redis")]
    store: &'static str,
}

/// Whether to send clients here.
#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct Readiness {
    /// True with 200, false with 503.
    ready: bool,
    /// What is wrong: `store_unavailable`, `no_lease`, `rules_unknown`, `draining`. Empty when ready, unless the
    /// store is ignored.
    #[schema(example = json!(["draining"]))]
    wrong: Vec<&'static str>,
    /// This process.
    #[schema(value_type = String, example = "gw-abcdefghijklmnop")]
    gateway_id: GatewayId,
}

refusals!(Refused = Internal);

/// Whether the process runs
///
/// The store does not matter here: a gateway that has lost it still holds its sockets, and must not
/// be restarted.
#[utoipa::path(get, path = "/healthz", operation_id = "healthz", tag = "operations",
    responses((status = 200, description = "It runs", body = Alive), Refused))]
pub(crate) async fn healthz(State(state): State<Arc<AppState>>) -> Json<Alive> {
    Json(Alive {
        status: "ok",
        version: env!("CARGO_PKG_VERSION"),
        gateway_id: state.core.gateways.id(),
        store: state.core.store.kind(),
    })
}

/// What does not matter to the caller.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReadyQuery {
    /// `ignore`: a gateway that has had a lease and does not drain is ready, whatever the store
    /// does. For orchestrators: an outage of the store that all gateways share must not take all of
    /// them out at once.
    #[param(inline)]
    store: Option<StoreMatters>,
}

#[derive(Deserialize, ToSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
enum StoreMatters {
    Ignore,
}

/// Whether to send clients here
///
/// By itself it asks the store, too, for balancers in front of gateways of which each may lose the
/// store alone.
#[utoipa::path(get, path = "/readyz", operation_id = "readyz", tag = "operations", params(ReadyQuery),
    responses(
        (status = 200, body = Readiness,
            description = "The store answers, the gateway's first lease is not late, and no drain has begun"),
        (status = 503, description = "Not ready; `wrong` names why", body = Readiness),
        Refused,
    ))]
pub(crate) async fn readyz(
    State(state): State<Arc<AppState>>,
    InQuery(query): InQuery<ReadyQuery>,
) -> Result<Response, Problem> {
    let lease = state.core.gateways.own.state(state.core.clock.now());
    let mut wrong = Vec::new();
    if *state.core.store.health().borrow() == Health::Down {
        wrong.push(ProblemKind::StoreUnavailable.code());
    }
    if matches!(lease, LeaseState::NoneUnderThisId | LeaseState::NeverAny) {
        wrong.push("no_lease");
    }
    if !state.core.rules.are_known() {
        wrong.push("rules_unknown");
    }
    let draining = state.sessions.is_draining();
    if draining {
        wrong.push(ProblemKind::Draining.code());
    }
    let ready = match query.store {
        None => wrong.is_empty(),
        // A gateway that never gets its first lease may have wrong settings. An orchestrator must
        // not roll these settings out any further.
        Some(StoreMatters::Ignore) => {
            !draining && lease != LeaseState::NeverAny && state.core.rules.are_known()
        }
    };
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let readiness = Readiness {
        ready,
        wrong,
        gateway_id: state.core.gateways.id(),
    };
    Ok((status, Json(readiness)).into_response())
}

/// Metrics, for Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "operations",
    responses(
        (status = 200, description = "In the text format of Prometheus, or as OpenMetrics where `Accept` asks for it",
            content((String = "text/plain"), (String = "application/openmetrics-text"))),
        Refused,
    ))]
pub(crate) async fn metrics(
    State(state): State<Arc<AppState>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let accept = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|line| line.to_str().ok());
    let format = TextFormat::asked_for(accept);
    gauges::update_gauges(
        &state.core.rooms,
        &state.core.gateways,
        &state.core.metrics,
        state.core.clock.now(),
    );
    let text = state
        .core
        .metrics
        .render_as(format)
        .map_err(|error| Problem::new(ProblemKind::Internal, error.to_string()))?;
    let headers = [
        (header::CONTENT_TYPE, format.content_type()),
        (header::VARY, "accept"),
    ];
    Ok((headers, text).into_response())
}
