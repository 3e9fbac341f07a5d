//! Owns the WebSocket on a transport: frames in, messages out, and nothing kept in between.
//!
//! What a viewer costs is what an idle socket keeps. A codec has two buffers and some hundred bytes of state, and its
//! buffers stay as large as the largest message made them. So the codec is made when there is something to read or to
//! say, and dropped when all that was read has come out of it and all that was said has gone; an idle socket is a
//! transport that waits to be readable. A heartbeat and its answer take the [`shortcut`] past the codec, so that they
//! allocate nothing.

mod boundaries;
mod shortcut;

use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tokio_tungstenite::tungstenite::{Error, Message};

use boundaries::Boundaries;
use shortcut::Frame;

/// What a session runs over.
pub trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for S {}

/// Bytes that are read at once: client messages are some dozen.
const AT_ONCE: usize = 512;

/// The most that is read of a client while it takes nothing: the largest frame fits.
const MOST_AHEAD: usize = 8 << 10;

/// The largest message of a client.
const MAX_MESSAGE: usize = 4 << 10;

/// The sizes of a codec's buffers. They decide what a busy socket costs, and what a bad one can.
pub(crate) fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        // Zeroed at every read.
        .read_buffer_size(AT_ONCE)
        // Nothing waits to be written together: a message goes out when it is sent.
        .write_buffer_size(0)
        // What a slow consumer may have outstanding beyond the kernel's own buffer.
        .max_write_buffer_size(64 << 10)
        // The contract: a message over 4 KiB closes the socket with 1009.
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
}

/// What a client was heard to send.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Message(Message),
    /// A part of a message, and not its last: a sign of life all the same.
    Part,
}

/// The server's end of a WebSocket.
pub(super) struct Line<S> {
    transport: S,
    codec: Option<Box<Codec>>,
}

struct Codec {
    websocket: WebSocketContext,
    /// Of all bytes that were read from the transport.
    boundaries: Boundaries,
    /// What was read while a send found no room; the codec gets it next. At most [`MOST_AHEAD`] bytes and one read.
    ahead: Vec<u8>,
    /// Something waits to be written: the answer to a Ping, which the library gives by itself, or what found no room.
    owes: bool,
    /// The end of a frame that took the shortcut and found no room; it goes out before all else.
    left: Vec<u8>,
}

impl Codec {
    fn new(early: Vec<u8>) -> Self {
        let mut boundaries = Boundaries::new();
        boundaries.feed(&early);
        let websocket = WebSocketContext::from_partially_read(early, Role::Server, Some(websocket_config()));
        Self { websocket, boundaries, ahead: Vec::new(), owes: false, left: Vec::new() }
    }

    /// Whether dropping it loses nothing. Asked when it has just found nothing more to read: all whole frames have come
    /// out of it then.
    fn is_settled(&self) -> bool {
        self.boundaries.is_between_messages() && !self.owes && self.websocket.can_write()
    }
}

impl<S: Transport> Line<S> {
    /// A WebSocket after its handshake; `early` is what the client has already sent on it.
    pub(super) fn new(transport: S, early: Vec<u8>) -> Self {
        let codec = (!early.is_empty()).then(|| Box::new(Codec::new(early)));
        Self { transport, codec }
    }

    /// What the client says next; no longer asked for after an error. One that could not be sent to may still be read.
    pub(super) fn poll_heard(&mut self, cx: &mut Context<'_>) -> Poll<Result<Heard, Error>> {
        let codec = match &mut self.codec {
            Some(codec) => codec,
            None => {
                let mut space = [MaybeUninit::uninit(); AT_ONCE];
                let mut buffer = ReadBuf::uninit(&mut space);
                ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buffer))?;
                if let Some(message) = shortcut::known(buffer.filled()) {
                    return Poll::Ready(Ok(Heard::Message(message)));
                }
                // The end, too, is the codec's: it finds it once more.
                self.codec.insert(Box::new(Codec::new(buffer.filled().to_vec())))
            }
        };
        let Codec { websocket, boundaries, ahead, owes, left } = &mut **codec;
        match websocket.read(&mut Now { transport: &mut self.transport, cx, boundaries, ahead, left }) {
            Ok(message) => {
                // What parts were read with it are as old as the message is.
                boundaries.take_whole();
                *owes |= message.is_ping();
                Poll::Ready(Ok(Heard::Message(message)))
            }
            // It found nothing to read: while it reads, it does not wait for room to write.
            Err(why) if is_pending(&why) => {
                if boundaries.take_whole() && !boundaries.is_between_messages() {
                    return Poll::Ready(Ok(Heard::Part));
                }
                if codec.is_settled() {
                    self.codec = None;
                }
                Poll::Pending
            }
            Err(why) => Poll::Ready(Err(why)),
        }
    }

    /// Takes a message and sends it with all that waits to be sent, such as the answer to a Ping. Pending, the codec keeps
    /// what found no room in the kernel: go on without a message.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>, mut message: Option<Message>) -> Poll<Result<(), Error>> {
        let mut found_no_room = Vec::new();
        if self.codec.is_none()
            && let Some(frame) = message.as_ref().and_then(Frame::of)
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
        let codec = self.codec.get_or_insert_with(|| Box::new(Codec::new(Vec::new())));
        let Codec { websocket, boundaries, ahead, owes, left } = &mut **codec;
        left.append(&mut found_no_room);
        // Until all is gone, nothing of it may be dropped.
        *owes = true;
        let mut now = Now { transport: &mut self.transport, cx, boundaries, ahead, left };
        let written = message.map_or(Ok(()), |message| websocket.write(&mut now, message));
        let written = written.or_else(|why| if is_pending(&why) { Ok(()) } else { Err(why) });
        match written.and_then(|()| websocket.flush(&mut now)) {
            Err(why) if is_pending(&why) => Poll::Pending,
            done => {
                *owes = false;
                Poll::Ready(done)
            }
        }
    }

    /// Sends a message and all that waits to be sent.
    pub(super) async fn send(&mut self, message: Message) -> Result<(), Error> {
        let mut message = Some(message);
        poll_fn(|cx| self.poll_send(cx, message.take())).await
    }

    /// Sends all that waits to be sent.
    pub(super) async fn flush(&mut self) -> Result<(), Error> {
        poll_fn(|cx| self.poll_send(cx, None)).await
    }

    /// Whether a whole frame has come of a client that takes nothing at present. What was read to find out is kept, and
    /// comes out of [`Self::poll_heard`].
    pub(super) fn has_heard(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(codec) = &mut self.codec else { return false };
        while !codec.boundaries.has_whole() && codec.ahead.len() < MOST_AHEAD {
            let mut space = [MaybeUninit::uninit(); AT_ONCE];
            let mut buffer = ReadBuf::uninit(&mut space);
            let read = Pin::new(&mut self.transport).poll_read(cx, &mut buffer);
            // The end and an error are the codec's to find, once more.
            if !matches!(read, Poll::Ready(Ok(()))) || buffer.filled().is_empty() {
                break;
            }
            codec.boundaries.feed(buffer.filled());
            codec.ahead.extend_from_slice(buffer.filled());
        }
        codec.boundaries.has_whole()
    }

    /// Whether something waits to be written.
    pub(super) fn owes(&self) -> bool {
        self.codec.as_ref().is_some_and(|codec| codec.owes)
    }

    /// What is below the WebSocket, for its end.
    pub(super) fn transport(&mut self) -> &mut S {
        &mut self.transport
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.codec.is_none()
    }
}

fn is_pending(why: &Error) -> bool {
    matches!(why, Error::Io(why) if why.kind() == ErrorKind::WouldBlock)
}

/// The transport at this moment: what would wait is an error, as the codec wants it.
struct Now<'a, 'c, S> {
    transport: &'a mut S,
    cx: &'a mut Context<'c>,
    boundaries: &'a mut Boundaries,
    ahead: &'a mut Vec<u8>,
    left: &'a mut Vec<u8>,
}

impl<S: Transport> Now<'_, '_, S> {
    fn write_left(&mut self) -> io::Result<()> {
        while !self.left.is_empty() {
            let written = now(Pin::new(&mut *self.transport).poll_write(self.cx, self.left))?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            self.left.drain(..written);
        }
        Ok(())
    }
}

fn now<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(done) => done,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

impl<S: Transport> Read for Now<'_, '_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.ahead.is_empty() {
            let taken = self.ahead.len().min(buffer.len());
            buffer[..taken].copy_from_slice(&self.ahead[..taken]);
            self.ahead.drain(..taken);
            return Ok(taken);
        }
        let mut buffer = ReadBuf::new(buffer);
        now(Pin::new(&mut *self.transport).poll_read(self.cx, &mut buffer))?;
        self.boundaries.feed(buffer.filled());
        Ok(buffer.filled().len())
    }
}

impl<S: Transport> Write for Now<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_left()?;
        now(Pin::new(&mut *self.transport).poll_write(self.cx, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_left()?;
        now(Pin::new(&mut *self.transport).poll_flush(self.cx))
    }
}

#[cfg(test)]
mod tests;
