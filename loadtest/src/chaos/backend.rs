//! The platform's backend: calls the HTTP API. It opens and closes lives, and tries gateway after
//! gateway until one has done it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::api::http_client;

/// How long the backend retries.
const PATIENCE: Duration = Duration::from_secs(40);
const CALL: Duration = Duration::from_secs(3);
/// How long it asks a gateway whose store does not answer, and the time between two calls.
const STORE_PATIENCE: Duration = Duration::from_secs(10);
const STORE_PAUSE: Duration = Duration::from_millis(300);

pub(crate) struct Backend {
    client: Client,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EpochAndSlices {
    pub(crate) epoch: u32,
    pub(crate) slices: u32,
}

impl Backend {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Self::with_patience(CALL)
    }

    /// A call may take so long.
    pub(crate) fn with_patience(within: Duration) -> anyhow::Result<Self> {
        Ok(Self {
            client: http_client(within)?,
        })
    }

    /// Calls one gateway. Any answer but a success is an error. An answer without JSON is null. While
    /// the store does not answer, as on a machine that is too busy, a back end asks again.
    pub(crate) async fn call(
        &self,
        method: &Method,
        (at, path): (SocketAddr, &str),
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let deadline = Instant::now() + STORE_PATIENCE;
        loop {
            let (status, text) = self.ask(method, (at, path), body).await?;
            if status == StatusCode::SERVICE_UNAVAILABLE && Instant::now() < deadline {
                sleep(STORE_PAUSE).await;
                continue;
            }
            ensure!(
                status.is_success(),
                "{method} {path}: {status}: {}",
                text.chars().take(200).collect::<String>()
            );
            return Ok(serde_json::from_str(&text).unwrap_or_default());
        }
    }

    async fn ask(
        &self,
        method: &Method,
        (at, path): (SocketAddr, &str),
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, String)> {
        let url = format!("http://{at}{path}");
        let mut request = self.client.request(method.clone(), url);
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request
            .send()
            .await
            .with_context(|| format!("{method} {path}"))?;
        Ok((answer.status(), answer.text().await?))
    }

    /// What a gateway answers. Asked once.
    async fn get(&self, at: SocketAddr, path: &str) -> anyhow::Result<Value> {
        let (status, text) = self.ask(&Method::GET, (at, path), None).await?;
        ensure!(status.is_success(), "{path}: {status}");
        Ok(serde_json::from_str(&text)?)
    }

    /// Opens a live, asking the gateways in turn. The body says how.
    pub(crate) async fn open(
        &self,
        at: &[SocketAddr],
        live: &str,
        body: &Value,
    ) -> anyhow::Result<EpochAndSlices> {
        let answer = self.retry(at, &Method::PUT, live, Some(body)).await?;
        Ok(EpochAndSlices {
            epoch: u32_in(&answer, "epoch").context("an opened live")?,
            slices: u32_in(&answer, "slices").context("an opened live")?,
        })
    }

    /// Closes a live.
    pub(crate) async fn close(&self, at: &[SocketAddr], live: &str) -> anyhow::Result<()> {
        // With the record lost there is nothing to close yet: the gateways write it again.
        self.retry(at, &Method::DELETE, live, None).await.map(drop)
    }

    /// The state of a live, as a gateway tells it.
    pub(crate) async fn state(&self, at: &[SocketAddr], live: &str) -> anyhow::Result<String> {
        let answer = self.retry(at, &Method::GET, live, None).await?;
        Ok(answer["state"].as_str().unwrap_or("unknown").to_owned())
    }

    /// Viewers and fans of a live, as one gateway tells them. Asked once.
    pub(crate) async fn figures(&self, at: SocketAddr, live: &str) -> anyhow::Result<(i64, i64)> {
        let answer = self.get(at, &format!("/v1/lives/{live}")).await?;
        let viewers = answer["viewers"].as_i64().context("a figure")?;
        let fans = answer["fans"].as_i64().context("a figure")?;
        Ok((viewers, fans))
    }

    /// What a gateway calls itself now. Asked once.
    pub(crate) async fn gateway_id(&self, at: SocketAddr) -> anyhow::Result<String> {
        let answer = self.get(at, "/healthz").await?;
        Ok(answer["gateway_id"]
            .as_str()
            .context("the id of a gateway")?
            .to_owned())
    }

    async fn retry(
        &self,
        at: &[SocketAddr],
        method: &Method,
        live: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let path = format!("/v1/lives/{live}");
        let deadline = Instant::now() + PATIENCE;
        let mut last = "no gateway is up".to_owned();
        for turn in 0.. {
            if Instant::now() > deadline {
                break;
            }
            if let Some(address) = at.get(turn % at.len().max(1)) {
                match self.ask(method, (*address, &path), body).await {
                    Ok((status, text)) if status.is_success() => {
                        return Ok(serde_json::from_str(&text)?);
                    }
                    Ok((status, text)) => last = format!("{status} {text}"),
                    Err(error) => last = format!("{error:#}"),
                }
            }
            sleep(Duration::from_millis(200)).await;
        }
        bail!("{method} {live} was not done in {PATIENCE:?}: {last}")
    }
}

fn u32_in(answer: &Value, field: &str) -> Option<u32> {
    u32::try_from(answer[field].as_u64()?).ok()
}
