//! The gateway's HTTP API, as a crowd needs it: opens lives and writes follows before a run, and
//! removes both afterwards.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::{Certificate, Client, ClientBuilder, Method, StatusCode, redirect};
use serde_json::{Value, json};

use crate::args::CrowdArgs;
use crate::entry::token;
use crate::plan::CrowdPlan;
use crate::target::Target;

const DEADLINE: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 64;

/// How long an idle connection is used again. Gateways close idle ones after some seconds, and a
/// request that is sent at that moment would be lost.
const IDLE: Duration = Duration::from_secs(1);

/// An HTTP client that stays with the address it is given: a proxy or a redirect would lead away
/// from it.
pub(crate) fn http_client(timeout: Duration) -> reqwest::Result<Client> {
    http_client_builder(timeout).build()
}

fn http_client_builder(timeout: Duration) -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .timeout(timeout)
        .pool_idle_timeout(IDLE)
}

/// The gateway's `/v1`.
pub(crate) struct Api {
    client: Client,
    base: String,
    key: Option<String>,
}

impl Api {
    fn new(target: &Target, ca: Option<&Path>, key: Option<String>) -> anyhow::Result<Self> {
        let client = http_client_builder(DEADLINE);
        let address = target.address;
        let Some(name) = &target.entry.name else {
            return Ok(Self {
                client: client.build()?,
                base: format!("http://{address}/v1"),
                key,
            });
        };
        let ca = ca.context("https:// needs --ca")?;
        let trusted = Certificate::from_pem_bundle(
            &std::fs::read(ca).with_context(|| ca.display().to_string())?,
        )?;
        let client = client.tls_certs_only(trusted).resolve(name, address);
        let host = if name.contains(':') {
            format!("[{name}]")
        } else {
            name.clone()
        };
        Ok(Self {
            client: client.build()?,
            base: format!("https://{host}:{}/v1", address.port()),
            key,
        })
    }

    /// The API of a crowd's gateway, with the key from the file, if there is one.
    pub(crate) fn of(args: &CrowdArgs, plan: &CrowdPlan) -> anyhow::Result<Self> {
        let key = match (&args.api_key_file, &args.jwt_hs256_secret_file) {
            (Some(file), _) => {
                let key =
                    std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
                Some(key.trim().to_owned())
            }
            (None, Some(secret)) => Some(token(secret, "loadtest", "service")?),
            (None, None) => None,
        };
        Self::new(&args.api_target(&plan.target)?, args.ca.as_deref(), key)
    }

    /// Opens the lives, and writes the follows if that is wanted. Returns how many follows it wrote.
    pub(crate) async fn set_up(&self, args: &CrowdArgs, plan: &CrowdPlan) -> anyhow::Result<usize> {
        self.open_lives(plan, args.slices).await?;
        if args.no_setup {
            return Ok(0);
        }
        self.follows(plan, &Method::PUT).await
    }

    /// Removes what [`Self::set_up`] wrote, unless it is to stay.
    pub(crate) async fn clear(&self, args: &CrowdArgs, plan: &CrowdPlan) -> anyhow::Result<()> {
        if args.keep {
            return Ok(());
        }
        self.close_lives(plan)
            .await
            .context("clearing up after the run")?;
        if !args.no_setup {
            self.follows(plan, &Method::DELETE)
                .await
                .context("clearing up after the run")?;
        }
        Ok(())
    }

    async fn open_lives(&self, plan: &CrowdPlan, slices: Option<u32>) -> anyhow::Result<()> {
        let calls = (0..plan.lives as u32).map(|live| {
            let mut body = json!({ "streamer_id": plan.streamer_id(live) });
            if let Some(slices) = slices {
                body["slices"] = slices.into();
            }
            (
                Method::PUT,
                format!("/lives/{}", plan.live_id(live)),
                Some(body),
            )
        });
        self.all(calls).await
    }

    async fn close_lives(&self, plan: &CrowdPlan) -> anyhow::Result<()> {
        self.all((0..plan.lives as u32).map(|live| {
            (
                Method::DELETE,
                format!("/lives/{}", plan.live_id(live)),
                None,
            )
        }))
        .await
    }

    /// Makes every fan of the plan follow its streamer, or end it; answers how many there are.
    async fn follows(&self, plan: &CrowdPlan, method: &Method) -> anyhow::Result<usize> {
        let roster = plan.roster();
        let fans = roster.iter().enumerate().filter(|(_, role)| role.fan);
        let calls = fans.map(|(viewer, role)| {
            let path = format!(
                "/users/{}/following/{}",
                plan.user_id(viewer),
                plan.streamer_id(role.live)
            );
            (method.clone(), path, None)
        });
        self.all(calls).await?;
        Ok(roster.iter().filter(|role| role.fan).count())
    }

    async fn all(
        &self,
        calls: impl Iterator<Item = (Method, String, Option<Value>)>,
    ) -> anyhow::Result<()> {
        let calls = calls.map(|(method, path, body)| self.call(method, path, body));
        stream::iter(calls)
            .buffer_unordered(AT_ONCE)
            .try_for_each(|()| async { Ok(()) })
            .await
    }

    async fn call(&self, method: Method, path: String, body: Option<Value>) -> anyhow::Result<()> {
        let mut request = self
            .client
            .request(method.clone(), format!("{}{path}", self.base));
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = &body {
            request = request.json(body);
        }
        let response = request
            .send()
            .await
            .with_context(|| format!("{method} /v1{path}"))?;
        let status = response.status();
        // A cleanup may find that a live or follow is already gone.
        if status.is_success() || (method == Method::DELETE && status == StatusCode::NOT_FOUND) {
            // A connection is reused only if its answer was read to the end.
            response.bytes().await?;
            return Ok(());
        }
        let detail = response.text().await.unwrap_or_default();
        bail!(
            "{method} /v1{path}: {status}: {}",
            detail.chars().take(300).collect::<String>()
        );
    }
}
