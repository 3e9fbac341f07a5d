//! The pages for people, and the client for apps: static files, embedded in the binary. The pages
//! load nothing from other origins and have no inline scripts or styles, so that their policy can
//! forbid both. `routes` decides which port serves which page.

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use super::problem::{Problem, ProblemKind};
use super::state::AppState;

/// Where apps and pages of other origins find the client.
pub(crate) const CLIENT: &str = "/rollcall.js";

/// A page may load scripts and styles of this gateway and talk to it, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// The files that the pages load from `/pages/`, by name.
static PARTS: LazyLock<Vec<(&str, Asset)>> = LazyLock::new(|| {
    FILES
        .iter()
        .map(|(name, kind, text)| (*name, Asset::new(kind, *text)))
        .collect()
});

/// The files of [`PARTS`]: name, type, content.
const FILES: &[(&str, &str, &str)] = &[
    ("api.js", SCRIPT, include_str!("pages/api.js")),
    ("bans.js", SCRIPT, include_str!("pages/bans.js")),
    ("chart.js", SCRIPT, include_str!("pages/chart.js")),
    (
        "credentials.js",
        SCRIPT,
        include_str!("pages/credentials.js"),
    ),
    ("crowd.js", SCRIPT, include_str!("pages/crowd.js")),
    ("dashboard.js", SCRIPT, include_str!("pages/dashboard.js")),
    ("demo-words.js", SCRIPT, include_str!("pages/demo-words.js")),
    ("demo.js", SCRIPT, include_str!("pages/demo.js")),
    ("dom.js", SCRIPT, include_str!("pages/dom.js")),
    ("fans.js", SCRIPT, include_str!("pages/fans.js")),
    ("figures.js", SCRIPT, include_str!("pages/figures.js")),
    ("live.js", SCRIPT, include_str!("pages/live.js")),
    ("lives.js", SCRIPT, include_str!("pages/lives.js")),
    ("style.css", STYLE, include_str!("pages/style.css")),
    (
        "uplot-license.txt",
        TEXT,
        include_str!("pages/vendor/uplot-LICENSE.txt"),
    ),
    ("uplot.css", STYLE, include_str!("pages/vendor/uplot.css")),
    ("uplot.js", SCRIPT, include_str!("pages/vendor/uplot.js")),
    ("words.js", SCRIPT, include_str!("pages/words.js")),
];

/// Whether the port that serves the pages also serves the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PagesApi {
    Here,
    Elsewhere,
}

/// The pages of the public port, without the layers that surround every route.
pub(crate) fn public(state: &AppState, api: PagesApi) -> Router<Arc<AppState>> {
    let auth_off = state.tokens.is_none();
    let auth = if auth_off { "off" } else { "jwt" };
    let api = match api {
        PagesApi::Here => "here",
        PagesApi::Elsewhere => "elsewhere",
    };
    let html_tag = format!("<html data-auth=\"{auth}\" data-api=\"{api}\" ");
    let pages = Router::new()
        .route(
            "/",
            page(include_str!("pages/dashboard.html"), &html_tag).route(),
        )
        .route(
            CLIENT,
            Asset::new(SCRIPT, include_str!("../../clients/javascript/rollcall.js")).route(),
        )
        .route(
            "/rollcall.d.ts",
            Asset::new(TEXT, include_str!("../../clients/javascript/rollcall.d.ts")).route(),
        )
        .route("/pages/{file}", get(part));
    // The viewer page can claim to be any user, which only a gateway without authentication
    // believes.
    if auth_off {
        pages.route(
            "/demo",
            page(include_str!("pages/demo.html"), &html_tag).route(),
        )
    } else {
        pages
    }
}

/// A page whose `<html` tag tells its scripts how this gateway is configured.
fn page(text: &str, html_tag: &str) -> Asset {
    Asset::new(HTML, text.replacen("<html ", html_tag, 1))
}

/// Serves a file of [`PARTS`].
async fn part(Path(wanted): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    match PARTS.iter().find(|(name, _)| *name == wanted) {
        Some((_, part)) => Ok(part.answer(&headers)),
        None => Err(Problem::new(ProblemKind::NotFound, "no such file")),
    }
}

/// The page of the internal port, which shows operators what is there.
pub(crate) fn internal() -> Router<Arc<AppState>> {
    Router::new()
        .route(
            "/",
            Asset::new(HTML, include_str!("pages/internal.html")).route(),
        )
        .route(
            "/pages/style.css",
            Asset::new(STYLE, include_str!("pages/style.css")).route(),
        )
}

/// A file, both plain and compressed, and the tag with which a browser asks whether it has changed.
#[derive(Clone)]
struct Asset {
    kind: &'static str,
    plain: Bytes,
    gzip: Bytes,
    tag: String,
}

impl Asset {
    fn new(kind: &'static str, text: impl Into<Cow<'static, str>>) -> Self {
        let plain = match text.into() {
            Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
            Cow::Owned(text) => Bytes::from(text),
        };
        // One tag stands for both forms, so it is a weak one.
        let tag = format!("W/\"{}\"", HEXLOWER.encode(&Sha256::digest(&plain)[..12]));
        let gzip = compressed(&plain);
        Self {
            kind,
            plain,
            gzip,
            tag,
        }
    }

    fn route(self) -> MethodRouter<Arc<AppState>> {
        get(async move |headers: HeaderMap| self.answer(&headers))
    }

    /// Answers with the file, or with 304 if the browser has it. The browser asks before each use:
    /// after an upgrade of the gateway, a page must not mix scripts of two versions.
    fn answer(&self, asked: &HeaderMap) -> Response {
        let has_it = self.is_known_to(asked);
        let unpacks = takes_gzip(asked);
        let mut response = if has_it {
            StatusCode::NOT_MODIFIED.into_response()
        } else if unpacks {
            self.gzip.clone().into_response()
        } else {
            self.plain.clone().into_response()
        };
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if unpacks && !has_it {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(header::ETAG, tag);
        }
        if self.kind == HTML {
            headers.insert(
                header::CONTENT_SECURITY_POLICY,
                HeaderValue::from_static(POLICY),
            );
        }
        response
    }

    /// Whether `If-None-Match` names this version of the file.
    fn is_known_to(&self, asked: &HeaderMap) -> bool {
        let Some(known) = asked.get(header::IF_NONE_MATCH) else {
            return false;
        };
        let Ok(known) = known.to_str() else {
            return false;
        };
        known
            .split(',')
            .any(|tag| opaque_tag(tag) == opaque_tag(&self.tag))
    }
}

/// The part of an entity tag that a weak comparison compares (RFC 9110, section 8.8.3.2).
fn opaque_tag(tag: &str) -> &str {
    tag.trim().trim_start_matches("W/")
}

fn compressed(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let packed = encoder.write_all(plain).and_then(|()| encoder.finish());
    packed.expect("a Vec takes every byte").into()
}

/// Whether the client said that it can unpack gzip (RFC 9110, section 12.5.3).
fn takes_gzip(asked: &HeaderMap) -> bool {
    for line in asked.get_all(header::ACCEPT_ENCODING) {
        if let Ok(codings) = line.to_str()
            && codings.split(',').any(is_accepted_gzip)
        {
            return true;
        }
    }
    false
}

/// Whether an item of `Accept-Encoding` is gzip with a weight other than 0.
fn is_accepted_gzip(coding: &str) -> bool {
    let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
    let is_refused = match weight.trim().strip_prefix("q=") {
        Some(q) => q.parse() == Ok(0.0),
        None => false,
    };
    name.trim().eq_ignore_ascii_case("gzip") && !is_refused
}
