//! Notes who changed what over the HTTP API: a layer that `routes` puts around the routes of those
//! actions that `auth/permissions.rs` has audited. Reads and refused calls make no event. A call that
//! failed within the gateway does, because it may have changed something.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, Query, RawPathParams, Request, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::idempotency;
use super::middleware::{REQUEST_DEADLINE, too_late};
use super::request_id::HttpRequestId;
use super::requests::run_to_completion;
use super::state::AppState;
use crate::base::actor::Actor;
use crate::base::event_kind::EventKind;
use crate::store::About;

/// Who called, if the gateway asks for no credentials.
const ANYBODY: &str = "anybody";

pub(crate) async fn record(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let trail = match &state.audit {
        Some(trail) if !request.method().is_safe() => trail.clone(),
        _ => return next.run(request).await,
    };
    let (mut parts, body) = request.into_parts();
    let mut fields = fields(&parts);
    let mut target = target(&mut parts).await;
    let about = match parts.extensions.get::<Actor>() {
        Some(actor) => About::Caller(actor.to_string()),
        None => About::Caller(ANYBODY.to_owned()),
    };
    // Who hangs up, or has no answer in time, may have changed something all the same.
    run_to_completion(async move {
        let handler = next.run(Request::from_parts(parts, body));
        let response = match tokio::time::timeout(REQUEST_DEADLINE, handler).await {
            Ok(response) => response,
            Err(_) => too_late(),
        };
        if is_told(&response) {
            if let Some(user) = made(&response, "/v1/users/") {
                target.insert("user_id".to_owned(), json!(user));
            }
            // The trail keeps no id of a user who is erased, but which erasure it was.
            if let Some(erasure) = made(&response, "/v1/erasures/") {
                target.remove("user_id");
                target.insert("erasure_id".to_owned(), json!(erasure));
            }
            fields.insert("target".to_owned(), Value::Object(target));
            fields.insert("status".to_owned(), json!(response.status().as_u16()));
            trail.add(EventKind::AuditRecorded, about, fields);
        }
        response
    })
    .await
}

/// Whether this answer says that something was changed, or may have been. An answer that an earlier
/// request had already says nothing new.
fn is_told(response: &Response) -> bool {
    let status = response.status();
    let is_open = status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT;
    (status.is_success() || is_open) && !idempotency::is_replayed(response)
}

/// The id of what the request made under this path.
fn made<'a>(response: &'a Response, path: &str) -> Option<&'a str> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    location.strip_prefix(path)
}

/// What the event says of the request, without its target.
fn fields(parts: &Parts) -> Map<String, Value> {
    let mut fields = Map::new();
    let by = parts.extensions.get::<Actor>();
    fields.insert("by".to_owned(), json!(by));
    if let Some(path) = parts.extensions.get::<MatchedPath>() {
        let action = format!("{} {}", parts.method, path.as_str());
        fields.insert("action".to_owned(), json!(action));
    }
    if let Some(id) = parts.extensions.get::<HttpRequestId>() {
        fields.insert("request_id".to_owned(), json!(id.as_str()));
    }
    fields
}

/// What was to be changed: the ids of the path, and the parameters of the query.
async fn target(parts: &mut Parts) -> Map<String, Value> {
    let mut target = Map::new();
    if let Ok(Query(asked)) = Query::<BTreeMap<String, Value>>::try_from_uri(&parts.uri) {
        target.extend(asked);
    }
    if let Ok(params) = RawPathParams::from_request_parts(parts, &()).await {
        for (name, value) in &params {
            target.insert(name.to_owned(), json!(value));
        }
    }
    target
}
