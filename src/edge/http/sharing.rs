//! A layer around every handler. It refuses hosts that the gateway does not serve, and lets pages of
//! allowed origins read answers (CORS).
//!
//! A page of another origin cannot read an answer of `/v1`, nor change anything, nor import the
//! client. No answer allows the browser's own credentials (cookies), because the gateway does not
//! use them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::bill;
use super::browsers::{Browsers, RequestOrigin, forbidden, scheme};
use super::pages::CLIENT;
use super::state::AppState;
use super::upgrade::ADMISSION;

/// How long a browser may remember the answer to a preflight; browsers cap it by themselves.
const PREFLIGHT_FOR: Duration = Duration::from_secs(7_200);

/// The headers that pages may send: those of the API, of libraries for streams of events, and of
/// libraries that trace requests.
const REQUEST_HEADERS: &str = "authorization, baggage, content-type, idempotency-key, last-event-id, \
     sentry-trace, traceparent, tracestate, x-request-id";

/// Lets pages of allowed origins read the answers of the API, refusals included.
pub(crate) async fn guard(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    let browsers = &state.browsers;
    let path = request.uri().path();
    if !path.starts_with("/v1/") && path != ADMISSION && path != CLIENT {
        return serve(browsers, request, next).await;
    }
    let origin = browsers.origin(request.headers(), scheme(request.extensions()));
    // Browsers send some requests of a foreign page without asking first, and only hide the answer
    // from the page.
    let is_foreign_write = origin == RequestOrigin::Forbidden && !request.method().is_safe();
    let allowed = match origin {
        RequestOrigin::Allowed(origin) => Some(origin.clone()),
        _ => None,
    };
    let is_preflight = request.method() == Method::OPTIONS
        && [header::ORIGIN, header::ACCESS_CONTROL_REQUEST_METHOD]
            .iter()
            .all(|name| request.headers().contains_key(name));
    let mut response = if is_preflight && allowed.is_some() {
        // A preflight is free: every client of a crowd behind one address sends one, and it costs
        // next to nothing.
        bill::of(request.extensions()).settle_by_address();
        preflight()
    } else if is_preflight || is_foreign_write {
        forbidden().into_response()
    } else {
        serve(browsers, request, next).await
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("idempotent-replayed, location, retry-after, x-request-id"),
        );
    }
    response
}

/// Serves the request if the gateway serves the host that it names.
async fn serve(browsers: &Browsers, request: Request, next: Next) -> Response {
    match browsers.check_host(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn preflight() -> Response {
    let headers = [
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE"),
        ),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static(REQUEST_HEADERS),
        ),
        (
            header::ACCESS_CONTROL_MAX_AGE,
            HeaderValue::from(PREFLIGHT_FOR.as_secs()),
        ),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}
