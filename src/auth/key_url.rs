//! Fetches a key set from its URL: one attempt, with a deadline, and with a bound on what is read.
//! No error names the URL, whose query may hold a password.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::{Client, StatusCode, Url};

use super::jwks::SetError;
use super::keys::LONGEST;
use crate::base::http_answer;
use crate::base::http_client::{self, Proxy};

/// The time for one fetch, from the connection to the last byte.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

const MOST_REDIRECTS: usize = 3;

/// The place that a key set is fetched from.
#[async_trait]
pub(super) trait KeySource: Send + Sync {
    /// The text of the set.
    async fn fetch(&self) -> Result<Vec<u8>, FetchError>;
}

/// Why a key set could not be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The request failed.
    #[error("the URL does not answer: {0}")]
    Unreachable(String),
    /// The answer is not 200.
    #[error("the URL answers {0}")]
    Status(u16),
    /// The answer is longer than any key set.
    #[error("the answer is longer than 1 MiB")]
    TooLong,
    /// The answer is no key set.
    #[error("the answer {0}")]
    Set(String),
}

impl FetchError {
    /// The label in the metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Status(_) => "status",
            Self::TooLong => "too_long",
            Self::Set(_) => "bad_set",
        }
    }
}

impl From<SetError> for FetchError {
    fn from(why: SetError) -> Self {
        Self::Set(why.to_string())
    }
}

impl From<reqwest::Error> for FetchError {
    fn from(why: reqwest::Error) -> Self {
        Self::Unreachable(http_answer::reason(why))
    }
}

/// A URL of http or https.
pub(super) struct KeyUrl {
    client: Client,
    url: Url,
}

impl KeyUrl {
    pub(super) fn new(url: Url, proxy: Proxy) -> Result<Self, FetchError> {
        let redirects = http_client::redirects_within(url.scheme(), MOST_REDIRECTS);
        let client = http_client::builder(DEADLINE, proxy)
            .redirect(redirects)
            .build()?;
        Ok(Self { client, url })
    }
}

#[async_trait]
impl KeySource for KeyUrl {
    async fn fetch(&self) -> Result<Vec<u8>, FetchError> {
        let answer = self.client.get(self.url.clone()).send().await?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        http_answer::body(answer, LONGEST)
            .await?
            .ok_or(FetchError::TooLong)
    }
}

#[cfg(test)]
mod tests;
