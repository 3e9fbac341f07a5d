//! Calls of the HTTP API, as a platform's back end makes them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::api::http_client;

const DEADLINE: Duration = Duration::from_secs(10);

pub(super) struct Http {
    client: reqwest::Client,
}

impl Http {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self { client: http_client(DEADLINE)? })
    }

    /// Any answer but a success is an error. An answer without JSON is null.
    pub(super) async fn call(
        &self,
        method: Method,
        (gateway, path): (SocketAddr, &str),
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let mut request = self.client.request(method.clone(), format!("http://{gateway}{path}"));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.with_context(|| format!("{method} {path}"))?;
        let (status, text) = (answer.status(), answer.text().await?);
        ensure!(status.is_success(), "{method} {path}: {status}: {}", text.chars().take(200).collect::<String>());
        Ok(if status == StatusCode::NO_CONTENT { Value::Null } else { serde_json::from_str(&text).unwrap_or_default() })
    }
}
