//! The calls to the gateway's HTTP API that set a run's stage and clear it afterwards.

use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::{Client, Method, StatusCode, redirect};
use serde_json::{Value, json};

use crate::plan::CrowdPlan;
use crate::target::Target;

const DEADLINE: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 64;

/// The gateway's `/v1`.
pub(crate) struct Api {
    client: Client,
    base: String,
    key: Option<String>,
}

impl Api {
    pub(crate) fn new(target: &Target, key: Option<String>) -> anyhow::Result<Self> {
        // No proxy and no redirect: either would lead away from the address that was checked.
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(DEADLINE)
            .pool_max_idle_per_host(AT_ONCE)
            .build()?;
        Ok(Self { client, base: format!("http://{}/v1", target.address), key })
    }

    pub(crate) async fn open_lives(&self, plan: &CrowdPlan, slices: Option<u32>) -> anyhow::Result<()> {
        let calls = (0..plan.lives as u32).map(|live| {
            let mut body = json!({ "streamer_id": plan.streamer_id(live) });
            if let Some(slices) = slices {
                body["slices"] = slices.into();
            }
            (Method::PUT, format!("/lives/{}", plan.live_id(live)), Some(body))
        });
        self.all(calls).await
    }

    pub(crate) async fn close_lives(&self, plan: &CrowdPlan) -> anyhow::Result<()> {
        self.all((0..plan.lives as u32).map(|live| (Method::DELETE, format!("/lives/{}", plan.live_id(live)), None)))
            .await
    }

    /// Makes every fan of the plan follow its streamer; answers how many there are.
    pub(crate) async fn follow(&self, plan: &CrowdPlan) -> anyhow::Result<usize> {
        self.follows(plan, &Method::PUT).await
    }

    pub(crate) async fn unfollow(&self, plan: &CrowdPlan) -> anyhow::Result<usize> {
        self.follows(plan, &Method::DELETE).await
    }

    async fn follows(&self, plan: &CrowdPlan, method: &Method) -> anyhow::Result<usize> {
        let roster = plan.roster();
        let fans = roster.iter().enumerate().filter(|(_, role)| role.fan);
        let path = |viewer, live| format!("/users/{}/following/{}", plan.user_id(viewer), plan.streamer_id(live));
        self.all(fans.map(|(viewer, role)| (method.clone(), path(viewer, role.live), None))).await?;
        Ok(roster.iter().filter(|role| role.fan).count())
    }

    async fn all(&self, calls: impl Iterator<Item = (Method, String, Option<Value>)>) -> anyhow::Result<()> {
        let calls = calls.map(|(method, path, body)| self.call(method, path, body));
        stream::iter(calls).buffer_unordered(AT_ONCE).try_for_each(|()| async { Ok(()) }).await
    }

    async fn call(&self, method: Method, path: String, body: Option<Value>) -> anyhow::Result<()> {
        let mut request = self.client.request(method.clone(), format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = &body {
            request = request.json(body);
        }
        let response = request.send().await.with_context(|| format!("{method} /v1{path}"))?;
        let status = response.status();
        // What is already gone needs no clearing.
        if status.is_success() || (method == Method::DELETE && status == StatusCode::NOT_FOUND) {
            // Read to its end, or the connection is not used again.
            response.bytes().await?;
            return Ok(());
        }
        let detail = response.text().await.unwrap_or_default();
        bail!("{method} /v1{path}: {status}: {}", detail.chars().take(300).collect::<String>());
    }
}
