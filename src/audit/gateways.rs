//! Asks gateways over HTTP what they hold. Each question has a connection of its own, for there are few.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::uri::Authority;
use axum::http::{Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::api::gateway::{SliceHeld, SlicesHeld, ViewerKnown};
use crate::ids::{GatewayId, LiveId, SliceId, UserId};

/// For one question, from the connection to the answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// The largest answer that is read: a page of a thousand slices has some 300 KB.
const MAX_ANSWER: usize = 4 << 20;

/// Slices in a page.
const PAGE: usize = 1_000;

/// Where a gateway's HTTP API is: `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayUrl(Authority);

impl std::fmt::Display for GatewayUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.0)
    }
}

impl GatewayUrl {
    /// Reads `http://host:port`; the default port is 80.
    ///
    /// # Errors
    /// What would be an address.
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        const RIGHT: &str = "is no address of a gateway; right would be http://host:port";
        let authority = url.strip_prefix("http://").ok_or(RIGHT)?.trim_end_matches('/');
        let authority: Authority = authority.parse().map_err(|_| RIGHT)?;
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(RIGHT);
        }
        Ok(Self(authority))
    }

    /// A page of what the gateway holds.
    pub(super) async fn slices(&self, cursor: &str) -> anyhow::Result<SlicesHeld> {
        self.get(&format!("/v1/gateway/slices?limit={PAGE}&cursor={cursor}")).await
    }

    /// What the gateway holds in one slice; `None` if it has no entry there. A gateway that was buried and goes by a new id is
    /// an error.
    pub(super) async fn slice(&self, id: &GatewayId, slice: &SliceId) -> anyhow::Result<Option<SliceHeld>> {
        let SliceId { live, index, .. } = slice;
        let page: SlicesHeld = self.get(&format!("/v1/gateway/slices?live_id={live}&slice={index}")).await?;
        anyhow::ensure!(page.gateway_id == id.as_str(), "it is {} now, and no longer {id}", page.gateway_id);
        Ok(page.items.into_iter().next())
    }

    /// What the gateway knows of a user in a live. No id needs escaping in a path.
    pub(super) async fn viewer(&self, live: &LiveId, user: &UserId) -> anyhow::Result<ViewerKnown> {
        self.get(&format!("/v1/gateway/lives/{live}/viewers/{user}")).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        let asking = async {
            let address = (self.0.host().trim_matches(['[', ']']), self.0.port_u16().unwrap_or(80));
            let stream = TcpStream::connect(address).await?;
            let (mut sender, connection) = http1::handshake::<_, Body>(TokioIo::new(stream)).await?;
            // This task ends with the question, as `sender` is dropped then.
            tokio::spawn(connection);
            let request = Request::get(path).header(header::HOST, self.0.as_str()).body(Body::empty())?;
            let answer = sender.send_request(request).await?;
            let status = answer.status();
            anyhow::ensure!(status == StatusCode::OK, "{path} answered {status}");
            let body = to_bytes(Body::new(answer.into_body()), MAX_ANSWER).await?;
            Ok(serde_json::from_slice(&body)?)
        };
        timeout(DEADLINE, Box::pin(asking)).await?
    }
}
