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

/// Sends a message, if there is one, and what waits to be sent. A client that does not read for `patience` is cut off;
/// meanwhile nothing piles up for it.
pub(super) async fn put<S: Transport>(
    line: &mut Line<S>,
    mut message: Option<Message>,
    patience: Duration,
) -> Result<(), Close> {
    let done = match poll_fn(|cx| Poll::Ready(line.poll_send(cx, message.take()))).await {
        Poll::Ready(done) => Ok(done),
        // Boxed, as few sends wait: no idle socket keeps room for a timer.
        Poll::Pending => Box::pin(timeout(patience, line.flush())).await,
    };
    match done {
        Ok(Ok(())) => Ok(()),
        Ok(Err(why)) => Err(blame(&why)),
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
    match why {
        Close::Vanished => return,
        // It does not read: what can be sent at once is sent.
        Close::SlowConsumer => {
            let _ = timeout(Duration::from_millis(10), line.send(Message::Close(why.frame()))).await;
            return;
        }
        _ => {}
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
