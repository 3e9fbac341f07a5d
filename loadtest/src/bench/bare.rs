//! The yardstick: a heartbeat echo on tokio-tungstenite that does nothing else.
//!
//! The same runtime, library and buffer sizes as Rollcall has, and its habit of leaving the
//! handshake's task behind; no JSON, no store, no rooms. What a heartbeat or a socket costs here is
//! the price of the WebSocket alone.

use std::net::SocketAddr;

use futures_util::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, accept_async_with_config};

/// As long as Rollcall's for a live of 200.
const ACK: &str = r#"{"type":"heartbeat_ack","live_id":"l0","fan":true,"viewers":200,"fans":200,"heartbeat_ms":5000}"#;
/// Longer messages are echoed, so that an answer can be as long as Rollcall's echo of an id.
const LONG: usize = 1024;

/// Small buffers: a socket's memory is what is measured.
pub(crate) fn small_buffers() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(512)
        .write_buffer_size(0)
        .max_write_buffer_size(64 << 10)
        .max_message_size(Some(4 << 10))
        .max_frame_size(Some(4 << 10))
}

/// Serves until the process ends.
pub(crate) async fn serve(listen: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            // A task of its own for what is left, so that the handshake's memory goes with the
            // handshake.
            if let Ok(socket) = accept_async_with_config(stream, Some(small_buffers())).await {
                tokio::spawn(answer(socket));
            }
        });
    }
}

async fn answer(mut socket: WebSocketStream<TcpStream>) {
    while let Some(Ok(message)) = socket.next().await {
        let sent = match message {
            Message::Text(text) if text.len() > LONG => socket.send(Message::Text(text)).await,
            Message::Text(_) => socket.send(Message::text(ACK)).await,
            _ => continue,
        };
        if sent.is_err() {
            return;
        }
    }
}
