//! Owns a receiver of webhooks that can be down, refuse or ask for patience, and remembers what it got.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::hmac;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use rollcall::base::clock::unix_now;
use rollcall::base::event_kind::EventKind;
use rollcall::base::secret::Secret;
use rollcall::base::webhook_name::WebhookName;
use rollcall::config::{Config, WebhookEndpoint};
use serde_json::Value;
use tokio::time::Instant;

use super::service::Service;
use super::wait::{PATIENCE, until};

const SECRET: &str = "a secret of a webhook";

/// The secret that replaces it.
const NEXT_SECRET: &str = "the next secret of it";

/// How the receiver answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mood {
    /// 204.
    Takes,
    /// 500 for this live, 204 for the others.
    Refuses(&'static str),
    /// 429 for this live, with this `Retry-After`, 204 for the others.
    Defers(&'static str, &'static str),
}

#[derive(Debug)]
struct Inner {
    mood: Mood,
    /// The secret that it knows.
    secret: &'static str,
    /// What it took, in order, repeats included.
    taken: Vec<Value>,
    /// How many requests came.
    requests: usize,
    /// When requests were deferred.
    deferred: Vec<Instant>,
    /// How many requests both secrets signed.
    signed_twice: usize,
}

/// A receiver.
#[derive(Debug)]
pub struct Webhook {
    addr: SocketAddr,
    inner: Arc<Mutex<Inner>>,
    secret: tempfile::NamedTempFile,
    runs: Option<Service>,
}

impl Webhook {
    /// One that listens.
    pub async fn start() -> Self {
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), format!("{SECRET}\n")).unwrap();
        let inner = Inner {
            mood: Mood::Takes,
            secret: SECRET,
            taken: Vec::new(),
            requests: 0,
            deferred: Vec::new(),
            signed_twice: 0,
        };
        let inner = Arc::new(Mutex::new(inner));
        let service = Service::start(router(&inner)).await;
        Self {
            addr: service.addr,
            inner,
            secret,
            runs: Some(service),
        }
    }

    /// Is down from now on.
    pub async fn stops(&mut self) {
        self.runs.take().expect("it runs").stop().await;
    }

    /// Is back.
    pub async fn comes_back(&mut self) {
        self.runs = Some(Service::start_at(self.addr, router(&self.inner)).await);
    }

    /// Answers so from now on.
    pub fn is(&self, mood: Mood) {
        self.inner.lock().unwrap().mood = mood;
    }

    /// Writes the next secret into the file of the gateways, beside the old one; only they can have
    /// it read.
    pub fn adds_a_secret(&self) {
        std::fs::write(self.secret.path(), format!("{SECRET}\n{NEXT_SECRET}\n")).unwrap();
    }

    /// Leaves only the next secret in the file of the gateways.
    pub fn drops_the_old_secret(&self) {
        std::fs::write(self.secret.path(), NEXT_SECRET).unwrap();
    }

    /// Takes only what the next secret signed from now on.
    pub fn knows_the_next_secret(&self) {
        self.inner.lock().unwrap().secret = NEXT_SECRET;
    }

    /// Makes a gateway send its events here.
    pub fn hears(&self, config: &mut Config) {
        config.webhook_url = Some(Secret::new(format!("http://{}/hooks", self.addr)));
        config.webhook_secret_file = Some(self.secret.path().to_owned());
        config.webhook_allow_private = true;
        config.webhook_timeout = Duration::from_millis(500);
    }

    /// Makes a gateway send these events here too, beside any other webhook.
    pub fn hears_as(&self, name: &str, events: &[EventKind], config: &mut Config) {
        config.webhooks.push(WebhookEndpoint {
            name: WebhookName::parse(name).unwrap(),
            url: Secret::new(format!("http://{}/hooks", self.addr)),
            secret_file: self.secret.path().to_owned(),
            events: events.to_vec(),
        });
        config.webhook_allow_private = true;
        config.webhook_timeout = Duration::from_millis(500);
    }

    /// What it took, in order, repeats included.
    pub fn taken(&self) -> Vec<Value> {
        self.inner.lock().unwrap().taken.clone()
    }

    /// What it took of this kind, in order, repeats included.
    pub fn taken_of(&self, kind: &str) -> Vec<Value> {
        let mut taken = self.taken();
        taken.retain(|event| event["type"] == kind);
        taken
    }

    /// When it said that it is not to be asked so soon again.
    pub fn deferred(&self) -> Vec<Instant> {
        self.inner.lock().unwrap().deferred.clone()
    }

    /// How many requests the next secret signed, too.
    pub fn signed_twice(&self) -> usize {
        self.inner.lock().unwrap().signed_twice
    }

    /// How many requests came.
    pub fn requests(&self) -> usize {
        self.inner.lock().unwrap().requests
    }

    /// The first arrivals of a live's events, in order, as their types. Repeats must be equal.
    pub fn story_of(&self, live: &str) -> Vec<String> {
        first_arrivals(&self.taken(), live)
            .iter()
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Waits until a live has these events.
    pub async fn hears_of(&self, live: &str, story: &[&str]) {
        let story: Vec<String> = story.iter().map(|word| (*word).to_owned()).collect();
        until("the webhook hears of the live", PATIENCE * 3, async || {
            let heard = self.story_of(live);
            if heard == story {
                Ok(())
            } else {
                Err(format!("{heard:?} instead of {story:?}"))
            }
        })
        .await;
    }
}

/// The events of a live by their first arrivals; an id always names the same event.
fn first_arrivals(taken: &[Value], live: &str) -> Vec<Value> {
    let mut known: HashMap<String, Value> = HashMap::new();
    let of_live = taken.iter().filter(|event| event["live_id"] == live);
    let mut first = Vec::new();
    for event in of_live {
        let id = event["id"].as_str().unwrap().to_owned();
        match known.get(&id) {
            Some(before) => assert_eq!(before, event, "a repeat differs"),
            None => first.push(event.clone()),
        }
        known.insert(id, event.clone());
    }
    first
}

/// What `docs/events.md` tells receivers to do.
fn verify(secret: &str, headers: &HeaderMap, body: &[u8]) -> bool {
    let header = headers["rollcall-signature"].to_str().unwrap();
    let parts: Vec<(&str, &str)> = header
        .split(',')
        .map(|part| part.split_once('=').unwrap())
        .collect();
    let at: u64 = parts
        .iter()
        .find(|(name, _)| *name == "t")
        .unwrap()
        .1
        .parse()
        .unwrap();
    let now = unix_now() / 1_000;
    let signed = [format!("{at}.").as_bytes(), body].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let mut signatures = parts.iter().filter(|(name, _)| *name == "v1");
    let is_right = |hex: &str| {
        let signature = data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap();
        hmac::verify(&key, &signed, &signature).is_ok()
    };
    now.abs_diff(at) < 300 && signatures.any(|(_, hex)| is_right(hex))
}

fn router(inner: &Arc<Mutex<Inner>>) -> Router {
    Router::new()
        .route("/hooks", any(take))
        .with_state(inner.clone())
}

async fn take(State(inner): State<Arc<Mutex<Inner>>>, headers: HeaderMap, body: Bytes) -> Response {
    let event: Value = serde_json::from_slice(&body).unwrap();
    let (mood, secret) = {
        let mut inner = inner.lock().unwrap();
        inner.requests += 1;
        (inner.mood.clone(), inner.secret)
    };
    assert!(
        verify(secret, &headers, &body),
        "a wrong signature: {headers:?}"
    );
    if verify(SECRET, &headers, &body) && verify(NEXT_SECRET, &headers, &body) {
        inner.lock().unwrap().signed_twice += 1;
    }
    assert_eq!(event["id"], headers["rollcall-event-id"].to_str().unwrap());
    match mood {
        Mood::Refuses(live) if event["live_id"] == live => {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        Mood::Defers(live, wait) if event["live_id"] == live => {
            inner.lock().unwrap().deferred.push(Instant::now());
            return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", wait)]).into_response();
        }
        Mood::Takes | Mood::Refuses(_) | Mood::Defers(..) => {}
    }
    inner.lock().unwrap().taken.push(event);
    StatusCode::NO_CONTENT.into_response()
}
