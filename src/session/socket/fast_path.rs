//! The path past the codec for nearly all traffic: a heartbeat that arrives alone, the empty Pong
//! that answers a Ping, and a short message to a client.
//!
//! Three frames are recognized by their bytes, once unmasked (RFC 6455, 5.2 and 5.3). The codec
//! handles everything else, even a heartbeat in two pieces.

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message, Utf8Bytes};

use crate::session::messages::{HEARTBEAT, WATCHING};

/// The bit of a frame that is its whole message.
const WHOLE: u8 = 0x80;
const TEXT: u8 = 0x1;
const PONG: u8 = 0xa;
/// The bit of a masked frame. Clients mask all their frames.
const MASKED: u8 = 0x80;

/// The message, if the bytes are exactly one of the known frames.
pub(super) fn decode(bytes: &[u8]) -> Option<Message> {
    const BEAT: [u8; 2] = [WHOLE | TEXT, MASKED | HEARTBEAT.len() as u8];
    const WATCHING_BEAT: [u8; 2] = [WHOLE | TEXT, MASKED | WATCHING.len() as u8];
    const EMPTY_PONG: [u8; 2] = [WHOLE | PONG, MASKED];
    let (head, rest) = bytes.split_first_chunk::<2>()?;
    let (mask, payload) = rest.split_first_chunk::<4>()?;
    match *head {
        BEAT if is_masked(payload, *mask, HEARTBEAT.as_bytes()) => {
            Some(Message::Text(Utf8Bytes::from_static(HEARTBEAT)))
        }
        WATCHING_BEAT if is_masked(payload, *mask, WATCHING.as_bytes()) => {
            Some(Message::Text(Utf8Bytes::from_static(WATCHING)))
        }
        EMPTY_PONG if payload.is_empty() => Some(Message::Pong(Bytes::new())),
        _ => None,
    }
}

fn is_masked(payload: &[u8], mask: [u8; 4], plain: &[u8]) -> bool {
    payload.len() == plain.len()
        && payload
            .iter()
            .zip(mask.iter().cycle())
            .map(|(byte, mask)| byte ^ mask)
            .eq(plain.iter().copied())
}

/// A short message, encoded as one frame.
pub(super) struct ShortFrame {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl ShortFrame {
    /// An acknowledgement with the longest live id fits.
    const ROOM: usize = 256;

    /// `None` if the message is long, or of a kind that needs the codec: a Close changes what may
    /// follow.
    pub(super) fn of(message: &Message) -> Option<Self> {
        let (opcode, payload) = match message {
            Message::Text(text) => (OpCode::Data(Data::Text), text.as_bytes()),
            Message::Ping(payload) => (OpCode::Control(Control::Ping), payload.as_ref()),
            _ => return None,
        };
        let header = FrameHeader {
            opcode,
            ..FrameHeader::default()
        };
        let start = header.len(payload.len() as u64);
        let mut bytes = [0; Self::ROOM];
        let length = start + payload.len();
        header
            .format(payload.len() as u64, &mut bytes.get_mut(..start)?)
            .ok()?;
        bytes.get_mut(start..length)?.copy_from_slice(payload);
        Some(Self { bytes, length })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
