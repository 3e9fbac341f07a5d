//! The server's end of a WebSocket on a transport.
//!
//! Most sockets are idle most of the time, so the memory of an idle socket is the memory of a
//! viewer. A codec has two buffers and some hundred bytes of state, and its buffers stay as large
//! as the largest message made them. So a socket makes its codec when there is something to read or
//! to send, and drops it when everything has been read and sent; an idle socket is a transport that
//! waits to be readable. A heartbeat and its answer take the [`fast_path`] past the codec and
//! allocate nothing.

mod boundaries;
mod fast_path;

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tokio_tungstenite::tungstenite::{Error, Message};

use boundaries::Boundaries;
use fast_path::ShortFrame;

/// A stream that a session can run over.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for S {}

/// The size of a read, in bytes; a client message has some dozen.
const READ_SIZE: usize = 512;

/// The most bytes that the socket reads ahead while a send waits for room: the largest frame fits.
const MAX_AHEAD: usize = 8 << 10;

const MAX_MESSAGE: usize = 4 << 10;

/// These sizes bound the memory of a socket.
pub(crate) fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        // tungstenite zeroes it at every read.
        .read_buffer_size(READ_SIZE)
        // A message goes out at once, without a buffer in between.
        .write_buffer_size(0)
        // Several of the longest messages may wait for a slow consumer, beyond the kernel's buffer.
        .max_write_buffer_size(32 << 10)
        // The contract: a message over 4 KiB closes the socket with 1009.
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
}

#[derive(Debug, PartialEq)]
pub(super) enum ReceivedFrame {
    Message(Message),
    /// A part of a message, and not its last part. It is still a sign of life.
    Part,
}

pub(super) struct Socket<S> {
    transport: S,
    codec: Option<Box<Codec>>,
}

struct Codec {
    websocket: WebSocketContext,
    /// Follows all bytes that were read from the transport.
    boundaries: Boundaries,
    /// The bytes that were read while a send waited for room; the codec gets them next. At most
    /// [`MAX_AHEAD`] bytes and one read.
    ahead: Vec<u8>,
    /// Something waits to be written: the answer to a Ping, which tungstenite queues, or bytes that
    /// found no room.
    needs_flush: bool,
    /// The rest of a frame that took the fast path and found no room; it goes out before all else.
    left: Vec<u8>,
}

impl Codec {
    fn new(early: Vec<u8>) -> Self {
        let mut boundaries = Boundaries::new();
        boundaries.feed(&early);
        let websocket =
            WebSocketContext::from_partially_read(early, Role::Server, Some(websocket_config()));
        Self {
            websocket,
            boundaries,
            ahead: Vec::new(),
            needs_flush: false,
            left: Vec::new(),
        }
    }

    /// Whether dropping the codec loses nothing. Call it only after a read that found nothing more:
    /// then the codec holds no whole frame.
    fn is_settled(&self) -> bool {
        self.boundaries.is_between_messages() && !self.needs_flush && self.websocket.can_write()
    }
}

impl<S: Transport> Socket<S> {
    /// `early` is what the client has already sent after its handshake.
    pub(super) fn new(transport: S, early: Vec<u8>) -> Self {
        let codec = if early.is_empty() {
            None
        } else {
            Some(Box::new(Codec::new(early)))
        };
        Self { transport, codec }
    }

    /// Receives the next message, or a part of one. Must not be called again after it returned an
    /// error; a failed send does not stop reading.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReceivedFrame, Error>> {
        let codec = match &mut self.codec {
            Some(codec) => codec,
            None => {
                let mut space = [MaybeUninit::uninit(); READ_SIZE];
                let mut buffer = ReadBuf::uninit(&mut space);
                ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buffer))?;
                if let Some(message) = fast_path::decode(buffer.filled()) {
                    return Poll::Ready(Ok(ReceivedFrame::Message(message)));
                }
                // At the end of the stream the buffer is empty, and the codec reads the end again.
                self.codec
                    .insert(Box::new(Codec::new(buffer.filled().to_vec())))
            }
        };
        let Codec {
            websocket,
            boundaries,
            ahead,
            needs_flush,
            left,
        } = &mut **codec;
        match websocket.read(&mut Nonblocking {
            transport: &mut self.transport,
            cx,
            boundaries,
            ahead,
            left,
        }) {
            Ok(message) => {
                // Parts that were read with the message are no older than it.
                boundaries.take_whole();
                *needs_flush |= message.is_ping();
                Poll::Ready(Ok(ReceivedFrame::Message(message)))
            }
            // There was nothing to read: a read never waits for room to write.
            Err(why) if is_pending(&why) => {
                if boundaries.take_whole() && !boundaries.is_between_messages() {
                    return Poll::Ready(Ok(ReceivedFrame::Part));
                }
                if codec.is_settled() {
                    self.codec = None;
                }
                Poll::Pending
            }
            Err(why) => Poll::Ready(Err(why)),
        }
    }

    /// Sends a message, if there is one, and everything that waits to be sent, such as the answer to
    /// a Ping. After `Pending` the codec holds the bytes that found no room: call again without a
    /// message.
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        mut message: Option<Message>,
    ) -> Poll<Result<(), Error>> {
        let mut found_no_room = Vec::new();
        if self.codec.is_none()
            && let Some(short) = &message
            && let Some(frame) = ShortFrame::of(short)
        {
            let written = match Pin::new(&mut self.transport).poll_write(cx, frame.bytes())? {
                Poll::Ready(written) => written,
                Poll::Pending => 0,
            };
            let rest = &frame.bytes()[written..];
            if rest.is_empty() && Pin::new(&mut self.transport).poll_flush(cx)?.is_ready() {
                return Poll::Ready(Ok(()));
            }
            found_no_room.extend_from_slice(rest);
            message = None;
        }
        let codec = self
            .codec
            .get_or_insert_with(|| Box::new(Codec::new(Vec::new())));
        let Codec {
            websocket,
            boundaries,
            ahead,
            needs_flush,
            left,
        } = &mut **codec;
        left.append(&mut found_no_room);
        // The codec must stay until all is written.
        *needs_flush = true;
        let mut io = Nonblocking {
            transport: &mut self.transport,
            cx,
            boundaries,
            ahead,
            left,
        };
        if let Some(message) = message
            && let Err(why) = websocket.write(&mut io, message)
            && !is_pending(&why)
        {
            *needs_flush = false;
            return Poll::Ready(Err(why));
        }
        match websocket.flush(&mut io) {
            Err(why) if is_pending(&why) => Poll::Pending,
            done => {
                *needs_flush = false;
                Poll::Ready(done)
            }
        }
    }

    pub(super) async fn send(&mut self, message: Message) -> Result<(), Error> {
        let mut message = Some(message);
        poll_fn(|cx| self.poll_send(cx, message.take())).await
    }

    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_send(cx, None)).await
    }

    /// Whether a whole frame has arrived from a client that does not read. The bytes that this
    /// reads are kept for [`Self::poll_receive`].
    pub(super) fn has_received(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(codec) = &mut self.codec else {
            return false;
        };
        while !codec.boundaries.has_whole() && codec.ahead.len() < MAX_AHEAD {
            let mut space = [MaybeUninit::uninit(); READ_SIZE];
            let mut buffer = ReadBuf::uninit(&mut space);
            let read = Pin::new(&mut self.transport).poll_read(cx, &mut buffer);
            // The codec reads an end or an error once more.
            if !matches!(read, Poll::Ready(Ok(()))) || buffer.filled().is_empty() {
                break;
            }
            codec.boundaries.feed(buffer.filled());
            codec.ahead.extend_from_slice(buffer.filled());
        }
        codec.boundaries.has_whole()
    }

    /// How many parts of messages arrived since the last call, not counting last parts.
    pub(super) fn take_parts(&mut self) -> u32 {
        match &mut self.codec {
            Some(codec) => codec.boundaries.take_parts(),
            None => 0,
        }
    }

    pub(super) fn needs_flush(&self) -> bool {
        self.codec.as_ref().is_some_and(|codec| codec.needs_flush)
    }

    pub(super) fn transport(&mut self) -> &mut S {
        &mut self.transport
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.codec.is_none()
    }
}

fn is_pending(error: &Error) -> bool {
    matches!(error, Error::Io(error) if error.kind() == ErrorKind::WouldBlock)
}

/// The transport as the codec needs it: a call that would wait fails with `WouldBlock`.
struct Nonblocking<'a, 'c, S> {
    transport: &'a mut S,
    cx: &'a mut Context<'c>,
    boundaries: &'a mut Boundaries,
    ahead: &'a mut Vec<u8>,
    left: &'a mut Vec<u8>,
}

impl<S: Transport> Nonblocking<'_, '_, S> {
    fn write_left(&mut self) -> io::Result<()> {
        while !self.left.is_empty() {
            let written =
                nonblocking(Pin::new(&mut *self.transport).poll_write(self.cx, self.left))?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            self.left.drain(..written);
        }
        Ok(())
    }
}

fn nonblocking<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(done) => done,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

impl<S: Transport> Read for Nonblocking<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.ahead.is_empty() {
            let taken = self.ahead.len().min(buffer.len());
            buffer[..taken].copy_from_slice(&self.ahead[..taken]);
            self.ahead.drain(..taken);
            return Ok(taken);
        }
        let mut buffer = ReadBuf::new(buffer);
        nonblocking(Pin::new(&mut *self.transport).poll_read(self.cx, &mut buffer))?;
        self.boundaries.feed(buffer.filled());
        Ok(buffer.filled().len())
    }
}

impl<S: Transport> Write for Nonblocking<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_left()?;
        nonblocking(Pin::new(&mut *self.transport).poll_write(self.cx, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_left()?;
        nonblocking(Pin::new(&mut *self.transport).poll_flush(self.cx))
    }
}

#[cfg(test)]
mod tests;
