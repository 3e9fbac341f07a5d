//! The WebSocket client that viewers, devices, streamers and dashboards of every load tool share:
//! it connects, sends text and returns text. It decides nothing: callers choose when to retry, and
//! what an ended socket means.
//!
//! Viewers without a WebSocket use [`http`] and [`datagrams`].
//!
//! Only `bench/generator` has a client of its own, because the cost of this one would distort what
//! it measures.

pub(crate) mod datagrams;
pub(crate) mod http;
pub(crate) mod http_answer;
pub(crate) mod presence;

use std::borrow::Cow;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rollcall::presence::figures::Quality;
use serde::Deserialize;
use thiserror::Error;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as WsError, Message, Utf8Bytes};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::entry::ClientStream;
use crate::error_kind::{self, ErrorName};
use crate::target::Target;

pub(crate) type WebSocket = WebSocketStream<ClientStream>;

/// Any message from the gateway, with the fields that some load tool reads.
#[derive(Debug, Deserialize)]
pub(crate) struct GatewayMessage<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    pub(crate) id: Option<u64>,
    #[serde(default, borrow)]
    pub(crate) code: Option<Cow<'a, str>>,
    pub(crate) fan: Option<bool>,
    pub(crate) viewers: Option<i64>,
    pub(crate) fans: Option<i64>,
    pub(crate) guests: Option<i64>,
    pub(crate) epoch: Option<u32>,
    pub(crate) quality: Option<Quality>,
}

/// Why a socket could not be opened, or how it ended.
#[derive(Debug, Error)]
#[error("{kind}")]
pub(crate) struct Failure {
    pub(crate) kind: ErrorName,
    /// The HTTP status of a refused upgrade, or the close code.
    pub(crate) code: Option<u16>,
    pub(crate) retry_after: Option<Duration>,
}

impl From<ErrorName> for Failure {
    fn from(kind: ErrorName) -> Self {
        Self {
            kind,
            code: None,
            retry_after: None,
        }
    }
}

impl From<WsError> for Failure {
    fn from(error: WsError) -> Self {
        let mut failure = Self::from(error_kind::of_socket(&error));
        if let WsError::Http(response) = &error {
            let after = response
                .headers()
                .get("retry-after")
                .and_then(|after| after.to_str().ok()?.parse().ok());
            failure.code = Some(response.status().as_u16());
            failure.retry_after = after.map(Duration::from_secs);
        }
        failure
    }
}

/// Opens a socket with this query. The buffers are small: tens of thousands of sockets share a
/// process, and no message here is longer than some 200 bytes.
pub(crate) async fn connect(
    target: &Target,
    source: Option<usize>,
    query: &str,
    within: Duration,
) -> Result<WebSocket, Failure> {
    let config = WebSocketConfig::default()
        .read_buffer_size(512)
        .write_buffer_size(0)
        .max_write_buffer_size(16 * 1024)
        .max_message_size(Some(64 * 1024))
        .max_frame_size(Some(64 * 1024));
    let query = target
        .entry
        .query(query)
        .map_err(|_| error_kind::NO_TOKEN)?;
    let url = format!("ws://{}{}?{query}", target.address, target.path);
    let upgrade = async {
        let stream = target
            .connect(source)
            .await
            .map_err(|error| error_kind::of_connect(&error))?;
        let stream = target
            .entry
            .secure(stream)
            .await
            .map_err(|_| error_kind::TLS)?;
        Ok::<_, Failure>(client_async_with_config(url, stream, Some(config)).await?.0)
    };
    timeout(within, upgrade)
        .await
        .unwrap_or_else(|_| Err(error_kind::CONNECT_TIMEOUT.into()))
}

pub(crate) async fn send(
    socket: &mut WebSocket,
    text: impl Into<Utf8Bytes>,
) -> Result<(), Failure> {
    Ok(socket.send(Message::text(text)).await?)
}

/// The next text message. Nothing is lost when the future is dropped.
pub(crate) async fn receive(socket: &mut WebSocket) -> Result<Utf8Bytes, Failure> {
    loop {
        let frame = match socket.next().await {
            Some(Ok(Message::Text(text))) => return Ok(text),
            Some(Ok(Message::Close(frame))) => frame,
            Some(Ok(_)) => continue,
            Some(Err(error)) => return Err(error.into()),
            None => None,
        };
        let code = frame.as_ref().map(|frame| frame.code.into());
        return Err(Failure {
            code,
            ..error_kind::of_close(frame.as_ref()).into()
        });
    }
}

/// Waits for a message of this type.
pub(crate) async fn until(socket: &mut WebSocket, kind: &str) -> Result<(), Failure> {
    while parse(&receive(socket).await?)?.kind != kind {}
    Ok(())
}

pub(crate) fn parse(text: &str) -> Result<GatewayMessage<'_>, ErrorName> {
    serde_json::from_str(text).map_err(|_| error_kind::BAD_FRAME)
}

/// Sends a normal close, after which the gateway counts the viewer no more.
pub(crate) async fn send_close(socket: &mut WebSocket) -> Result<(), Failure> {
    let frame = CloseFrame {
        code: CloseCode::Normal,
        reason: "".into(),
    };
    Ok(socket.send(Message::Close(Some(frame))).await?)
}

/// Reads until the gateway has ended the socket, too.
pub(crate) async fn drain(socket: &mut WebSocket) {
    while let Some(Ok(_)) = socket.next().await {}
}
