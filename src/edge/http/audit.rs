//! Notes who changed what over the HTTP API: a layer that `routes` puts around the routes of those
//! actions that `auth/permissions.rs` has audited. Reads and refused calls make no event.

use std::sync::Arc;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::request_id::HttpRequestId;
use super::state::AppState;
use crate::base::actor::Actor;
use crate::base::event_kind::EventKind;
use crate::store::About;

/// Who called, if the gateway asks for no credentials.
const ANYBODY: &str = "anybody";

pub(super) async fn record(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let trail = match &state.audit {
        Some(trail) if !request.method().is_safe() => trail.clone(),
        _ => return next.run(request).await,
    };
    let (mut parts, body) = request.into_parts();
    let mut fields = fields(&mut parts).await;
    let about = match parts.extensions.get::<Actor>() {
        Some(actor) => About::Caller(actor.to_string()),
        None => About::Caller(ANYBODY.to_owned()),
    };
    let response = next.run(Request::from_parts(parts, body)).await;
    if response.status().is_success() {
        fields.insert("status".to_owned(), json!(response.status().as_u16()));
        trail.add(EventKind::AuditRecorded, about, fields);
    }
    response
}

/// What the event says of the request.
async fn fields(parts: &mut Parts) -> Map<String, Value> {
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
    let mut target = Map::new();
    if let Ok(params) = RawPathParams::from_request_parts(parts, &()).await {
        for (name, value) in &params {
            target.insert(name.to_owned(), json!(value));
        }
    }
    fields.insert("target".to_owned(), Value::Object(target));
    fields
}
