//! A client that may break every rule: it writes bytes as it likes, and tells what the gateway
//! answered in a few words, such as `401 unauthorized` or `error rate_limited, close 4008`.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{interval, timeout};
use tokio_tungstenite::tungstenite::protocol::frame::coding::OpCode;

use crate::bench::generator::frames;

/// The connection ended with no close frame and no HTTP answer.
pub(super) const ENDED: &str = "connection closed";

const FINAL: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;

/// A whole text message.
pub(super) fn text(payload: &str) -> Vec<u8> {
    frame(FINAL | TEXT, payload.as_bytes())
}

/// A part of a message that has no last one.
pub(super) fn fragment(number: u64, payload: &[u8]) -> Vec<u8> {
    frame(if number == 0 { TEXT } else { CONTINUATION }, payload)
}

/// A frame with this first byte. The mask is zero, which is a mask.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ ..126 => frame.push(0x80 | short as u8),
        long => frame.extend([0x80 | 127].into_iter().chain((long as u64).to_be_bytes())),
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

pub(super) struct Wire {
    ears: Ears,
    write: OwnedWriteHalf,
}

struct Ears {
    read: OwnedReadHalf,
    /// What was read and not yet looked at.
    buffer: Vec<u8>,
}

impl Wire {
    pub(super) async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        Ok(Self::of(
            TcpStream::connect(address)
                .await
                .context("a connection to the gateway")?,
        ))
    }

    /// A connection with the least room in the kernel, on both sides: it asks for small segments,
    /// so that the gateway's send buffer stays small, too.
    pub(super) async fn connect_narrow(address: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(2_048)?;
        socket2::SockRef::from(&socket).set_tcp_mss(536)?;
        Ok(Self::of(socket.connect(address).await?))
    }

    fn of(stream: TcpStream) -> Self {
        let (read, write) = stream.into_split();
        Self {
            ears: Ears {
                read,
                buffer: Vec::new(),
            },
            write,
        }
    }

    /// Sends bytes; false if the gateway has hung up.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.write.write_all(bytes).await.is_ok()
    }

    /// Asks for a WebSocket: the head of the 101, or another answer in words.
    pub(super) async fn upgrade(
        &mut self,
        query: &str,
        headers: &str,
    ) -> anyhow::Result<Result<String, String>> {
        let head = format!(
            "GET /ws?{query} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        self.request(&head).await
    }

    /// Sends the head of a request: the head of a 101, or another answer in words.
    pub(super) async fn request(&mut self, head: &str) -> anyhow::Result<Result<String, String>> {
        self.send(head.as_bytes()).await;
        self.ears.answer().await
    }

    /// Sends a whole request: the status of the answer and its JSON; `None` if the gateway has hung
    /// up.
    pub(super) async fn ask(&mut self, request: &str) -> anyhow::Result<Option<(u16, Value)>> {
        self.send(request.as_bytes()).await;
        let Some((head, status)) = self.ears.head().await? else {
            return Ok(None);
        };
        let body = self.ears.body(&head).await?;
        Ok(Some((status.parse()?, body)))
    }

    /// Listens for so long; false if the gateway has hung up.
    pub(super) async fn is_open(&mut self, within: Duration) -> bool {
        match timeout(within, self.ears.more()).await {
            Ok(read) => read.unwrap_or(false),
            Err(_) => true,
        }
    }

    /// What the gateway says next, other than greetings and acks.
    pub(super) async fn next(&mut self) -> anyhow::Result<String> {
        self.ears.next().await
    }

    /// All that the gateway says until the connection or the WebSocket ends.
    pub(super) async fn hear_out(&mut self) -> anyhow::Result<String> {
        self.ears.hear_out().await
    }

    /// Sends a frame each millisecond, and listens to the end meanwhile.
    pub(super) async fn flood(self, frame: fn(u64) -> Vec<u8>) -> anyhow::Result<String> {
        let Self {
            mut ears,
            mut write,
        } = self;
        let sender = tokio::spawn(async move {
            let mut clock = interval(Duration::from_millis(1));
            for number in 0.. {
                clock.tick().await;
                if write.write_all(&frame(number)).await.is_err() {
                    return;
                }
            }
        });
        let said = ears.hear_out().await;
        sender.abort();
        said
    }
}

impl Ears {
    async fn answer(&mut self) -> anyhow::Result<Result<String, String>> {
        let Some((head, status)) = self.head().await? else {
            return Ok(Err(ENDED.to_owned()));
        };
        if status == "101" {
            return Ok(Ok(head));
        }
        let problem = self.body(&head).await?;
        Ok(Err(format!(
            "{status} {}",
            problem["code"].as_str().unwrap_or("without a code")
        )))
    }

    /// The head of an answer, and the status in it.
    async fn head(&mut self) -> anyhow::Result<Option<(String, String)>> {
        let end = loop {
            if let Some(at) = self
                .buffer
                .windows(4)
                .position(|bytes| bytes == b"\r\n\r\n")
            {
                break at + 4;
            }
            if !self.more().await? {
                return Ok(None);
            }
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect())?.to_ascii_lowercase();
        let status = head
            .split(' ')
            .nth(1)
            .context("an answer without a status")?
            .to_owned();
        Ok(Some((head, status)))
    }

    /// The body of an answer with this head, as JSON; null if it is none.
    async fn body(&mut self, head: &str) -> anyhow::Result<Value> {
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .unwrap_or("0")
            .parse()?;
        while self.buffer.len() < length && self.more().await? {}
        let body: Vec<u8> = self.buffer.drain(..length.min(self.buffer.len())).collect();
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn next(&mut self) -> anyhow::Result<String> {
        loop {
            let Some((opcode, payload)) = self.frame().await? else {
                return Ok(ENDED.to_owned());
            };
            match (opcode, &payload[..]) {
                (frames::CLOSE, [high, low, ..]) => {
                    return Ok(format!("close {}", u16::from_be_bytes([*high, *low])));
                }
                (frames::CLOSE, _) => return Ok("close without a code".to_owned()),
                (frames::TEXT, payload) => {
                    let message: Value =
                        serde_json::from_slice(payload).context("a message that is not JSON")?;
                    match message["type"].as_str().unwrap_or_default() {
                        "welcome" | "heartbeat_ack" => {}
                        "error" => {
                            return Ok(format!(
                                "error {}",
                                message["code"].as_str().unwrap_or_default()
                            ));
                        }
                        other => return Ok(other.to_owned()),
                    }
                }
                // Pings get no answer.
                _ => {}
            }
        }
    }

    async fn hear_out(&mut self) -> anyhow::Result<String> {
        let mut said: Vec<String> = Vec::new();
        loop {
            let next = self.next().await?;
            let ended = next == ENDED || next.starts_with("close");
            if !said.contains(&next) {
                said.push(next);
            }
            if ended {
                return Ok(said.join(", "));
            }
        }
    }

    /// The next frame: its opcode and payload; `None` when the connection has ended.
    async fn frame(&mut self) -> anyhow::Result<Option<(OpCode, Vec<u8>)>> {
        loop {
            if let Some((frame, used)) = frames::next(&self.buffer) {
                let frame = (frame.opcode, frame.payload.to_vec());
                self.buffer.drain(..used);
                return Ok(Some(frame));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Reads some bytes; false when the connection has ended.
    async fn more(&mut self) -> anyhow::Result<bool> {
        match self.read.read_buf(&mut self.buffer).await {
            Ok(read) => Ok(read > 0),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}
