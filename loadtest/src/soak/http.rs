//! Calls of the HTTP API, as a platform's back end makes them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::api::http_client;

const DEADLINE: Duration = Duration::from_secs(10);
/// The delay before a call that a gateway refused is made again.
const RETRY_DELAY: Duration = Duration::from_millis(300);

pub(super) struct Http {
    client: reqwest::Client,
}

impl Http {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            client: http_client(DEADLINE)?,
        })
    }

    /// Any answer but a success is an error. An answer without JSON is null. While the store does
    /// not answer, as on a machine that is too busy, a back end asks again.
    pub(super) async fn call(
        &self,
        method: Method,
        (gateway, path): (SocketAddr, &str),
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let (status, text) = self.ask(&method, (gateway, path), body).await?;
            if status == StatusCode::SERVICE_UNAVAILABLE && Instant::now() < deadline {
                sleep(RETRY_DELAY).await;
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
        (gateway, path): (SocketAddr, &str),
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, String)> {
        let mut request = self
            .client
            .request(method.clone(), format!("http://{gateway}{path}"));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request
            .send()
            .await
            .with_context(|| format!("{method} {path}"))?;
        Ok((answer.status(), answer.text().await?))
    }
}
