//! The layers around every handler: a deadline, protection from panics, the count of answers, common
//! headers, and the request's id, which every log line of the request contains. [`super::sharing`]
//! lies between the two layers, so that it sees every answer.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::Instrument;
use tracing::field::Empty;

use super::browsers;
use super::problem::{Problem, ProblemKind};
use super::request_id::{HttpRequestId, REQUEST_ID};
use super::state::AppState;
use crate::base::metrics::{HttpAnswerLabels, HttpCall};
use crate::base::telemetry;

/// The longest time from the end of a request's head to its answer, including the arrival of the
/// body. It is generous: it only keeps a body that trickles in from holding a handler for ever. The
/// store has its own, much shorter deadlines.
pub(crate) const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// The label of unknown paths: a client must not be able to make up labels.
const UNKNOWN_ROUTE: &str = "none";

/// The label of methods that HTTP does not have, for the same reason.
const OTHER_METHOD: &str = "other";

/// The inner layer: it answers in time, whatever the handler does.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let route = route(&request);
    let handler = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(REQUEST_DEADLINE, handler).await {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => {
            tracing::error!(route, panic = message(panic.as_ref()), "a handler panicked");
            Problem::new(
                ProblemKind::Internal,
                "a bug in the gateway; its log says more",
            )
            .into_response()
        }
        Err(_) => too_late(),
    }
}

/// The answer to a request that was not complete at its deadline.
pub(crate) fn too_late() -> Response {
    let detail = format!("not complete within {} s", REQUEST_DEADLINE.as_secs());
    Problem::new(ProblemKind::Timeout, detail).into_response()
}

/// The outer layer: it counts every answer, and adds the headers that all answers have. Its span has
/// the highest level, so that log lines of every level have the id of their request.
pub(crate) async fn finish(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let route = route(&request);
    let scheme = browsers::scheme(request.extensions());
    let id = HttpRequestId::of(request.headers());
    let method = request.method().clone();
    let began = state.core.clock.now();
    let span = tracing::error_span!(
        "request", request_id = %id, %method, route, otel.name = Empty, otel.kind = Empty, status = Empty
    );
    telemetry::continue_trace(&span, &method, &route, request.headers());
    let mut request = request;
    // For the audit trail.
    request.extensions_mut().insert(id.clone());
    let mut response = next.run(request).instrument(span.clone()).await;
    let status = response.status().as_u16();
    span.record("status", status);
    span.in_scope(|| {
        tracing::debug!(
            status,
            ms = state.core.clock.now().since(began),
            "request answered"
        )
    });
    Problem::name_request(&mut response, &method, &id);
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.header());
    browsers::harden(headers, scheme);
    // Presence is of this moment: no proxy may cache it.
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    let method = method_label(&method);
    let took = state.core.clock.now().since(began);
    let call = HttpCall {
        route: route.clone(),
        method,
    };
    state
        .core
        .metrics
        .http_seconds
        .get_or_create(&call)
        .observe(took as f64 / 1_000.0);
    state
        .core
        .metrics
        .http_answers
        .get_or_create(&HttpAnswerLabels {
            route,
            method,
            status,
        })
        .inc();
    response
}

fn method_label(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"];
    KNOWN
        .into_iter()
        .find(|known| method.as_str() == *known)
        .unwrap_or(OTHER_METHOD)
}

fn route(request: &Request) -> String {
    match request.extensions().get::<MatchedPath>() {
        Some(path) => path.as_str().to_owned(),
        None => UNKNOWN_ROUTE.to_owned(),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}
