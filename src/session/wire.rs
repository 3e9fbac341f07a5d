//! Owns the last inch to the socket: sending with a deadline, the goodbye, and who is to blame for an error.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::line::{Heard, Line, Transport};
use crate::close::Close;

/// How long a goodbye may take, each half of it: sending the close frame, and waiting for the client to have read it.
const GOODBYE: Duration = Duration::from_secs(1);

/// How long a send may wait for room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// With a client of which nothing is heard meanwhile: it may have vanished.
    pub(super) silent: Duration,
    /// With a client that goes on talking, but does not read.
    pub(super) talking: Duration,
}

/// Sends a message, if there is one, and what waits to be sent. A client that does not read for longer than `patience` is
/// cut off; meanwhile nothing piles up for it.
pub(super) async fn put<S: Transport>(
    line: &mut Line<S>,
    mut message: Option<Message>,
    patience: impl FnOnce() -> Patience,
) -> Result<(), Close> {
    match poll_fn(|cx| Poll::Ready(line.poll_send(cx, message.take()))).await {
        Poll::Ready(done) => done.map_err(|why| blame(&why)),
        // Boxed, as few sends wait: no idle socket keeps room for a timer.
        Poll::Pending => Box::pin(wait_for_room(line, patience())).await,
    }
}

async fn wait_for_room<S: Transport>(line: &mut Line<S>, patience: Patience) -> Result<(), Close> {
    let Patience { silent, talking } = patience;
    let mut left = talking;
    if silent < talking {
        if let Ok(done) = timeout(silent, line.flush()).await {
            return done.map_err(|why| blame(&why));
        }
        if !poll_fn(|cx| Poll::Ready(line.has_heard(cx))).await {
            return Err(Close::HeartbeatTimeout);
        }
        left -= silent;
    }
    match timeout(left, line.flush()).await {
        Ok(done) => done.map_err(|why| blame(&why)),
        Err(_) => Err(Close::SlowConsumer),
    }
}

/// Why a socket ended, from the library's error.
pub(super) fn blame(why: &Error) -> Close {
    match why {
        Error::ConnectionClosed => Close::ByClient,
        Error::Capacity(CapacityError::MessageTooLong { .. }) => Close::TooBig,
        Error::Utf8(_) => Close::NotUtf8,
        Error::WriteBufferFull(_) => Close::SlowConsumer,
        Error::Protocol(tokio_tungstenite::tungstenite::error::ProtocolError::ResetWithoutClosingHandshake) => {
            Close::Vanished
        }
        Error::Protocol(_) | Error::Capacity(_) | Error::AttackAttempt => Close::Protocol,
        _ => Close::Vanished,
    }
}

/// How long the reading of what has long arrived may take.
const LAST_WORDS: Duration = Duration::from_millis(10);
/// At most so many frames of one whose socket takes nothing any more.
const LAST_FRAMES: usize = 1_000;

/// Why the socket ended, of one that cannot be written to: what had arrived before is read, in case a goodbye is in it.
/// After a stall of the process much may have arrived.
pub(super) async fn last_words<S: Transport>(line: &mut Line<S>) -> Close {
    for _ in 0..LAST_FRAMES {
        match timeout(LAST_WORDS, poll_fn(|cx| line.poll_heard(cx))).await {
            Ok(Ok(Heard::Message(Message::Close(_)))) => return Close::ByClient,
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => break,
        }
    }
    Close::Vanished
}

/// Tells the client why, and waits a moment until it has heard: a socket closed with unread bytes in its buffer resets
/// the connection, and the client would never see the code.
pub(super) async fn say_goodbye<S: Transport>(line: &mut Line<S>, why: Close) {
    let does_not_read = why == Close::SlowConsumer || (why == Close::HeartbeatTimeout && line.owes());
    if why == Close::Vanished {
        return;
    }
    if does_not_read {
        // What can be sent at once is sent.
        let _ = timeout(Duration::from_millis(10), line.send(Message::Close(why.frame()))).await;
        return;
    }
    let _ = timeout(GOODBYE, async {
        // A client's close is answered by the library; the answer is queued and must only be written.
        if why != Close::ByClient {
            let _ = line.send(Message::Close(why.frame())).await;
        }
        let _ = line.flush().await;
        line.transport().shutdown().await
    })
    .await;
    let _ = timeout(GOODBYE, async {
        let mut scrap = [0; 512];
        while matches!(line.transport().read(&mut scrap).await, Ok(read) if read > 0) {}
    })
    .await;
}
