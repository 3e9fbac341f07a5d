//! The page at `/`: static, embedded in the binary, loading nothing from elsewhere.

use axum::http::header;
use axum::response::{Html, IntoResponse};

/// The page may use its own style, nothing else.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn index() -> impl IntoResponse {
    ([(header::CONTENT_SECURITY_POLICY, POLICY)], Html(include_str!("pages/index.html")))
}
