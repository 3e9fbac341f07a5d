//! Owns media servers that a story plays: their tables in the settings, and the callbacks that they
//! send.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use reqwest::Method;
use rollcall::base::media_server::{MediaKind, MediaServerName};
use rollcall::base::secret::Secret;
use rollcall::config::{Config, Loaded, Mapping, MediaServer, Template, load};
use serde_json::{Value, json};

use super::backend::{Answer, Backend};
use super::service::Service;
use super::wait::{PATIENCE, same, throughout, until};
use super::world::World;

/// The secret of every server that a story plays.
pub const SECRET: &str = "the-secret-of-a-media-server";

/// The settings of a server with this secret.
pub fn server(name: &str, kind: MediaKind) -> MediaServer {
    MediaServer {
        name: MediaServerName::parse(name).unwrap(),
        kind,
        mapping: Mapping::of(kind),
        secret: Some(Secret::new(SECRET)),
        secret_file: None,
        live: Template::default(),
        streamer: None,
        publish_url: None,
        publish_secret_file: None,
        poll_url: None,
        heartbeats: false,
        networks: Vec::new(),
    }
}

/// What servers and gateways are told in the manual.
const MANUAL: &str = include_str!("../../docs/media-servers.md");

/// The block of the manual that begins with this text, with the address of the gateway in it.
pub fn block_of_manual(begins: &str, gateway: SocketAddr) -> String {
    let place = MANUAL.find(&format!("```{begins}")).expect(begins);
    let text = MANUAL[place..].split("```").nth(1).unwrap();
    let (_language, text) = text.split_once('\n').unwrap();
    text.replace("rollcall:8080", &gateway.to_string())
        .replace("secret=…", &format!("secret={SECRET}"))
}

/// The settings that the manual has for a server without a kind of its own.
pub fn server_of_manual(heading: &str) -> MediaServer {
    let (_, rest) = MANUAL
        .split_once(&format!("\n### {heading}\n"))
        .expect(heading);
    let table = &rest[rest.find("[media.main]").expect(heading)..];
    let table = table.split("```").next().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let secret = format!("secret = '{SECRET}'");
    let table = table.replace(r#"secret-file = "/etc/rollcall/media-secret""#, &secret);
    std::fs::write(file.path(), table).unwrap();
    let args = ["rollcall".into(), "--config".into(), file.path().into()];
    match load(args, Vec::<(OsString, OsString)>::new()) {
        Ok(Loaded::Run(_, config)) => config.media.into_iter().next().unwrap(),
        _ => panic!("the settings of {heading} are wrong"),
    }
}

/// Lets the gateway hear an nginx `main`, and another one `eu`.
pub fn with_nginx(config: &mut Config) {
    config.media = vec![
        server("main", MediaKind::NginxRtmp),
        server("eu", MediaKind::NginxRtmp),
    ];
}

/// An nginx with its RTMP module, which calls one gateway.
pub struct Nginx {
    gateway: Backend,
    path: String,
}

impl Nginx {
    /// The nginx of this name in the settings.
    pub fn calling(world: &World, name: &str) -> Self {
        Self::at(world.addr, name)
    }

    /// The same of a gateway at an address.
    pub fn at(gateway: SocketAddr, name: &str) -> Self {
        Self {
            gateway: Backend::at(gateway),
            path: format!("/v1/media/{name}?secret={SECRET}"),
        }
    }

    /// Somebody publishes; `query` is that of the stream's URL.
    pub async fn publish(&self, client: u32, stream: &str, query: &str) -> Answer {
        self.call("publish", client, stream, query).await
    }

    /// A publisher is let in.
    pub async fn lets_in(&self, client: u32, stream: &str) {
        self.publish(client, stream, "streamer_id=s1").await.is(200);
    }

    /// A publisher ended.
    pub async fn done(&self, client: u32, stream: &str) {
        self.call("publish_done", client, stream, "").await.is(200);
    }

    /// A publisher goes on.
    pub async fn update(&self, client: u32, stream: &str) -> Answer {
        let more = "time=30&timestamp=29980&streamer_id=s1";
        self.call("update_publish", client, stream, more).await
    }

    async fn call(&self, call: &str, client: u32, stream: &str, more: &str) -> Answer {
        let body = format!(
            "app=live&flashver=FMLE/3.0%20(compatible%3B%20Lavf63.1.&swfurl=&\
             tcurl=rtmp://127.0.0.1:11935/live&pageurl=&addr=127.0.0.1&clientid={client}&\
             call={call}&name={stream}&type=live&{more}"
        );
        self.gateway
            .send(Method::POST, &self.path, Some(&body))
            .await
    }
}

impl World {
    /// Waits until a live is in this state.
    pub async fn live_becomes(&self, live: &str, state: &str) {
        self.live_becomes_within(live, state, PATIENCE).await;
    }

    /// Waits, no longer than this, until a live is in this state.
    pub async fn live_becomes_within(&self, live: &str, state: &str, within: Duration) {
        until("the live changes", within, async || {
            same(self.state_of(live).await, state.to_owned())
        })
        .await;
    }

    /// For so long, live 42 stays open.
    pub async fn stays_open(&self, span: Duration) {
        throughout("the live is open", span, async || {
            same(self.state_of("42").await, "open".to_owned())
        })
        .await;
    }

    /// `open`, `closing` or `closed`; empty if the live was never opened.
    pub async fn state_of(&self, live: &str) -> String {
        let answer = self.backend().get(&format!("/v1/lives/{live}")).await;
        let state = answer.body["state"].as_str();
        state.unwrap_or_default().to_owned()
    }
}

/// A platform that allows the stream key `live_key_7` of the server `main` for a live of `s1`, at
/// first 42. It stumbles over keys with `broken` and `odd` in them, and answers 404 about all others.
/// It is away when dropped.
pub struct Platform {
    service: Service,
    keys: Arc<Keys>,
}

/// What the platform knows of its stream key.
struct Keys {
    live: Mutex<String>,
    /// How often it was asked.
    asked: AtomicUsize,
    /// How long it takes to answer.
    takes: Mutex<Duration>,
}

impl Platform {
    /// Starts it.
    pub async fn start() -> Self {
        let keys = Arc::new(Keys {
            live: Mutex::new("42".to_owned()),
            asked: AtomicUsize::new(0),
            takes: Mutex::default(),
        });
        let router = Router::new()
            .route("/keys", post(whose_key))
            .with_state(keys.clone());
        let service = Service::start(router).await;
        Self { service, keys }
    }

    /// From now on the key is for another live.
    pub fn moves_key_to(&self, live: &str) {
        live.clone_into(&mut self.keys.live.lock().unwrap());
    }

    /// From now on it takes this time to answer.
    pub fn takes(&self, time: Duration) {
        *self.keys.takes.lock().unwrap() = time;
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        self.keys.asked.load(Ordering::Relaxed)
    }

    /// The URL that a gateway is given.
    pub fn url(&self) -> Secret {
        Secret::new(format!("http://{}/keys", self.service.addr))
    }
}

async fn whose_key(
    State(keys): State<Arc<Keys>>,
    Json(question): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let takes = *keys.takes.lock().unwrap();
    keys.asked.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(takes).await;
    let key = question["stream_key"].as_str().unwrap_or_default();
    if key == "live_key_7" && question["server"] == "main" {
        let live = keys.live.lock().unwrap().clone();
        Ok(Json(
            json!({"allowed": true, "live_id": live, "streamer_id": "s1"}),
        ))
    } else if key.contains("broken") {
        Err(StatusCode::INTERNAL_SERVER_ERROR)
    } else if key.contains("odd") {
        Err(StatusCode::UNPROCESSABLE_ENTITY)
    } else {
        Err(StatusCode::NOT_FOUND)
    }
}

/// The service of rooms of a LiveKit with one room, 42. It is away when dropped.
pub struct LiveKitRooms {
    service: Service,
    /// Who publishes, each with a session.
    publishers: Arc<Sessions>,
}

impl LiveKitRooms {
    /// Starts it; nobody publishes.
    pub async fn start() -> Self {
        let publishers = Arc::<Sessions>::default();
        let router = Router::new()
            .route("/twirp/livekit.RoomService/ListRooms", post(livekit_rooms))
            .route(
                "/twirp/livekit.RoomService/ListParticipants",
                post(livekit_participants),
            )
            .with_state(publishers.clone());
        Self {
            service: Service::start(router).await,
            publishers,
        }
    }

    /// The URL that a gateway is given.
    pub fn url(&self) -> Secret {
        Secret::new(format!("http://APIkey@{}", self.service.addr))
    }

    /// From now on, exactly these sessions of participants publish.
    pub fn publish(&self, sessions: &[(&str, &str)]) {
        publish(&self.publishers, sessions);
    }
}

/// The grants of a question, if the key's secret signed it.
fn livekit_grants(headers: &HeaderMap) -> Result<Value, StatusCode> {
    let token = headers[AUTHORIZATION].to_str().unwrap();
    let token = token.strip_prefix("Bearer ").unwrap();
    let mut rules = Validation::new(Algorithm::HS256);
    rules.set_issuer(&["APIkey"]);
    let key = DecodingKey::from_secret(SECRET.as_bytes());
    let token = decode::<Value>(token, &key, &rules).map_err(|_| StatusCode::UNAUTHORIZED)?;
    Ok(token.claims["video"].clone())
}

async fn livekit_rooms(
    State(publishers): State<Arc<Sessions>>,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    if livekit_grants(&headers)?["roomList"] != true {
        return Err(StatusCode::FORBIDDEN);
    }
    let publishers = publishers.lock().unwrap().len();
    let metadata = r#"{"streamer_id":"s1"}"#;
    let room = json!({"name": "42", "num_publishers": publishers, "metadata": metadata});
    Ok(Json(json!({"rooms": [room]})))
}

async fn livekit_participants(
    State(publishers): State<Arc<Sessions>>,
    headers: HeaderMap,
    Json(question): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let grants = livekit_grants(&headers)?;
    if grants["roomAdmin"] != true || grants["room"] != question["room"] {
        return Err(StatusCode::FORBIDDEN);
    }
    let mut participants = Vec::new();
    for (sid, identity) in publishers.lock().unwrap().iter() {
        let tracks = json!([{"sid": "TR_1"}]);
        participants.push(json!({"sid": sid, "identity": identity, "tracks": tracks}));
    }
    Ok(Json(json!({"participants": participants})))
}

/// The sessions that publish, each with its stream.
type Sessions = Mutex<Vec<(String, String)>>;

fn publish(publishers: &Sessions, sessions: &[(&str, &str)]) {
    let owned = |(session, stream): &(&str, &str)| ((*session).to_owned(), (*stream).to_owned());
    *publishers.lock().unwrap() = sessions.iter().map(owned).collect();
}

/// The API of an SRS, which says who publishes. It is away when dropped.
pub struct SrsApi {
    service: Service,
    publishers: Arc<Sessions>,
}

impl SrsApi {
    /// Starts it; nobody publishes.
    pub async fn start() -> Self {
        let publishers = Arc::<Sessions>::default();
        let router = Router::new()
            .route("/api/v1/streams", get(srs_streams))
            .with_state(publishers.clone());
        Self {
            service: Service::start(router).await,
            publishers,
        }
    }

    /// The URL that a gateway is given.
    pub fn url(&self) -> Secret {
        Secret::new(format!("http://{}/api/v1/streams", self.service.addr))
    }

    /// From now on, exactly these sessions publish, each to a stream.
    pub fn publish(&self, sessions: &[(&str, &str)]) {
        publish(&self.publishers, sessions);
    }
}

async fn srs_streams(State(publishers): State<Arc<Sessions>>) -> Json<Value> {
    let mut streams = Vec::new();
    for (session, stream) in publishers.lock().unwrap().iter() {
        let publish = json!({"active": true, "cid": session});
        streams.push(json!({"name": stream, "app": "live", "publish": publish}));
    }
    Json(json!({"code": 0, "streams": streams}))
}
