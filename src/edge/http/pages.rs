//! The pages for people, and the client for apps: static files, embedded in the binary. They load
//! nothing from elsewhere, and nothing in them is inline, so that their policy can forbid that. The
//! wiring of `routes` says which port serves which page.

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

use super::problem::{Kind, Problem};
use super::state::AppState;

/// Where apps and pages of other origins find the client.
pub(super) const CLIENT: &str = "/rollcall.js";

/// A page may load scripts and styles of this gateway and talk to it, and nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// What the pages load from `/pages/`, by name.
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

/// Whether the port that serves the pages has the API too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    Here,
    Elsewhere,
}

/// The pages of the public port, without the layers that surround every route.
pub(super) fn public(state: &AppState, api: Api) -> Router<Arc<AppState>> {
    let auth_off = state.tokens.is_none();
    let page = |text: &'static str| {
        let auth = if auth_off { "off" } else { "jwt" };
        let api = if api == Api::Here {
            "here"
        } else {
            "elsewhere"
        };
        let head = format!("<html data-auth=\"{auth}\" data-api=\"{api}\" ");
        Asset::new(HTML, text.replacen("<html ", &head, 1)).route()
    };
    let part = async move |Path(wanted): Path<String>, headers: HeaderMap| {
        let found = PARTS.iter().find(|(name, _)| *name == wanted);
        found.map_or_else(
            || Err(Problem::new(Kind::NotFound, "no such file")),
            |(_, part)| Ok(part.answer(&headers)),
        )
    };
    let pages = Router::new()
        .route("/", page(include_str!("pages/dashboard.html")))
        .route(
            CLIENT,
            Asset::new(SCRIPT, include_str!("pages/rollcall.js")).route(),
        )
        .route(
            "/rollcall.d.ts",
            Asset::new(TEXT, include_str!("pages/rollcall.d.ts")).route(),
        )
        .route("/pages/{file}", get(part));
    // The viewer page claims to be anybody, which only such a gateway believes.
    if auth_off {
        pages.route("/demo", page(include_str!("pages/demo.html")))
    } else {
        pages
    }
}

/// The page of the internal port: what an operator finds there.
pub(super) fn internal() -> Router<Arc<AppState>> {
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

/// A file, as it is and compressed, and the tag by which a browser asks whether it has changed.
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

    /// The file, or nothing if the browser has it. A browser asks each time: after an upgrade of
    /// the gateway, scripts of two versions must not meet.
    fn answer(&self, asked: &HeaderMap) -> Response {
        let known = asked
            .get(header::IF_NONE_MATCH)
            .and_then(|tags| tags.to_str().ok());
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let has_it =
            known.is_some_and(|tags| tags.split(',').any(|tag| opaque(tag) == opaque(&self.tag)));
        let unpacks = takes_gzip(asked);
        let mut response = match has_it {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false if unpacks => self.gzip.clone().into_response(),
            false => self.plain.clone().into_response(),
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
}

fn compressed(plain: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let packed = encoder.write_all(plain).and_then(|()| encoder.finish());
    packed.expect("a Vec takes every byte").into()
}

/// Whether the client said that it can unpack gzip (RFC 9110, section 12.5.3).
fn takes_gzip(asked: &HeaderMap) -> bool {
    let accepted = asked
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|codings| codings.split(','))
        .any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let refused = weight
                .trim()
                .strip_prefix("q=")
                .is_some_and(|q| q.parse() == Ok(0.0));
            name.trim().eq_ignore_ascii_case("gzip") && !refused
        })
}
