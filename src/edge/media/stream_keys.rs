//! Asks the platform whose a stream key is: `POST {"server","app","stream_key"}`, answered by
//! `{"allowed":true,"live_id","streamer_id"}`, or by `{"allowed":false}`. A call makes one attempt
//! with a deadline, follows no redirect and reads a bounded answer. The answers are remembered for
//! a moment, by a digest: no key stays in memory, and none is in an error or in the log.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Client, StatusCode, Url};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::setup_error::MediaSetupError;
use crate::base::clock::Clock;
use crate::base::http_answer;
use crate::base::http_client;
use crate::base::ids::{LiveId, UserId};
use crate::base::media_event::MediaEvent;
use crate::base::media_server::MediaServerName;
use crate::base::secret::Secret;
use crate::config::{Config, MediaServer};
use crate::sync::fan_asker::breaker::{Breaker, Permit};

/// The longest answer that is read, in bytes.
const LONGEST: usize = 16 * 1024;

/// Answers that are remembered at a time.
const MOST_REMEMBERED: u64 = 10_000;

/// How long an answer is remembered at most: long enough for the callbacks of one publisher, and
/// shorter than a streamer needs to end a broadcast and to begin the next one with the same key.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);

/// Whose a stream key is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOwner {
    /// The live of its stream.
    pub live: LiveId,
    /// The owner of the live.
    pub streamer: UserId,
}

/// Why the platform did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// It failed often a moment ago, and is left alone.
    #[error("the platform failed often; it is asked again in a moment")]
    LeftAlone,
    /// It did not answer in time, or with something else than agreed.
    #[error("the platform did not answer as agreed")]
    Failed,
}

#[derive(Serialize)]
struct Question<'a> {
    server: &'a MediaServerName,
    app: Option<&'a str>,
    stream_key: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    allowed: bool,
    live_id: Option<LiveId>,
    streamer_id: Option<UserId>,
}

/// The platform's service.
pub struct StreamKeys {
    server: MediaServerName,
    client: Client,
    url: Url,
    /// The header that the secret makes.
    authorization: ArcSwapOption<HeaderValue>,
    breaker: Mutex<Breaker>,
    clock: Clock,
    /// By session; `None` for a key that may not publish.
    remembered: moka::sync::Cache<String, Option<KeyOwner>>,
}

/// Stands for a session of a server that publishes with a stream key, where the key itself must not
/// be. The next session with the same key may publish to another live.
pub fn digest(server: &MediaServerName, event: &MediaEvent) -> String {
    let mut hash = Sha256::new();
    let app = event.app.as_deref().unwrap_or_default();
    let instance = event.instance.as_deref().unwrap_or_default();
    let session = event.session.as_str();
    for part in [
        server.as_str(),
        instance,
        app,
        session,
        event.stream.reveal(),
    ] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    HEXLOWER.encode(&hash.finalize())
}

impl StreamKeys {
    /// The service of a server, if its table names one.
    pub(super) fn of(
        settings: &MediaServer,
        config: &Config,
    ) -> Result<Option<Self>, MediaSetupError> {
        let Some(url) = &settings.publish_url else {
            return Ok(None);
        };
        let url = Url::parse(url.reveal()).map_err(|why| mistake(settings, why.to_string()))?;
        let client = http_client::builder(config.fan_timeout, config.proxy())
            .build()
            .map_err(|why| mistake(settings, http_answer::reason(why)))?;
        let remembered = moka::sync::Cache::builder()
            .time_to_live(config.fan_ttl.min(REMEMBERED_FOR))
            .max_capacity(MOST_REMEMBERED)
            .build();
        Ok(Some(Self {
            server: settings.name.clone(),
            client,
            url,
            authorization: ArcSwapOption::empty(),
            breaker: Mutex::default(),
            clock: Clock::start(),
            remembered,
        }))
    }

    /// Presents a secret to the platform from now on. False if it cannot stand in a header.
    pub(super) fn present(&self, secret: &Secret) -> bool {
        let Ok(mut header) = HeaderValue::try_from(format!("Bearer {}", secret.reveal())) else {
            return false;
        };
        header.set_sensitive(true);
        self.authorization.store(Some(Arc::new(header)));
        true
    }

    /// Whose the key of a stream is; `None` if nobody may publish with it.
    ///
    /// # Errors
    /// The platform does not answer.
    pub async fn owner(&self, event: &MediaEvent) -> Result<Option<KeyOwner>, NoAnswer> {
        let digest = digest(&self.server, event);
        if let Some(known) = self.remembered.get(&digest) {
            return Ok(known);
        }
        if self.breaker.lock().ask(self.clock.now()) != Permit::Go {
            return Err(NoAnswer::LeftAlone);
        }
        let owner = self.ask(event).await;
        let mut breaker = self.breaker.lock();
        match &owner {
            Ok(owner) => {
                breaker.answered();
                self.remembered.insert(digest, owner.clone());
            }
            Err(_) => breaker.failed(self.clock.now(), rand::random()),
        }
        drop(breaker);
        owner
    }

    async fn ask(&self, event: &MediaEvent) -> Result<Option<KeyOwner>, NoAnswer> {
        let question = Question {
            server: &self.server,
            app: event.app.as_deref(),
            stream_key: event.stream.reveal(),
        };
        let mut request = self.client.post(self.url.clone()).json(&question);
        if let Some(authorization) = self.authorization.load_full() {
            request = request.header(AUTHORIZATION, (*authorization).clone());
        }
        let Ok(answer) = request.send().await else {
            return Err(NoAnswer::Failed);
        };
        match answer.status() {
            StatusCode::OK => {}
            // It answers about this key. If that were a failure, whoever sends random keys could
            // shut out everybody.
            StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => {
                return Ok(None);
            }
            _ => return Err(NoAnswer::Failed),
        }
        let Ok(Some(body)) = http_answer::body(answer, LONGEST).await else {
            return Err(NoAnswer::Failed);
        };
        let answer: Answer = serde_json::from_slice(&body).map_err(|_| NoAnswer::Failed)?;
        if !answer.allowed {
            return Ok(None);
        }
        match (answer.live_id, answer.streamer_id) {
            (Some(live), Some(streamer)) => Ok(Some(KeyOwner { live, streamer })),
            _ => Err(NoAnswer::Failed),
        }
    }
}

fn mistake(settings: &MediaServer, problem: String) -> MediaSetupError {
    MediaSetupError {
        server: settings.name.clone(),
        key: "publish-url",
        problem,
    }
}
