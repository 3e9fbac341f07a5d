//! A media server with one stream, whose live follows it. Publishers come, end and vanish without a
//! word, and the server refuses second ones and says nothing of their end.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rollcall::base::ids::LiveId;
use rollcall::base::media_server::{MediaKind, MediaServerName};
use rollcall::config::{Mapping, MediaServer as Settings, Template};
use rollcall::store::LiveState;
use serde_json::json;
use tokio::time::sleep;

use crate::crowd::{Mode, derived};
use crate::world::World;

/// The name of the server and of its stream, which is the id of the live.
const NAME: &str = "on-air";

/// How often the server does something, and sends a heartbeat at least.
const PACE: Duration = Duration::from_secs(2);

/// A session that is silent for so long is over.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// For how long a live outlives its stream.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// The table that the gateways have of it.
pub(crate) fn settings() -> Option<Settings> {
    Some(Settings {
        name: MediaServerName::parse(NAME).ok()?,
        kind: MediaKind::Generic,
        secret: None,
        secret_file: None,
        live: Template::default(),
        streamer: None,
        publish_url: None,
        publish_secret_file: None,
        poll_url: None,
        heartbeats: true,
        mapping: Mapping::of(MediaKind::Generic),
        networks: Vec::new(),
    })
}

pub(crate) struct SimulatedMediaServer {
    world: Arc<World>,
    rng: StdRng,
    /// The sessions so far, with those that were refused.
    sessions: u32,
    /// The one that publishes.
    on_air: Option<String>,
}

impl SimulatedMediaServer {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            world: world.clone(),
            rng: StdRng::seed_from_u64(derived(world.plan.seed, "media server")),
            sessions: 0,
            on_air: None,
        }
    }

    /// Runs until everybody goes home.
    pub(crate) async fn run(mut self) {
        loop {
            sleep(PACE.mul_f64(self.rng.random_range(0.5..1.5))).await;
            let mode = *self.world.crowd.mode.borrow();
            match (mode, self.on_air.clone()) {
                (Mode::GoHome, on_air) => {
                    if let Some(session) = on_air {
                        self.say("done", &session).await;
                    }
                    self.is_on(None);
                    return;
                }
                (Mode::Wander, None) if self.rng.random_ratio(1, 5) => self.begin().await,
                (Mode::Wander, Some(session)) => self.go_on(session).await,
                (Mode::Rest, Some(session)) => {
                    self.say("alive", &session).await;
                }
                _ => {}
            }
        }
    }

    async fn go_on(&mut self, session: String) {
        match self.rng.random_range(0..20) {
            0 => {
                self.is_on(None);
                self.say("done", &session).await;
            }
            // The server is killed.
            1 => self.is_on(None),
            2 => {
                let second = self.next_session();
                self.say("publish", &second).await;
            }
            _ => {
                self.say("alive", &session).await;
            }
        }
    }

    /// Lets a publisher in if a gateway does.
    async fn begin(&mut self) {
        let session = self.next_session();
        if self.say("publish", &session).await {
            self.is_on(Some(session));
        }
    }

    fn next_session(&mut self) -> String {
        self.sessions += 1;
        format!("s{}", self.sessions)
    }

    fn is_on(&mut self, session: Option<String>) {
        self.world.notes().is_on_air = session.is_some();
        self.on_air = session;
    }

    /// Calls a gateway once. Whether it says yes.
    async fn say(&mut self, event: &str, session: &str) -> bool {
        let gateway = self.rng.random_range(0..self.world.plan.gateways);
        let body = json!({"event": event, "session": session, "stream": NAME});
        let path = format!("/v1/media/{NAME}");
        let told = format!("{event} {session}");
        self.world.trace.tell(Some(gateway), &told);
        let answer = self.world.http(gateway, Method::POST, &path, &body).await;
        answer.is_some_and(|(status, _)| status == 200)
    }
}

/// What is wrong with the live of the stream while everybody rests: it is open exactly while a
/// session publishes.
pub(crate) fn wrong(world: &World) -> Option<String> {
    let is_on_air = world.notes().is_on_air;
    let records = world.network.truth.records();
    let record = records.get(&LiveId::parse(NAME).ok()?);
    let is_open = record.is_some_and(|record| record.state == LiveState::Open);
    (is_open != is_on_air)
        .then(|| format!("{NAME} is on air: {is_on_air}, and its live is open: {is_open}"))
}
