//! Surrounds every handler: refuses hosts that are not served, and lets pages of allowed origins
//! read answers (CORS).
//!
//! A page of another origin cannot read an answer of `/v1`, nor change anything, nor import the
//! client. No answer allows credentials of the browser's own (cookies), because no request is
//! judged by them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::bill;
use super::browsers::{Browsers, Origin, forbidden, scheme};
use super::pages::CLIENT;
use super::state::AppState;
use super::upgrade::ADMISSION;

/// How long a browser may remember the answer to a preflight; browsers cap it by themselves.
const PREFLIGHT_FOR: Duration = Duration::from_secs(7_200);

/// Lets pages of allowed origins read what is meant for other programs, refusals included.
pub(super) async fn guard(
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
    // Browsers send some requests before they ask whether they may, and only keep the answer from
    // the page.
    let is_foreign_write = origin == Origin::Forbidden && !request.method().is_safe();
    let allowed = match origin {
        Origin::Allowed(origin) => Some(origin.clone()),
        _ => None,
    };
    let is_preflight = request.method() == Method::OPTIONS
        && [header::ORIGIN, header::ACCESS_CONTROL_REQUEST_METHOD]
            .iter()
            .all(|name| request.headers().contains_key(name));
    let mut response = match (is_preflight, &allowed) {
        (false, _) if is_foreign_write => forbidden().into_response(),
        (false, _) => serve(browsers, request, next).await,
        (true, Some(_)) => {
            // A crowd behind one address sends one each, and it costs next to nothing.
            bill::of(request.extensions()).settle_by_address();
            preflight()
        }
        (true, None) => forbidden().into_response(),
    };
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    if let Some(origin) = allowed {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("location, retry-after, x-request-id"),
        );
    }
    response
}

/// Serves requests for hosts that are served.
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
            HeaderValue::from_static("GET, PUT, DELETE"),
        ),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, content-type"),
        ),
        (
            header::ACCESS_CONTROL_MAX_AGE,
            HeaderValue::from(PREFLIGHT_FOR.as_secs()),
        ),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}
