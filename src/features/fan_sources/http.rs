//! The platform's own service: `POST {"streamer_id","user_ids":[…]}`, answered by `{"fans":[…]}`.
//! A call makes one attempt with a deadline, follows no redirects, and reads a bounded answer. No
//! error names the URL, which may hold a password.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Certificate, Client, StatusCode, Url};
use serde::{Deserialize, Serialize};

use crate::base::from_files::FromFiles;
use crate::base::http_answer;
use crate::base::http_client;
use crate::base::ids::UserId;
use crate::base::json_error;
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::store::fans::lookup::{FanAnswers, FanError, FanLookup, FanSetupError, answers, secret};

/// The longest answer that is read, in bytes. A thousand ids of 64 bytes take 67,000.
const LONGEST: usize = 256 * 1024;

#[derive(Serialize)]
struct FanSourceQuestion<'a> {
    streamer_id: &'a str,
    user_ids: Vec<&'a str>,
}

#[derive(Deserialize)]
struct FanSourceAnswer {
    fans: Vec<String>,
}

pub(crate) struct HttpFans {
    client: Client,
    url: Url,
    secret_file: Option<PathBuf>,
    /// The header that the secret makes.
    authorization: ArcSwapOption<HeaderValue>,
    timeout: Duration,
    metrics: Arc<Metrics>,
}

impl HttpFans {
    pub(crate) fn new(config: &Config, metrics: Arc<Metrics>) -> Result<Self, FanSetupError> {
        let text = match &config.fan_url {
            Some(url) => url.reveal(),
            None => "",
        };
        let url = Url::parse(text).map_err(|why| FanSetupError::Url(why.to_string()))?;
        let client = http_client::builder(config.fan_timeout, config.proxy());
        let mut client = client.pool_max_idle_per_host(config.fan_calls);
        if let Some(path) = &config.fan_ca {
            client = client.tls_certs_only(authorities(path)?);
        }
        let client = client
            .build()
            .map_err(|why| FanSetupError::Url(http_answer::reason(why)))?;
        let fans = Self {
            client,
            url,
            secret_file: config.fan_secret_file.clone(),
            authorization: ArcSwapOption::empty(),
            timeout: config.fan_timeout,
            metrics,
        };
        fans.read_secret()?;
        Ok(fans)
    }

    async fn fetch(&self, question: &FanSourceQuestion<'_>) -> Result<Vec<u8>, FanError> {
        let mut request = self.client.post(self.url.clone()).json(question);
        if let Some(authorization) = self.authorization.load_full() {
            request = request.header(AUTHORIZATION, (*authorization).clone());
        }
        let answer = request.send().await?;
        if answer.status() != StatusCode::OK {
            return Err(FanError::Status(answer.status().as_u16()));
        }
        http_answer::body(answer, LONGEST)
            .await?
            .ok_or(FanError::TooLong)
    }

    /// Reads the file with the secret, if there is one.
    fn read_secret(&self) -> Result<(), FanSetupError> {
        let Some(secret) = secret(self.secret_file.as_deref())? else {
            return Ok(());
        };
        let mut header =
            HeaderValue::try_from(format!("Bearer {}", secret.reveal())).map_err(|_| {
                let path = self.secret_file.clone().unwrap_or_default();
                let problem = "is no token: a token is one line of visible characters".to_owned();
                FanSetupError::file("fan-secret-file", &path, problem)
            })?;
        header.set_sensitive(true);
        self.authorization.store(Some(Arc::new(header)));
        Ok(())
    }
}

#[async_trait]
impl FanLookup for HttpFans {
    async fn ask(&self, streamer: &UserId, users: &[UserId]) -> Result<FanAnswers, FanError> {
        let user_ids = users.iter().map(UserId::as_str).collect();
        let question = FanSourceQuestion {
            streamer_id: streamer.as_str(),
            user_ids,
        };
        let fetched = tokio::time::timeout(self.timeout, self.fetch(&question)).await;
        let body = fetched.unwrap_or(Err(FanError::Timeout))?;
        let answer: FanSourceAnswer = serde_json::from_slice(&body)
            .map_err(|why| FanError::Nonsense(json_error::without_values(&why)))?;
        Ok(answers(
            users,
            answer.fans.iter().map(String::as_str),
            &self.metrics,
        ))
    }

    fn secret_file(self: Arc<Self>) -> Option<Arc<dyn FromFiles>> {
        Some(self)
    }
}

impl FromFiles for HttpFans {
    fn name(&self) -> &'static str {
        "the secret of the fan source"
    }

    fn files(&self) -> Vec<PathBuf> {
        self.secret_file.iter().cloned().collect()
    }

    fn read_again(&self) -> Result<(), String> {
        self.read_secret().map_err(|why| why.to_string())
    }
}

fn authorities(path: &Path) -> Result<Vec<Certificate>, FanSetupError> {
    let pem =
        std::fs::read(path).map_err(|why| FanSetupError::file("fan-ca", path, why.to_string()))?;
    match Certificate::from_pem_bundle(&pem) {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => {
            let problem = "has no certificate in PEM form that can be used".to_owned();
            Err(FanSetupError::file("fan-ca", path, problem))
        }
    }
}

impl From<reqwest::Error> for FanError {
    fn from(why: reqwest::Error) -> Self {
        if why.is_timeout() {
            Self::Timeout
        } else {
            Self::Unreachable(http_answer::reason(why))
        }
    }
}
