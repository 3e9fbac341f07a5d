//! A socket without a file descriptor: a gateway's session reads from it and writes to it, in
//! memory.
//!
//! The client's side has no task and no buffer, so that the bench measures the gateway alone. All
//! clients send the same shared text, and messages from the session are only counted by their type.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::task::{Context, Poll, Waker};

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::bench::generator::frames;

static HEARTBEAT: LazyLock<Vec<u8>> =
    LazyLock::new(|| frames::encode(frames::TEXT, br#"{"type":"heartbeat"}"#));
/// The first letter of the type: every message begins with `{"type":"`.
const TYPE_AT: usize = 9;

/// Messages from the sessions, summed over all sockets.
#[derive(Debug, Default)]
pub(super) struct ReceivedTotals {
    pub(super) joined: AtomicU64,
    pub(super) acks: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) errors: AtomicU64,
    /// The first error message.
    pub(super) error: OnceLock<String>,
}

#[derive(Default)]
struct MemorySocketState {
    /// Bytes from the client that the session has not read yet.
    inbox: &'static [u8],
    reader: Option<Waker>,
    ended: bool,
}

impl MemorySocketState {
    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.inbox.is_empty() || self.ended {
            return Poll::Ready(());
        }
        match &mut self.reader {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

/// The client's end of the socket.
pub(super) struct MemorySocket {
    received: Arc<ReceivedTotals>,
    state: Mutex<MemorySocketState>,
}

/// The gateway's end of the socket.
pub(super) struct ServerEnd(Arc<MemorySocket>);

impl MemorySocket {
    pub(super) fn new(received: &Arc<ReceivedTotals>) -> Arc<Self> {
        Arc::new(Self {
            received: received.clone(),
            state: Mutex::default(),
        })
    }

    pub(super) fn server_end(self: &Arc<Self>) -> ServerEnd {
        ServerEnd(self.clone())
    }

    /// Sends a heartbeat. Returns false if the session has not read the last one yet.
    pub(super) fn beat(&self) -> bool {
        let mut state = self.lock();
        if !state.inbox.is_empty() {
            return false;
        }
        state.inbox = &HEARTBEAT;
        wake(state);
        true
    }

    /// Ends the connection from the client's side.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        wake(state);
    }

    fn lock(&self) -> MutexGuard<'_, MemorySocketState> {
        self.state.lock()
    }
}

/// Unlocks the state, then wakes the session that waits for it.
fn wake(mut state: MutexGuard<'_, MemorySocketState>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl AsyncRead for ServerEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        std::task::ready!(state.poll_readable(cx));
        let taken = state.inbox.len().min(buf.remaining());
        let (now, later) = state.inbox.split_at(taken);
        buf.put_slice(now);
        state.inbox = later;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ServerEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The WebSocket library writes whole frames.
        if let Some((frame, _)) = frames::next(bytes)
            && frame.opcode == frames::TEXT
        {
            let received = &self.0.received;
            let counter = match frame.payload.get(TYPE_AT) {
                Some(b'j') => Some(&received.joined),
                Some(b'h') => Some(&received.acks),
                Some(b'c') => Some(&received.closed),
                Some(b'e') => {
                    received
                        .error
                        .get_or_init(|| String::from_utf8_lossy(frame.payload).into_owned());
                    Some(&received.errors)
                }
                _ => None,
            };
            if let Some(counter) = counter {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // After its close frame, a session waits for the client to end the connection.
        self.0.end();
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_heartbeat_is_read_once_and_an_ack_is_counted() {
        let received = Arc::new(ReceivedTotals::default());
        let socket = MemorySocket::new(&received);
        let mut server = socket.server_end();
        assert!(socket.beat());
        assert!(!socket.beat(), "the first is still unread");
        let mut read = vec![0; HEARTBEAT.len()];
        server.read_exact(&mut read).await.unwrap();
        assert_eq!(read, *HEARTBEAT);
        let ack = br#"{"type":"heartbeat_ack"}"#;
        let frame = [&[0x81, ack.len() as u8], &ack[..]].concat();
        server.write_all(&frame).await.unwrap();
        assert_eq!(received.acks.load(Ordering::Relaxed), 1);
        socket.end();
        assert_eq!(server.read(&mut read).await.unwrap(), 0);
    }
}
