//! Asks gateways over HTTP what they hold.

use std::io;
use std::path::Path;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::{Certificate, Client, StatusCode};
use serde::de::DeserializeOwned;

use crate::base::gateway_url::GatewayUrl;
use crate::base::http_answer;
use crate::base::http_client::{self, Proxy};
use crate::base::ids::{GatewayId, LiveId, SliceId, UserId};
use crate::config::GatewayArgs;
use crate::edge::http::gateway::{SetName, SliceHeld, SlicesHeld, ViewerKnown};

/// The deadline of one request, from the connection to the answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// The largest answer. A page of a thousand slices has some 300 KB.
const MAX_ANSWER: usize = 4 << 20;

/// Slices in a page.
const PAGE: usize = 1_000;

/// A mistake in the options that say how to ask gateways. It quotes nothing of the files.
#[derive(Debug, thiserror::Error)]
#[error("--{option}: {problem}")]
pub(crate) struct BadOption {
    option: &'static str,
    problem: String,
}

impl BadOption {
    fn of_api_key_file(problem: impl Into<String>) -> Self {
        Self {
            option: "api-key-file",
            problem: problem.into(),
        }
    }

    fn of_gateway_ca(problem: impl Into<String>) -> Self {
        Self {
            option: "gateway-ca",
            problem: problem.into(),
        }
    }
}

/// A gateway does not take the API key, or wants one.
#[derive(Debug, thiserror::Error)]
#[error("{0}; name a file with one that has the scope read: --api-key-file FILE")]
pub(crate) struct KeyRefused(&'static str);

/// One gateway, and how to ask it.
#[derive(Debug, Clone)]
pub(crate) struct GatewayApi {
    pub(crate) url: GatewayUrl,
    http: Client,
    /// Whether the questions carry an API key.
    shows_key: bool,
}

/// The gateways that the options name.
pub(crate) fn open(args: &GatewayArgs) -> Result<Vec<GatewayApi>, BadOption> {
    if args.urls.is_empty() {
        return Ok(Vec::new());
    }
    // A redirect could lead the key elsewhere.
    let mut client = http_client::builder(DEADLINE, Proxy::Never);
    if let Some(file) = &args.api_key_file {
        let key = std::fs::read_to_string(file)
            .map_err(|why| BadOption::of_api_key_file(unreadable(file, &why)))?;
        let mut header = HeaderValue::from_str(&format!("Bearer {}", key.trim()))
            .map_err(|_| BadOption::of_api_key_file("does not hold a key"))?;
        header.set_sensitive(true);
        client = client.default_headers(HeaderMap::from_iter([(AUTHORIZATION, header)]));
    }
    if let Some(file) = &args.ca {
        let pem =
            std::fs::read(file).map_err(|why| BadOption::of_gateway_ca(unreadable(file, &why)))?;
        let trusted = Certificate::from_pem_bundle(&pem).unwrap_or_default();
        if trusted.is_empty() {
            return Err(BadOption::of_gateway_ca("holds no certificate in PEM"));
        }
        client = client.tls_certs_only(trusted);
    }
    let http = client
        .build()
        .map_err(|why| BadOption::of_gateway_ca(why.to_string()))?;
    let shows_key = args.api_key_file.is_some();
    Ok(args
        .urls
        .iter()
        .map(|url| GatewayApi {
            url: url.clone(),
            http: http.clone(),
            shows_key,
        })
        .collect())
}

fn unreadable(file: &Path, why: &io::Error) -> String {
    format!("cannot be read: {} ({})", why.kind(), file.display())
}

/// The reason why a gateway did not answer, in a sentence.
fn why_no_answer(why: reqwest::Error) -> String {
    let hint = match http_answer::certificate_problem(&why) {
        Some(_) => "; --gateway-ca FILE names the authority that issued it",
        None => "",
    };
    format!("{}{hint}", http_answer::reason(why))
}

impl GatewayApi {
    /// A page of the slices in which the gateway has an entry.
    pub(crate) async fn slices(&self, cursor: &str) -> anyhow::Result<SlicesHeld> {
        self.get(&format!("/v1/gateway/slices?limit={PAGE}&cursor={cursor}"))
            .await
    }

    /// What the gateway holds in one slice. `None` if it has no entry there. An error if the gateway
    /// was buried and has a new id.
    pub(crate) async fn slice(
        &self,
        id: &GatewayId,
        slice: &SliceId,
    ) -> anyhow::Result<Option<SliceHeld>> {
        let set = format!("{:?}", SetName::from(&slice.set)).to_lowercase();
        let index = slice.index;
        let of_live = match slice.live() {
            Some(live) => format!("&live_id={live}"),
            None => String::new(),
        };
        let page: SlicesHeld = self
            .get(&format!(
                "/v1/gateway/slices?set={set}&slice={index}{of_live}"
            ))
            .await?;
        anyhow::ensure!(
            page.gateway_id == id.as_str(),
            "its id is now {}, and no longer {id}",
            page.gateway_id
        );
        Ok(page.items.into_iter().next())
    }

    /// What the gateway knows of a user in a live. Ids consist of characters that need no escaping
    /// in a path.
    pub(crate) async fn viewer(&self, live: &LiveId, user: &UserId) -> anyhow::Result<ViewerKnown> {
        self.get(&format!("/v1/gateway/lives/{live}/viewers/{user}"))
            .await
    }

    /// Asks for a path with its query, and reads the answer.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let asked = self.http.get(format!("{}{path}", self.url)).send().await;
        let mut answer = asked.map_err(|why| anyhow::anyhow!(why_no_answer(why)))?;
        match answer.status() {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED if self.shows_key => {
                return Err(KeyRefused("the gateway does not know this API key").into());
            }
            StatusCode::UNAUTHORIZED => {
                return Err(KeyRefused("the gateway wants an API key").into());
            }
            StatusCode::FORBIDDEN => return Err(KeyRefused("the API key may not read").into()),
            // The message leaves out the query, which may be long and says nothing to people.
            status => anyhow::bail!(
                "{} answered {status}",
                path.split('?').next().unwrap_or_default()
            ),
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer
            .chunk()
            .await
            .map_err(|why| anyhow::anyhow!(why_no_answer(why)))?
        {
            anyhow::ensure!(
                body.len() + chunk.len() <= MAX_ANSWER,
                "it answered more than {MAX_ANSWER} bytes"
            );
            body.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&body)
            .map_err(|_| anyhow::anyhow!("it does not answer as a gateway does"))
    }
}
