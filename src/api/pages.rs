//! Owns the page at `/`: static, embedded in the binary, with nothing from elsewhere.

use axum::http::header;
use axum::response::{Html, IntoResponse};

/// What the page may do: show its own style, nothing else.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Says what runs here and where the rest is.
pub(super) async fn index() -> impl IntoResponse {
    ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(include_str!("pages/index.html")))
}
