//! What most teams write: on each heartbeat ZSCORE, SADD, EXPIRE and SCARD, awaited one after
//! another.
//!
//! On the same crates as Rollcall and with the same small buffers; a pool of connections that all
//! sockets share, on each of which commands of different sockets follow each other without waiting.
//! Nothing is done to make it slow.

use std::net::SocketAddr;

use anyhow::Context;
use fred::clients::Pool;
use fred::interfaces::{ClientLike, KeysInterface, SetsInterface, SortedSetsInterface};
use fred::types::Builder;
use fred::types::config::Config;
use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::{WebSocketStream, accept_hdr_async_with_config};

use super::bare::small_buffers;

const CONNECTIONS: usize = 4;
const EXPIRE_S: i64 = 15;

#[derive(Deserialize)]
struct NaiveRequest<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
}

#[derive(Serialize)]
struct NaiveAck<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    live_id: &'a str,
    fan: bool,
    viewers: i64,
    fans: i64,
    heartbeat_ms: u64,
}

#[derive(Serialize)]
struct NaiveJoined<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    live_id: &'a str,
}

/// A viewer and the place of the viewer in the keys of Redis.
pub(crate) struct NaiveViewer {
    user: String,
    followers: String,
    online: String,
}

/// What Redis said to a heartbeat.
pub(crate) struct NaiveAnswer {
    pub(crate) fan: bool,
    pub(crate) fans: i64,
}

/// The connections that all viewers share.
pub(crate) async fn connect(redis: SocketAddr) -> anyhow::Result<Pool> {
    let pool = Builder::from_config(Config::from_url(&format!("redis://{redis}"))?)
        .build_pool(CONNECTIONS)?;
    pool.init().await.context("Redis")?;
    Ok(pool)
}

/// Serves until the process ends.
pub(crate) async fn serve(listen: SocketAddr, redis: SocketAddr) -> anyhow::Result<()> {
    let pool = connect(redis).await?;
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(enter(stream, pool.clone()));
    }
}

#[expect(clippy::result_large_err, reason = "the library's own type")]
async fn enter(stream: TcpStream, redis: Pool) {
    let _ = stream.set_nodelay(true);
    let mut query = String::new();
    let read_query = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        query = request.uri().query().unwrap_or_default().to_owned();
        Ok(response)
    };
    let Ok(socket) = accept_hdr_async_with_config(stream, read_query, Some(small_buffers())).await
    else {
        return;
    };
    let field = |name: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(name))
            .unwrap_or_default()
            .to_owned()
    };
    let live = field("live_id=");
    let viewer = NaiveViewer::new(field("user_id="), &live, &field("streamer_id="));
    tokio::spawn(async move { stay(socket, &live, viewer, &redis).await });
}

async fn stay(
    mut socket: WebSocketStream<TcpStream>,
    live: &str,
    viewer: NaiveViewer,
    redis: &Pool,
) {
    let joined = serde_json::to_string(&NaiveJoined {
        kind: "joined",
        live_id: live,
    })
    .unwrap_or_default();
    if socket.send(Message::text(joined)).await.is_err() {
        return;
    }
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else {
            continue;
        };
        if serde_json::from_str::<NaiveRequest<'_>>(&text)
            .is_ok_and(|asked| asked.kind == "heartbeat")
        {
            let Ok(NaiveAnswer { fan, fans }) = viewer.heartbeat(redis).await else {
                return;
            };
            let ack = NaiveAck {
                kind: "heartbeat_ack",
                live_id: live,
                fan,
                viewers: fans,
                fans,
                heartbeat_ms: 5000,
            };
            let ack = serde_json::to_string(&ack).unwrap_or_default();
            if socket.send(Message::text(ack)).await.is_err() {
                return;
            }
        }
    }
}

impl NaiveViewer {
    pub(crate) fn new(user: String, live: &str, streamer: &str) -> Self {
        Self {
            user,
            followers: format!("followers:{streamer}"),
            online: format!("online-fans:{live}"),
        }
    }

    /// The four calls.
    pub(crate) async fn heartbeat(&self, redis: &Pool) -> anyhow::Result<NaiveAnswer> {
        let since: Option<f64> = redis.zscore(&self.followers, &self.user).await?;
        if since.is_some() {
            let _: i64 = redis.sadd(&self.online, &self.user).await?;
            let _: i64 = redis.expire(&self.online, EXPIRE_S, None).await?;
        }
        let fans: i64 = redis.scard(&self.online).await?;
        Ok(NaiveAnswer {
            fan: since.is_some(),
            fans,
        })
    }
}
