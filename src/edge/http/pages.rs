//! The page at `/`: static, embedded in the binary, loading nothing from elsewhere.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{Html, IntoResponse};
use data_encoding::BASE64;
use sha2::{Digest, Sha256};

const PAGE: &str = include_str!("pages/index.html");

/// The page may use its own style, known by its hash, and nothing else.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let style =
        PAGE.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>")).map_or("", |(style, _)| style);
    let hash = BASE64.encode(&Sha256::digest(style));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

pub(super) async fn index() -> impl IntoResponse {
    ([(header::CONTENT_SECURITY_POLICY, POLICY.as_str())], Html(PAGE))
}
