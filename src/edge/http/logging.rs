//! The routes of this gateway's log: show its filter, and change it.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::{ObjectBuilder, Schema, Type};

use super::bounded::Within;
use super::problem::{Problem, ProblemKind, refusals};
use super::requests::JsonObject;
use super::state::AppState;
use crate::base::ids::GatewayId;
use crate::base::telemetry::{self, Log, Logged};
use crate::edge::fields::FieldPlace;

/// The longest filter, in bytes.
const MAX_FILTER: usize = 1_024;

/// The longest time for which a caller can set a filter, in seconds: a day.
const MAX_FOR: u64 = 86_400;

type Seconds = Within<1, MAX_FOR>;

/// What to log.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"filter": "info,rollcall::sync=debug", "for_s": 600}))]
pub(crate) struct ChangeLog {
    #[schema(schema_with = filter_schema)]
    filter: String,
    /// After how many seconds the filter of the start comes back by itself. Null or left out: with
    /// the next change, or the next start.
    #[schema(inline)]
    for_s: Option<Seconds>,
}

fn filter_schema() -> Schema {
    let description = "As in the setting `log`: a level, or a list with commas of levels and of `target=level`, \
                       `[span]=level`, `target[span{field=value}]=level`";
    ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(MAX_FILTER))
        .description(Some(description))
        .pattern(Some(telemetry::filter_pattern()))
        .into()
}

/// What a gateway logs.
#[derive(Serialize, ToSchema)]
#[schema(as = GatewayLog)]
pub(crate) struct LogState {
    /// The gateway that answers.
    #[schema(value_type = String, example = "gw-nlv76ootsqk3vjsq")]
    gateway_id: GatewayId,
    /// The filter of now.
    #[schema(example = "info,rollcall::sync=debug")]
    filter: String,
    /// The filter of the start.
    #[schema(example = "info")]
    filter_at_start: String,
    /// In how many seconds the filter of the start comes back by itself; null if it does not.
    #[schema(example = 600)]
    for_s: Option<u64>,
}

impl LogState {
    fn of(state: &AppState) -> Json<Self> {
        let Logged {
            filter,
            at_start,
            left,
        } = Log::of_process().now();
        let for_s = left.map(|left| left.as_secs_f64().ceil() as u64);
        Json(Self {
            gateway_id: state.core.gateways.id(),
            filter,
            filter_at_start: at_start,
            for_s,
        })
    }
}

refusals!(ShowRefused = StoreUnavailable);

/// What this gateway logs
#[utoipa::path(get, path = "/v1/gateway/log", operation_id = "get_gateway_log", tag = "operations",
    responses((status = 200, description = "The filter of now", body = LogState), ShowRefused))]
pub(crate) async fn show(State(state): State<Arc<AppState>>) -> Json<LogState> {
    LogState::of(&state)
}

refusals!(ChangeRefused = InvalidFilter, StoreUnavailable);

/// Change what this gateway logs
///
/// At once, and on this gateway only. A gateway that starts again logs what its setting `log` says.
#[utoipa::path(put, path = "/v1/gateway/log", operation_id = "change_gateway_log", tag = "operations",
    request_body(content = ChangeLog, content_type = "application/json"),
    responses((status = 200, description = "From now on", body = LogState), ChangeRefused))]
pub(crate) async fn change(
    State(state): State<Arc<AppState>>,
    JsonObject(wish): JsonObject<ChangeLog>,
) -> Result<Json<LogState>, Problem> {
    if !(1..=MAX_FILTER).contains(&wish.filter.len()) {
        return Err(invalid_filter(format!("must have 1 to {MAX_FILTER} bytes")));
    }
    let time = wish.for_s.map(|seconds| Duration::from_secs(seconds.0));
    Log::of_process()
        .change(&wish.filter, time)
        .map_err(|why| invalid_filter(why.to_string()))?;
    Ok(LogState::of(&state))
}

fn invalid_filter(why: String) -> Problem {
    Problem::new(ProblemKind::InvalidFilter, why).at(FieldPlace::field("filter"))
}
