//! Asks the platform whose a stream key is: `POST {"server","app","stream_key"}`, answered by
//! `{"allowed":true,"live_id","streamer_id"}`, or by `{"allowed":false}`. A call makes one attempt
//! with a deadline, follows no redirect and reads a bounded answer. The answers are remembered for
//! a moment, by a digest: no key stays in memory, and none is in an error or in the log.
//!
//! Anybody who reaches a media server can make a gateway ask about keys. So no failure about one key
//! keeps another one from being asked about: there is no circuit breaker here.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use data_encoding::HEXLOWER;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Client, StatusCode, Url};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::base::http_answer;
use crate::base::http_client;
use crate::base::ids::{LiveId, UserId};
use crate::base::media_event::MediaEvent;
use crate::base::media_server::MediaServerName;
use crate::base::secret::Secret;
use crate::config::{Config, MediaServer};
use crate::features::media::setup_error::MediaSetupError;

/// The longest answer that is read, in bytes.
const LONGEST: usize = 16 * 1024;

/// Answers that are remembered at a time.
const MOST_REMEMBERED: u64 = 10_000;

/// How long an answer is remembered at most: long enough for the callbacks of one publisher, and
/// shorter than a streamer needs to end a broadcast and to begin the next one with the same key.
const REMEMBERED_FOR: Duration = Duration::from_secs(5);

/// How long the platform is not asked again about a key that it refused, or about which it failed.
const TURNED_AWAY_FOR: Duration = Duration::from_secs(1);

/// Questions that are under way at a time: more than a hundred new publishers a second, of whom none
/// is answered.
const MOST_QUESTIONS: usize = 256;

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
    /// Too many questions wait for its answers.
    #[error("too many questions to the platform are under way")]
    Busy,
    /// It did not answer in time, or with something else than agreed.
    #[error("the platform did not answer as agreed")]
    Failed,
}

#[derive(Serialize)]
struct StreamKeyQuestion<'a> {
    server: &'a MediaServerName,
    app: Option<&'a str>,
    stream_key: &'a str,
}

#[derive(Deserialize)]
struct StreamKeyAnswer {
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
    questions: Semaphore,
    /// By session.
    owners: moka::sync::Cache<String, KeyOwner>,
    /// By key: `None` for one that may not publish, or why the platform did not say.
    turned_away: moka::sync::Cache<String, Option<NoAnswer>>,
}

/// Stands for a session of a server that publishes with a stream key, where the key itself must not
/// be. The next session with the same key may publish to another live.
pub fn digest(server: &MediaServerName, event: &MediaEvent) -> String {
    digest_of(server, event.session.as_str(), event)
}

fn digest_of(server: &MediaServerName, session: &str, event: &MediaEvent) -> String {
    let mut hash = Sha256::new();
    let app = event.app.as_deref().unwrap_or_default();
    let instance = event.instance.as_deref().unwrap_or_default();
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
    pub(crate) fn of(
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
        Ok(Some(Self {
            server: settings.name.clone(),
            client,
            url,
            authorization: ArcSwapOption::empty(),
            questions: Semaphore::new(MOST_QUESTIONS),
            owners: remembered(config.fan_ttl.min(REMEMBERED_FOR)),
            turned_away: remembered(config.fan_ttl.min(TURNED_AWAY_FOR)),
        }))
    }

    /// Presents a secret to the platform from now on. False if it cannot stand in a header.
    pub(crate) fn present(&self, secret: &Secret) -> bool {
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
        let session = digest(&self.server, event);
        if let Some(owner) = self.owners.get(&session) {
            return Ok(Some(owner));
        }
        let key = digest_of(&self.server, "", event);
        match self.turned_away.get(&key) {
            Some(None) => return Ok(None),
            Some(Some(why)) => return Err(why),
            None => {}
        }
        let Ok(_question) = self.questions.try_acquire() else {
            return Err(NoAnswer::Busy);
        };
        let answer = self.ask(event).await;
        match &answer {
            Ok(Some(owner)) => self.owners.insert(session, owner.clone()),
            Ok(None) => self.turned_away.insert(key, None),
            Err(why) => self.turned_away.insert(key, Some(*why)),
        }
        answer
    }

    async fn ask(&self, event: &MediaEvent) -> Result<Option<KeyOwner>, NoAnswer> {
        let question = StreamKeyQuestion {
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
            status if is_about_the_key(status) => return Ok(None),
            _ => return Err(NoAnswer::Failed),
        }
        let Ok(Some(body)) = http_answer::body(answer, LONGEST).await else {
            return Err(NoAnswer::Failed);
        };
        let answer: StreamKeyAnswer =
            serde_json::from_slice(&body).map_err(|_| NoAnswer::Failed)?;
        if !answer.allowed {
            return Ok(None);
        }
        match (answer.live_id, answer.streamer_id) {
            (Some(live), Some(streamer)) => Ok(Some(KeyOwner { live, streamer })),
            _ => Err(NoAnswer::Failed),
        }
    }
}

fn remembered<T: Clone + Send + Sync + 'static>(span: Duration) -> moka::sync::Cache<String, T> {
    moka::sync::Cache::builder()
        .time_to_live(span)
        .max_capacity(MOST_REMEMBERED)
        .build()
}

/// Whether the platform refused the key. These other refusals are about the gateway and its secret.
fn is_about_the_key(status: StatusCode) -> bool {
    let is_about_the_gateway = matches!(
        status,
        StatusCode::UNAUTHORIZED
            | StatusCode::PROXY_AUTHENTICATION_REQUIRED
            | StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
    );
    status.is_client_error() && !is_about_the_gateway
}

fn mistake(settings: &MediaServer, problem: String) -> MediaSetupError {
    MediaSetupError {
        server: settings.name.clone(),
        key: "publish-url",
        problem,
    }
}
