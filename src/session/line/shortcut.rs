//! The way past the codec of what comes and goes nearly always: a heartbeat that comes alone, the empty Pong to a Ping,
//! and a short message to a client.
//!
//! Nothing is decoded here. Two frames are known by their bytes, the mask taken off (RFC 6455, 5.2 and 5.3); whatever is
//! not exactly one of them, be it a heartbeat in two pieces, is the codec's.

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tokio_tungstenite::tungstenite::{Bytes, Message, Utf8Bytes};

use crate::protocol::HEARTBEAT;

/// The last and only frame of a message, with this opcode.
const WHOLE: u8 = 0x80;
const TEXT: u8 = 0x1;
const PONG: u8 = 0xa;
/// What a client sends is masked.
const MASKED: u8 = 0x80;

/// The message whose frame these bytes are, if they are one whole frame of those that are known.
pub(super) fn known(bytes: &[u8]) -> Option<Message> {
    const BEAT: [u8; 2] = [WHOLE | TEXT, MASKED | HEARTBEAT.len() as u8];
    const EMPTY_PONG: [u8; 2] = [WHOLE | PONG, MASKED];
    let (head, rest) = bytes.split_first_chunk::<2>()?;
    let (mask, payload) = rest.split_first_chunk::<4>()?;
    match *head {
        BEAT if is_masked(payload, *mask, HEARTBEAT.as_bytes()) => {
            Some(Message::Text(Utf8Bytes::from_static(HEARTBEAT)))
        }
        EMPTY_PONG if payload.is_empty() => Some(Message::Pong(Bytes::new())),
        _ => None,
    }
}

fn is_masked(payload: &[u8], mask: [u8; 4], plain: &[u8]) -> bool {
    payload.len() == plain.len()
        && payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).eq(plain.iter().copied())
}

/// A short message as the one frame that it goes out in.
pub(super) struct Frame {
    bytes: [u8; Self::ROOM],
    length: usize,
}

impl Frame {
    /// An acknowledgement with the longest live id fits.
    const ROOM: usize = 256;

    /// `None` if it is long, or nothing that is said without the codec: a Close changes what may follow.
    pub(super) fn of(message: &Message) -> Option<Self> {
        let (opcode, payload) = match message {
            Message::Text(text) => (OpCode::Data(Data::Text), text.as_bytes()),
            Message::Ping(payload) => (OpCode::Control(Control::Ping), payload.as_ref()),
            _ => return None,
        };
        let header = FrameHeader { opcode, ..FrameHeader::default() };
        let start = header.len(payload.len() as u64);
        let mut bytes = [0; Self::ROOM];
        let length = start + payload.len();
        header.format(payload.len() as u64, &mut bytes.get_mut(..start)?).ok()?;
        bytes.get_mut(start..length)?.copy_from_slice(payload);
        Some(Self { bytes, length })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
