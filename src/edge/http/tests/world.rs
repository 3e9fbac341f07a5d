//! The verbs of these tests: ask a router, look at its answer.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use serde_json::Value;
use tower::ServiceExt;

use crate::config::Config;
use crate::edge::client_address::ClientAddress;
use crate::edge::http::routes;
use crate::edge::http::state::AppState;
use crate::gateway::wiring::FromOutside;
use crate::testing;
use crate::testing::FaultyStore;

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// A gateway over a store that can fail, with its public router.
pub(crate) struct World {
    pub(crate) app: Arc<AppState>,
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) router: Router,
}

/// What a router answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in {self:?}"))
            .to_str()
            .unwrap()
    }

    /// A 2xx with this status; its body.
    pub(crate) fn is(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }

    /// A whole problem document with this status and code.
    pub(crate) fn is_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        let body = self.json();
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], status);
        assert_eq!(body["type"], format!("urn:rollcall:problem:{code}"));
        assert_eq!(body["request_id"], self.header("x-request-id"), "{body}");
        for field in ["title", "detail"] {
            assert!(
                body[field].as_str().is_some_and(|text| !text.is_empty()),
                "{field} in {body}"
            );
        }
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&Config::default())
    }

    pub(crate) fn with(config: &Config) -> Self {
        Self::on(config, Arc::new(FaultyStore::new()))
    }

    pub(crate) fn on(config: &Config, store: Arc<FaultyStore>) -> Self {
        Self::verified_by(config, FromOutside::default(), store)
    }

    pub(crate) fn verified_by(
        config: &Config,
        verifiers: FromOutside,
        store: Arc<FaultyStore>,
    ) -> Self {
        let app = testing::app_with(config, verifiers, store.clone());
        Self {
            router: routes::public(&app, config.admin_listen.is_some()),
            app,
            store,
        }
    }

    pub(crate) async fn sends(&self, request: Request<Body>) -> Answer {
        answer(&self.router, request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.sends(Request::get(path).body(Body::empty()).unwrap())
            .await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.sends(Request::delete(path).body(Body::empty()).unwrap())
            .await
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Answer {
        let request = Request::put(path).header("content-type", "application/json");
        self.sends(request.body(Body::from(body.to_owned())).unwrap())
            .await
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.sends(request.body(Body::from(body.to_owned())).unwrap())
            .await
    }

    pub(crate) async fn opens(&self, live: &str, slices: u32) {
        let body = format!(r#"{{"streamer_id":"s1","slices":{slices}}}"#);
        self.put(&format!("/v1/lives/{live}"), &body).await.is(201);
    }

    /// Walks a whole listing; the pages, each as a list of one field of its items.
    pub(crate) async fn pages(&self, path: &str, limit: usize, field: &str) -> Vec<Vec<String>> {
        let (mut pages, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self
                .get(&format!("{path}?limit={limit}&cursor={cursor}"))
                .await
                .is(200);
            let items = page["items"].as_array().unwrap();
            assert!(items.len() <= limit, "{page}");
            pages.push(
                items
                    .iter()
                    .map(|item| item[field].as_str().unwrap().to_owned())
                    .collect(),
            );
            match page["cursor"].as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => return pages,
            }
        }
    }
}

/// Asks a router, as a client on this machine through the listener.
pub(crate) async fn answer(router: &Router, mut request: Request<Body>) -> Answer {
    request
        .headers_mut()
        .entry(header::HOST)
        .or_insert(HeaderValue::from_static("localhost"));
    request
        .extensions_mut()
        .get_or_insert(ClientAddress::Peer(Ipv4Addr::LOCALHOST.into()));
    let is_head = request.method() == Method::HEAD;
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    // A stream of events does not end.
    let bytes = if parts.headers.get(header::CONTENT_TYPE) == Some(&EVENT_STREAM) {
        Bytes::new()
    } else {
        to_bytes(body, 1 << 20).await.unwrap()
    };
    assert!(parts.headers.contains_key("x-request-id"), "{parts:?}");
    if let Some(length) = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .filter(|_| !is_head)
    {
        assert_eq!(
            length.to_str().unwrap(),
            bytes.len().to_string(),
            "{parts:?}"
        );
    }
    Answer {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}
