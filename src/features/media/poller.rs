//! Asks media servers which sessions publish, every few seconds. The gateway that walks over all lives
//! asks, so one gateway asks at a time. `polls` reads the answers.
//!
//! A session that the answer names goes on, as if the server had sent a heartbeat. One that the last
//! answer named and this one does not falls silent at once: the server lost it, or was started again.
//! If a later answer names it, it goes on. A server that does not answer ends nothing; its sessions
//! fall silent after `streamer-timeout`, as those of every server whose heartbeats stay away.

use crate::peers::core::Core;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use jsonwebtoken::{EncodingKey, Header};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::auth::tokens::Tokens;
use crate::base::clock::unix_now;
use crate::base::http_answer;
use crate::base::http_client;
use crate::base::media_event::{MediaEvent, StreamNews};
use crate::base::media_server::{MediaKind, MediaServerName};
use crate::base::metrics::Metrics;
use crate::features::media::intake::{Intake, NotTaken};
use crate::features::media::keeper::StreamKeeper;
use crate::features::media::polls;
use crate::features::media::servers::{KnownServer, MediaServers};
use crate::features::media::setup_error::MediaSetupError;
use crate::features::media::store::MediaStore;

/// The longest answer that is read, in bytes: some 10,000 streams.
const LONGEST: usize = 8 << 20;

/// The most sessions that one answer may name. Servers name ten or a hundred unless they are asked
/// for more.
const MOST_SESSIONS: &str = "100000";

/// How long a question to LiveKit may be asked, in seconds.
const TOKEN_LASTS: u64 = 60;

/// Maximum sessions of a server that are written, and rooms that are asked for, at the same time.
const MAX_CONCURRENT_SESSIONS: usize = 16;

/// The longest time between two questions.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// A server that is asked.
struct Polled {
    server: Arc<KnownServer>,
    url: Url,
}

pub(crate) struct Poller {
    polled: Vec<Polled>,
    client: Client,
    every: Duration,
    parts: PollerParts,
}

/// What the poller works with.
pub(crate) struct PollerParts {
    pub(crate) core: Arc<Core>,
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) store: Arc<dyn MediaStore>,
    pub(crate) streams: Arc<StreamKeeper>,
}

/// The sessions that the last answer of each server named, by session and stream.
type Named = HashMap<MediaServerName, HashMap<String, MediaEvent>>;

impl Poller {
    /// The poller of the servers that are asked; `None` if none is.
    ///
    /// # Errors
    /// A URL cannot be used.
    pub(crate) fn of(
        servers: &MediaServers,
        parts: PollerParts,
    ) -> Result<Option<Self>, MediaSetupError> {
        let config = &parts.core.config;
        let mut polled = Vec::new();
        for server in servers.all() {
            if let Some(url) = url_of(&server)? {
                polled.push(Polled { server, url });
            }
        }
        let Some(first) = polled.first() else {
            return Ok(None);
        };
        let client = http_client::builder(config.fan_timeout, config.proxy()).build();
        let client = client.map_err(|why| mistake(&first.server, http_answer::reason(why)))?;
        // A few questions fit into the time after which a session is silent.
        let every = match config.streamer_timeout {
            Some(timeout) => (timeout / 4).min(LONGEST_PAUSE),
            None => LONGEST_PAUSE,
        };
        Ok(Some(Self {
            polled,
            client,
            every,
            parts,
        }))
    }

    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut turn = tokio::time::interval(self.every);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut named = Named::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = turn.tick() => {}
            }
            if !self.parts.core.absent_streamers.judges_all() {
                // The gateway that asks now knows what the servers answered since.
                named.clear();
                continue;
            }
            for polled in &self.polled {
                self.poll(polled, &mut named).await;
            }
        }
    }

    async fn poll(&self, polled: &Polled, named: &mut Named) {
        let name = &polled.server.settings.name;
        let events = match self.ask(polled).await {
            Ok(events) => events,
            Err(why) => {
                Metrics::count_result(&self.parts.core.metrics.media_polls, "failed");
                tracing::warn!(server = %name, why, "a media server did not say which sessions publish");
                return;
            }
        };
        Metrics::count_result(&self.parts.core.metrics.media_polls, "answered");
        let mut now = HashMap::new();
        for event in &events {
            now.insert(place(event), event.clone());
        }
        let before = named.insert(name.clone(), now).unwrap_or_default();
        let now = &named[name];
        let mut messages = events;
        for (place, event) in before {
            if !now.contains_key(&place) {
                messages.push(MediaEvent {
                    news: StreamNews::Unnamed,
                    ..event
                });
            }
        }
        stream::iter(messages)
            .for_each_concurrent(MAX_CONCURRENT_SESSIONS, async |event| {
                self.take_in(&polled.server, &event).await;
            })
            .await;
    }

    /// The sessions that publish; the error says what went wrong, and names no URL.
    async fn ask(&self, polled: &Polled) -> Result<Vec<MediaEvent>, String> {
        let Polled { server, url } = polled;
        let kind = server.settings.kind;
        if kind == MediaKind::LiveKit {
            return self.ask_livekit(polled).await;
        }
        let body = self.answer(self.client.get(url.clone())).await?;
        polls::read(kind, url, &body).map_err(|why| why.to_string())
    }

    /// LiveKit names the publishers of one room at a time.
    async fn ask_livekit(&self, polled: &Polled) -> Result<Vec<MediaEvent>, String> {
        let rooms = self.call_livekit(polled, "ListRooms", json!({})).await?;
        let rooms = polls::livekit_rooms(&rooms).map_err(|why| why.to_string())?;
        let publishers = async |room: polls::LiveKitRoom| {
            let question = json!({"room": room.name});
            let body = self
                .call_livekit(polled, "ListParticipants", question)
                .await?;
            polls::livekit_participants(&body, &room).map_err(|why| why.to_string())
        };
        let asked = stream::iter(rooms).map(publishers);
        let events: Vec<_> = asked
            .buffered(MAX_CONCURRENT_SESSIONS)
            .try_collect()
            .await?;
        Ok(events.concat())
    }

    /// Calls LiveKit's service of rooms. The user of the URL is the key, whose secret the table has.
    async fn call_livekit(
        &self,
        polled: &Polled,
        method: &str,
        question: Value,
    ) -> Result<Vec<u8>, String> {
        let mut url = polled.url.clone();
        let grants = json!({"roomList": true, "roomAdmin": true, "room": question["room"]});
        let exp = unix_now() / 1_000 + TOKEN_LASTS;
        let claims = json!({"iss": url.username(), "exp": exp, "video": grants});
        let secret = polled.server.secret().ok_or("it has no secret")?;
        let key = EncodingKey::from_secret(secret.reveal().as_bytes());
        let token = jsonwebtoken::encode(&Header::default(), &claims, &key);
        let token = token.map_err(|why| why.to_string())?;
        url.set_path(&format!("/twirp/livekit.RoomService/{method}"));
        // A user in the URL would be another credential.
        let _ = url.set_username("");
        let request = self.client.post(url).bearer_auth(token).json(&question);
        self.answer(request).await
    }

    /// The body of a good answer.
    async fn answer(&self, request: RequestBuilder) -> Result<Vec<u8>, String> {
        let answer = request.send().await.map_err(http_answer::reason)?;
        if answer.status() != StatusCode::OK {
            return Err(format!("status {}", answer.status().as_u16()));
        }
        let body = http_answer::body(answer, LONGEST).await;
        let Some(body) = body.map_err(http_answer::reason)? else {
            return Err("the answer is too long".to_owned());
        };
        Ok(body)
    }

    async fn take_in(&self, server: &KnownServer, event: &MediaEvent) {
        let intake = Intake {
            server,
            tokens: self.parts.tokens.as_ref(),
            store: self.parts.store.as_ref(),
            streams: &self.parts.streams,
        };
        match intake.take_in(event).await {
            Ok(_) => {}
            // Nobody said with which token the session began, because its callback was lost.
            Err(NotTaken::Refused(why)) => {
                tracing::debug!(server = %server.settings.name, why, "a session that was found may not publish");
            }
            Err(NotTaken::Unknown(why)) => {
                tracing::debug!(server = %server.settings.name, why, "a session that was found was not written");
            }
        }
    }
}

/// Tells a session of a stream from all others of its server.
fn place(event: &MediaEvent) -> String {
    let app = event.app.as_deref().unwrap_or_default();
    format!("{} {app}/{}", event.session.as_str(), event.stream.reveal())
}

/// Where a server is asked; `None` if it is not.
fn url_of(server: &KnownServer) -> Result<Option<Url>, MediaSetupError> {
    let Some(url) = &server.settings.poll_url else {
        return Ok(None);
    };
    let mut url = Url::parse(url.reveal()).map_err(|why| mistake(server, why.to_string()))?;
    let most = match server.settings.kind {
        MediaKind::Srs => "count",
        MediaKind::MediaMtx => "itemsPerPage",
        _ => return Ok(Some(url)),
    };
    if !url.query_pairs().any(|(name, _)| name == most) {
        url.query_pairs_mut().append_pair(most, MOST_SESSIONS);
    }
    Ok(Some(url))
}

fn mistake(server: &KnownServer, problem: String) -> MediaSetupError {
    MediaSetupError {
        server: server.settings.name.clone(),
        key: "poll-url",
        problem,
    }
}
