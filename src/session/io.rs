//! Sends with a deadline, does the closing handshake, and maps the library's errors to [`Close`].

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::socket::{ReceivedFrame, Socket, Transport};
use crate::session::close_codes::Close;

/// How long each half of a goodbye may take. The first half sends the close frame; the second waits
/// until the client has read it.
const GOODBYE: Duration = Duration::from_secs(1);

/// How long a send may wait for room.
#[derive(Debug, Clone, Copy)]
pub(super) struct SendTimeout {
    /// The time for a client that sends nothing meanwhile: it may have vanished.
    pub(super) silent: Duration,
    /// The time for a client that goes on sending, but does not read.
    pub(super) talking: Duration,
}

/// Sends a message, if there is one, and everything that waits to be sent. A client that reads
/// nothing until `limit` is cut off; meanwhile nothing queues up for it.
pub(super) async fn send<S: Transport>(
    socket: &mut Socket<S>,
    mut message: Option<Message>,
    limit: impl FnOnce() -> SendTimeout,
) -> Result<(), Close> {
    match poll_fn(|cx| Poll::Ready(socket.poll_send(cx, message.take()))).await {
        Poll::Ready(done) => done.map_err(|error| close_of(&error)),
        // Boxed: few sends wait, and no idle socket keeps room for a timer.
        Poll::Pending => Box::pin(wait_for_room(socket, limit())).await,
    }
}

async fn wait_for_room<S: Transport>(
    socket: &mut Socket<S>,
    limit: SendTimeout,
) -> Result<(), Close> {
    let SendTimeout { silent, talking } = limit;
    let mut left = talking;
    if silent < talking {
        if let Ok(done) = timeout(silent, socket.flush()).await {
            return done.map_err(|error| close_of(&error));
        }
        if !poll_fn(|cx| Poll::Ready(socket.has_received(cx))).await {
            return Err(Close::HeartbeatTimeout);
        }
        left -= silent;
    }
    match timeout(left, socket.flush()).await {
        Ok(done) => done.map_err(|error| close_of(&error)),
        Err(_) => Err(Close::SlowConsumer),
    }
}

pub(super) fn close_of(error: &Error) -> Close {
    match error {
        Error::ConnectionClosed => Close::ByClient,
        Error::Capacity(CapacityError::MessageTooLong { .. }) => Close::TooBig,
        Error::Utf8(_) => Close::NotUtf8,
        Error::WriteBufferFull(_) => Close::SlowConsumer,
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Close::Vanished,
        Error::Protocol(_) | Error::Capacity(_) | Error::AttackAttempt => Close::Protocol,
        _ => Close::Vanished,
    }
}

/// How long to wait for a frame that has already arrived.
const ARRIVED: Duration = Duration::from_millis(10);

/// Maximum such frames: after a stall of the process many may have arrived.
const LAST_FRAMES: usize = 1_000;

/// Reads on from a socket that cannot be written to, because the client may have said goodbye
/// before; returns why the socket ended.
pub(super) async fn read_to_close<S: Transport>(socket: &mut Socket<S>) -> Close {
    for _ in 0..LAST_FRAMES {
        match timeout(ARRIVED, poll_fn(|cx| socket.poll_receive(cx))).await {
            Ok(Ok(ReceivedFrame::Message(Message::Close(_)))) => return Close::ByClient,
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => break,
        }
    }
    Close::Vanished
}

/// Sends the close frame, and waits a moment until the client has read it. A socket that is closed
/// with unread bytes in its buffer resets the connection, and the client would never see the code.
pub(super) async fn say_goodbye<S: Transport>(socket: &mut Socket<S>, why: Close) {
    let does_not_read =
        why == Close::SlowConsumer || (why == Close::HeartbeatTimeout && socket.needs_flush());
    if does_not_read {
        // Send the close frame only if there is room for it at once.
        let _ = timeout(
            Duration::from_millis(10),
            socket.send(Message::Close(why.frame())),
        )
        .await;
        return;
    }
    let _ = timeout(GOODBYE, async {
        // tungstenite has queued the answer to a client's close.
        if why != Close::ByClient {
            let _ = socket.send(Message::Close(why.frame())).await;
        }
        let _ = socket.flush().await;
        socket.transport().shutdown().await
    })
    .await;
    let _ = timeout(GOODBYE, async {
        let mut scrap = [0; 512];
        while matches!(socket.transport().read(&mut scrap).await, Ok(read) if read > 0) {}
    })
    .await;
}
