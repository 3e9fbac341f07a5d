//! The fuzz targets of a session: the parser of client messages, and the socket compared with the
//! reference codec.

use std::collections::VecDeque;
use std::io::{self, Cursor, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocket};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::messages::{self, ErrorCode, ServerMessage};
use super::socket::{ReceivedFrame, Socket, websocket_config};

pub(crate) fn client_message(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (id, request) = messages::parse(text);
    if let Err(refusal) = &request {
        assert!(ErrorCode::ALL.contains(&refusal.code));
    }
    let answer = ServerMessage::Error {
        code: "x",
        message: text,
        ban: None,
    }
    .text(id);
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("an answer is JSON");
    assert_eq!(answer.get("id").is_some(), id.is_some());
}

pub(crate) fn frames(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else {
        return;
    };
    let ours = read_by_socket(bytes, cut);
    let theirs = read_by_reference(bytes);
    assert_eq!(ours, theirs, "cut by {cut}");
}

/// The messages until the first error, or the end.
fn read_by_reference(bytes: &[u8]) -> Vec<Message> {
    let mut codec = WebSocket::from_raw_socket(
        Client(Cursor::new(bytes)),
        Role::Server,
        Some(websocket_config()),
    );
    std::iter::from_fn(|| codec.read().ok()).collect()
}

fn read_by_socket(bytes: &[u8], cut: u8) -> Vec<Message> {
    let chunks = bytes
        .chunks(usize::from(cut).max(1))
        .map(<[u8]>::to_vec)
        .collect();
    let mut socket = Socket::new(
        Chunks {
            chunks,
            waits: false,
        },
        Vec::new(),
    );
    let mut context = Context::from_waker(Waker::noop());
    let mut read = Vec::new();
    // Each chunk is followed by one `Pending`; the rest is for the end.
    for _ in 0..2 * bytes.len() + 16 {
        match socket.poll_receive(&mut context) {
            Poll::Ready(Ok(ReceivedFrame::Message(message))) => read.push(message),
            Poll::Ready(Ok(ReceivedFrame::Part)) | Poll::Pending => {}
            Poll::Ready(Err(Error::WriteBufferFull(_))) => unreachable!("nothing is sent"),
            Poll::Ready(Err(_)) => break,
        }
    }
    read
}

/// A client that sends these bytes and takes everything.
struct Client<'a>(Cursor<&'a [u8]>);

impl Read for Client<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Client<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client whose bytes arrive in chunks, each after a wait.
struct Chunks {
    chunks: VecDeque<Vec<u8>>,
    waits: bool,
}

impl AsyncRead for Chunks {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.waits = !self.waits;
        if self.waits {
            return Poll::Pending;
        }
        if let Some(mut chunk) = self.chunks.pop_front() {
            let rest = chunk.split_off(chunk.len().min(buffer.remaining()));
            buffer.put_slice(&chunk);
            if !rest.is_empty() {
                self.chunks.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Chunks {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
