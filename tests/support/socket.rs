//! Owns a WebSocket client's connection: a task reads it, answers Pings, and keeps what was heard
//! in a bounded inbox.
//!
//! Dropping a [`Socket`] drops the TCP connection with no close frame, as a lost network does. A
//! muted one stays open and hears everything, but nothing it says (no Pong, no close frame) reaches
//! the gateway.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

/// How many messages an inbox keeps; a socket whose story does not look reads no further.
const INBOX: usize = 4_096;

/// The head of a request that opens a socket of `u1`, as it is written.
pub const UPGRADE: &str = "GET /ws?user_id=u1 HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n\
                           connection: upgrade\r\nsec-websocket-version: 13\r\n\
                           sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// What a client hears.
#[derive(Debug)]
pub enum Heard {
    /// A text frame.
    Text(String),
    /// A Pong that answers a Ping of the story's.
    Pong,
    /// The end: the code of the close frame, if there was one.
    Closed(Option<u16>),
}

enum Do {
    Send(Message),
    Read(bool),
    Reset,
}

/// A connection.
#[derive(Debug)]
pub struct Socket {
    todo: mpsc::Sender<Do>,
    heard: mpsc::Receiver<Heard>,
    voice: Voice,
    pings: Arc<AtomicU64>,
}

impl Socket {
    /// Connects and upgrades; `path` is everything behind the port. A refusal is the gateway's HTTP
    /// answer.
    pub async fn connect(
        addr: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<(Self, Response), Error> {
        let mut request = format!("ws://{addr}{path}").into_client_request()?;
        for (name, value) in headers {
            let name = name.parse::<reqwest::header::HeaderName>().unwrap();
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        let tcp = TcpStream::connect(addr).await?;
        tcp.set_nodelay(true)?;
        let voice = Voice::default();
        let gag = Gag {
            tcp,
            voice: voice.clone(),
        };
        let config = WebSocketConfig::default()
            .read_buffer_size(4_096)
            .write_buffer_size(0);
        let (stream, answer) =
            tokio_tungstenite::client_async_with_config(request, gag, Some(config)).await?;
        let (todo, todos) = mpsc::channel(64);
        let (ears, heard) = mpsc::channel(INBOX);
        let pings = Arc::new(AtomicU64::new(0));
        tokio::spawn(run(
            stream,
            todos,
            Ears {
                heard: ears,
                pings: pings.clone(),
            },
        ));
        Ok((
            Self {
                todo,
                heard,
                voice,
                pings,
            },
            answer,
        ))
    }

    /// Sends a frame. A connection that is gone swallows it.
    pub async fn send(&self, message: Message) {
        let _ = self.todo.send(Do::Send(message)).await;
    }

    /// The next that is heard; `None` after the end.
    pub async fn next(&mut self) -> Option<Heard> {
        self.heard.recv().await
    }

    /// Stays open and listening, but says nothing any more.
    pub fn mute(&self) {
        self.voice.mute.store(true, Ordering::SeqCst);
    }

    /// Answers no more Pings; whatever else is sent goes out.
    pub fn swallow_pongs(&self) {
        self.voice.no_pongs.store(true, Ordering::SeqCst);
    }

    /// Stops or goes on reading from the connection, as an overloaded client does.
    pub async fn read(&self, on: bool) {
        let _ = self.todo.send(Do::Read(on)).await;
    }

    /// Ends the connection with a TCP reset.
    pub async fn reset(self) {
        let _ = self.todo.send(Do::Reset).await;
    }

    /// How many Pings of the gateway were heard.
    pub fn pings(&self) -> u64 {
        self.pings.load(Ordering::SeqCst)
    }
}

struct Ears {
    heard: mpsc::Sender<Heard>,
    pings: Arc<AtomicU64>,
}

async fn run(mut stream: WebSocketStream<Gag>, mut todo: mpsc::Receiver<Do>, ears: Ears) {
    let mut reading = true;
    let mut code = None;
    loop {
        let frame = tokio::select! {
            wish = todo.recv() => match wish {
                Some(Do::Send(message)) => {
                    let _ = stream.send(message).await;
                    continue;
                }
                Some(Do::Read(on)) => {
                    reading = on;
                    continue;
                }
                Some(Do::Reset) => {
                    let _ = socket2::SockRef::from(&stream.get_ref().tcp).set_linger(Some(std::time::Duration::ZERO));
                    return;
                }
                None => return,
            },
            frame = stream.next(), if reading => frame,
        };
        let heard = match frame {
            Some(Ok(Message::Text(text))) => Heard::Text(text.to_string()),
            Some(Ok(Message::Pong(_))) => Heard::Pong,
            Some(Ok(Message::Ping(_))) => {
                ears.pings.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            Some(Ok(Message::Close(frame))) => {
                code = frame.map(|frame| frame.code.into());
                continue;
            }
            Some(Ok(_)) => continue,
            Some(Err(_)) | None => {
                let _ = ears.heard.send(Heard::Closed(code)).await;
                return;
            }
        };
        if ears.heard.send(heard).await.is_err() {
            return;
        }
    }
}

/// What does not reach the gateway.
#[derive(Debug, Clone, Default)]
struct Voice {
    mute: Arc<AtomicBool>,
    no_pongs: Arc<AtomicBool>,
}

/// A TCP connection that can lose its voice.
#[derive(Debug)]
struct Gag {
    tcp: TcpStream,
    voice: Voice,
}

impl AsyncRead for Gag {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Gag {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.voice.mute.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(buf.len()));
        }
        // Frames are written one by one: a Pong is 0x8a, a length below 126, four bytes of mask,
        // the payload.
        if let [0x8a, length, ..] = buf
            && self.voice.no_pongs.load(Ordering::SeqCst)
        {
            return Poll::Ready(Ok(buf.len().min(6 + usize::from(length & 0x7f))));
        }
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
