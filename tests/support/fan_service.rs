//! Owns the platform's service that knows the fans, as a story makes it: right, slow, broken,
//! lying, or too talkative. It keeps every question.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::service::Service;

/// How the service answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mood {
    /// As agreed.
    Right,
    /// Never.
    Silent,
    /// With this status.
    Status(u16),
    /// With these fans besides, whom nobody asked about.
    Lying(Vec<String>),
    /// With this text.
    Text(String),
    /// With the right answer in a body without end.
    Endless,
    /// By turns with 503 and as agreed.
    Flapping,
}

/// One question.
#[derive(Debug, Clone)]
pub struct Question {
    pub authorization: Option<String>,
    pub body: Value,
}

struct Inside {
    fans: Mutex<BTreeSet<String>>,
    mood: watch::Sender<Mood>,
    questions: Mutex<Vec<Question>>,
}

/// The service.
pub struct FanService {
    pub addr: SocketAddr,
    inside: Arc<Inside>,
    _service: Service,
}

impl FanService {
    /// A service that knows these fans of `s1`.
    pub async fn start(fans: &[&str]) -> Self {
        let fans = Mutex::new(fans.iter().map(|fan| (*fan).to_owned()).collect());
        let inside = Arc::new(Inside {
            fans,
            mood: watch::Sender::new(Mood::Right),
            questions: Mutex::default(),
        });
        let router = Router::new()
            .route("/fans", post(answer))
            .with_state(inside.clone());
        let service = Service::start(router).await;
        Self {
            addr: service.addr,
            inside,
            _service: service,
        }
    }

    /// The URL that a gateway is given.
    pub fn url(&self) -> String {
        format!("http://{}/fans", self.addr)
    }

    pub fn is(&self, mood: Mood) {
        self.inside.mood.send_replace(mood);
    }

    /// Changes who is a fan.
    pub fn knows(&self, fans: &[&str]) {
        *self.inside.fans.lock().unwrap() = fans.iter().map(|fan| (*fan).to_owned()).collect();
    }

    pub fn questions(&self) -> MutexGuard<'_, Vec<Question>> {
        self.inside.questions.lock().unwrap()
    }
}

async fn answer(State(inside): State<Arc<Inside>>, headers: HeaderMap, body: String) -> Response {
    let body: Value = serde_json::from_str(&body).unwrap();
    let authorization = headers
        .get("authorization")
        .map(|header| header.to_str().unwrap().to_owned());
    let asked: BTreeSet<String> = serde_json::from_value(body["user_ids"].clone()).unwrap();
    let number = {
        let mut questions = inside.questions.lock().unwrap();
        questions.push(Question {
            authorization,
            body: body.clone(),
        });
        questions.len()
    };
    let mut mood = inside.mood.subscribe();
    let mood = mood
        .wait_for(|mood| *mood != Mood::Silent)
        .await
        .unwrap()
        .clone();
    let known = if body["streamer_id"] == "s1" {
        inside.fans.lock().unwrap().clone()
    } else {
        BTreeSet::new()
    };
    let mut fans: Vec<_> = known.intersection(&asked).cloned().collect();
    match mood {
        Mood::Status(status) => return StatusCode::from_u16(status).unwrap().into_response(),
        Mood::Flapping if number % 2 == 1 => {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        Mood::Text(text) => return text.into_response(),
        Mood::Endless => {
            let begin = json!({ "fans": fans }).to_string();
            let spaces = futures_util::stream::repeat_with(|| {
                Ok::<_, std::convert::Infallible>(" ".repeat(16_384))
            });
            let body =
                futures_util::StreamExt::chain(futures_util::stream::iter([Ok(begin)]), spaces);
            return Body::from_stream(body).into_response();
        }
        Mood::Lying(more) => fans.extend(more),
        Mood::Right | Mood::Silent | Mood::Flapping => {}
    }
    axum::Json(json!({ "fans": fans })).into_response()
}
