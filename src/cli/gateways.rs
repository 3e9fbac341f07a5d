//! Asks gateways over HTTP what they hold. The commands ask few questions, so each gets a connection of its own.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::base::gateway_url::GatewayUrl;
use crate::base::ids::{GatewayId, LiveId, SliceId, UserId};
use crate::edge::http::gateway::{SliceHeld, SlicesHeld, ViewerKnown};

/// The time for one question, from the connection to the answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// The largest answer. A page of a thousand slices has some 300 KB.
const MAX_ANSWER: usize = 4 << 20;

/// Slices in a page.
const PAGE: usize = 1_000;

/// A page of the slices in which the gateway has an entry.
pub(super) async fn slices(url: &GatewayUrl, cursor: &str) -> anyhow::Result<SlicesHeld> {
    get(url, &format!("/v1/gateway/slices?limit={PAGE}&cursor={cursor}")).await
}

/// What the gateway holds in one slice; `None` if it has no entry there. It is an error if the gateway was buried and
/// has a new id.
pub(super) async fn slice(url: &GatewayUrl, id: &GatewayId, slice: &SliceId) -> anyhow::Result<Option<SliceHeld>> {
    let SliceId { live, index, .. } = slice;
    let page: SlicesHeld = get(url, &format!("/v1/gateway/slices?live_id={live}&slice={index}")).await?;
    anyhow::ensure!(page.gateway_id == id.as_str(), "its id is now {}, and no longer {id}", page.gateway_id);
    Ok(page.items.into_iter().next())
}

/// What the gateway knows of a user in a live. Ids consist of characters that need no escaping in a path.
pub(super) async fn viewer(url: &GatewayUrl, live: &LiveId, user: &UserId) -> anyhow::Result<ViewerKnown> {
    get(url, &format!("/v1/gateway/lives/{live}/viewers/{user}")).await
}

async fn get<T: DeserializeOwned>(url: &GatewayUrl, path: &str) -> anyhow::Result<T> {
    let asking = async {
        let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
        let answer = client.get(format!("{url}{path}").parse()?).await?;
        let status = answer.status();
        anyhow::ensure!(status == StatusCode::OK, "{path} answered {status}");
        let body = to_bytes(Body::new(answer.into_body()), MAX_ANSWER).await?;
        Ok(serde_json::from_slice(&body)?)
    };
    timeout(DEADLINE, Box::pin(asking)).await?
}
