//! Owns what happens around every handler: a deadline, panics caught, the answer counted, headers that all answers have.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;

use super::Edge;
use super::problem::{Kind, Problem};
use crate::metrics::HttpAnswer;

/// From the end of a request's head to its answer, the body's arrival included. Generous: it exists so that a body that
/// trickles in cannot hold a handler for ever; the store has its own, much shorter deadlines.
pub(super) const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

/// The route under which answers to unknown paths are counted: what was asked for must not become a label.
const UNKNOWN_ROUTE: &str = "none";

/// The middleware.
pub(super) async fn around(State(edge): State<Edge>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or(UNKNOWN_ROUTE, MatchedPath::as_str).to_owned();
    let handler = AssertUnwindSafe(next.run(request)).catch_unwind();
    let mut response = match tokio::time::timeout(REQUEST_DEADLINE, handler).await {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => {
            tracing::error!(route, panic = words(panic.as_ref()), "a handler panicked");
            Problem::new(Kind::Internal, "a bug; the logs have more").into_response()
        }
        Err(_) => {
            let detail = format!("not complete within {} s", REQUEST_DEADLINE.as_secs());
            Problem::new(Kind::Timeout, detail).into_response()
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Presence is of this moment; no proxy may answer from memory.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let answer = HttpAnswer { route, status: response.status().as_u16() };
    edge.core.metrics.http_answers.get_or_create(&answer).inc();
    response
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no words)")
}
