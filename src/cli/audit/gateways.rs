//! Asks gateways over HTTP what they hold. Each question has a connection of its own, for there are few.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::base::gateway_url::GatewayUrl;
use crate::base::ids::{GatewayId, LiveId, SliceId, UserId};
use crate::edge::http::gateway::{SliceHeld, SlicesHeld, ViewerKnown};

/// For one question, from the connection to the answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// The largest answer that is read: a page of a thousand slices has some 300 KB.
const MAX_ANSWER: usize = 4 << 20;

/// Slices in a page.
const PAGE: usize = 1_000;

/// A page of what the gateway holds.
pub(super) async fn slices(url: &GatewayUrl, cursor: &str) -> anyhow::Result<SlicesHeld> {
    get(url, &format!("/v1/gateway/slices?limit={PAGE}&cursor={cursor}")).await
}

/// What the gateway holds in one slice; `None` if it has no entry there. A gateway that was buried and goes by a new id
/// is an error.
pub(super) async fn slice(url: &GatewayUrl, id: &GatewayId, slice: &SliceId) -> anyhow::Result<Option<SliceHeld>> {
    let SliceId { live, index, .. } = slice;
    let page: SlicesHeld = get(url, &format!("/v1/gateway/slices?live_id={live}&slice={index}")).await?;
    anyhow::ensure!(page.gateway_id == id.as_str(), "it is {} now, and no longer {id}", page.gateway_id);
    Ok(page.items.into_iter().next())
}

/// What the gateway knows of a user in a live. No id needs escaping in a path.
pub(super) async fn viewer(url: &GatewayUrl, live: &LiveId, user: &UserId) -> anyhow::Result<ViewerKnown> {
    get(url, &format!("/v1/gateway/lives/{live}/viewers/{user}")).await
}

async fn get<T: DeserializeOwned>(url: &GatewayUrl, path: &str) -> anyhow::Result<T> {
    let asking = async {
        let address = (url.authority().host().trim_matches(['[', ']']), url.authority().port_u16().unwrap_or(80));
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) = http1::handshake::<_, Body>(TokioIo::new(stream)).await?;
        // This task ends with the question, as `sender` is dropped then.
        tokio::spawn(connection);
        let request = Request::get(path).header(header::HOST, url.authority().as_str()).body(Body::empty())?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        anyhow::ensure!(status == StatusCode::OK, "{path} answered {status}");
        let body = to_bytes(Body::new(answer.into_body()), MAX_ANSWER).await?;
        Ok(serde_json::from_slice(&body)?)
    };
    timeout(DEADLINE, Box::pin(asking)).await?
}
