//! A socket without a file descriptor: the gateway's session reads from and writes to a few words of memory.
//!
//! What a client would send is one shared text, referred to; what the session sends is counted by its kind and
//! forgotten. No task and no buffer on the client's side, so that what is measured is the gateway.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::bench::generator::frames;

static HEARTBEAT: LazyLock<Vec<u8>> = LazyLock::new(|| frames::encode(frames::TEXT, br#"{"type":"heartbeat"}"#));
/// Where the kind of a message stands: `{"type":"` comes first in all of them.
const KIND_AT: usize = 9;

/// What sessions have sent, over all wires of a row.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) joined: AtomicU64,
    pub(super) acks: AtomicU64,
    pub(super) closed: AtomicU64,
    pub(super) errors: AtomicU64,
    /// The first of them, as it was sent.
    pub(super) error: OnceLock<String>,
}

#[derive(Default)]
struct State {
    /// What the client sent and the session has not read.
    inbox: &'static [u8],
    reader: Option<Waker>,
    ended: bool,
}

impl State {
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

/// The client's end.
pub(super) struct Wire {
    heard: Arc<Heard>,
    state: Mutex<State>,
}

/// The gateway's end.
pub(super) struct ServerEnd(Arc<Wire>);

impl Wire {
    pub(super) fn new(heard: &Arc<Heard>) -> Arc<Self> {
        Arc::new(Self { heard: heard.clone(), state: Mutex::default() })
    }

    pub(super) fn server_end(self: &Arc<Self>) -> ServerEnd {
        ServerEnd(self.clone())
    }

    /// Sends a heartbeat; false if the last one was not read yet.
    pub(super) fn beat(&self) -> bool {
        let mut state = self.lock();
        if !state.inbox.is_empty() {
            return false;
        }
        state.inbox = &HEARTBEAT;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
        true
    }

    /// The client is gone.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for ServerEnd {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
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
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // The library writes whole frames.
        if let Some((frame, _)) = frames::next(bytes)
            && frame.opcode == frames::TEXT
        {
            let heard = &self.0.heard;
            let counter = match frame.payload.get(KIND_AT) {
                Some(b'j') => Some(&heard.joined),
                Some(b'h') => Some(&heard.acks),
                Some(b'c') => Some(&heard.closed),
                Some(b'e') => {
                    heard.error.get_or_init(|| String::from_utf8_lossy(frame.payload).into_owned());
                    Some(&heard.errors)
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
        // A session that says goodbye waits for the client to hang up.
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
        let heard = Arc::new(Heard::default());
        let wire = Wire::new(&heard);
        let mut server = wire.server_end();
        assert!(wire.beat());
        assert!(!wire.beat(), "the first is still unread");
        let mut read = vec![0; HEARTBEAT.len()];
        server.read_exact(&mut read).await.unwrap();
        assert_eq!(read, *HEARTBEAT);
        let ack = br#"{"type":"heartbeat_ack"}"#;
        let frame = [&[0x81, ack.len() as u8], &ack[..]].concat();
        server.write_all(&frame).await.unwrap();
        assert_eq!(heard.acks.load(Ordering::Relaxed), 1);
        wire.end();
        assert_eq!(server.read(&mut read).await.unwrap(), 0);
    }
}
