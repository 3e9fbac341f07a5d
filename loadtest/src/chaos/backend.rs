//! The platform's backend: opens and closes lives over the HTTP API, and tries gateway after
//! gateway until one has done it.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::api::http_client;

/// How long the backend retries.
const PATIENCE: Duration = Duration::from_secs(40);
const CALL: Duration = Duration::from_secs(3);

pub(crate) struct Backend {
    client: Client,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) epoch: u32,
    pub(crate) slices: u32,
}

impl Backend {
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            client: http_client(CALL)?,
        })
    }

    /// Opens a live, asking the gateways in turn. The body says how.
    pub(crate) async fn open(
        &self,
        at: &[SocketAddr],
        live: &str,
        body: &Value,
    ) -> anyhow::Result<Opened> {
        let (_, answer) = self.retry(at, &Method::PUT, live, Some(body)).await?;
        Ok(Opened {
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
        let (_, answer) = self.retry(at, &Method::GET, live, None).await?;
        Ok(answer["state"].as_str().unwrap_or("unknown").to_owned())
    }

    /// Viewers and fans of a live, as one gateway tells them. Asked once.
    pub(crate) async fn figures(&self, at: SocketAddr, live: &str) -> anyhow::Result<(i64, i64)> {
        let answer = self
            .client
            .get(format!("http://{at}/v1/lives/{live}"))
            .send()
            .await?
            .error_for_status()?;
        let answer: Value = serde_json::from_str(&answer.text().await?)?;
        let viewers = answer["viewers"].as_i64().context("a figure")?;
        let fans = answer["fans"].as_i64().context("a figure")?;
        Ok((viewers, fans))
    }

    /// What a gateway calls itself now. Asked once.
    pub(crate) async fn gateway_id(&self, at: SocketAddr) -> anyhow::Result<String> {
        let answer = self
            .client
            .get(format!("http://{at}/healthz"))
            .send()
            .await?
            .error_for_status()?;
        let answer: Value = serde_json::from_str(&answer.text().await?)?;
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
    ) -> anyhow::Result<(StatusCode, Value)> {
        let deadline = Instant::now() + PATIENCE;
        let mut last = "no gateway is up".to_owned();
        for turn in 0.. {
            if Instant::now() > deadline {
                break;
            }
            if let Some(address) = at.get(turn % at.len().max(1)) {
                let mut request = self
                    .client
                    .request(method.clone(), format!("http://{address}/v1/lives/{live}"));
                if let Some(body) = body {
                    request = request.json(body);
                }
                match request.send().await {
                    Ok(answer) => {
                        let status = answer.status();
                        let text = answer.text().await.unwrap_or_default();
                        if status.is_success() {
                            return Ok((status, serde_json::from_str(&text)?));
                        }
                        last = format!("{status} {text}");
                    }
                    Err(error) => last = error.to_string(),
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
