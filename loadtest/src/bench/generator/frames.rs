//! Frames as a generator writes and reads them: encoded once, found in place, never copied.

use std::io::Cursor;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

/// A text message.
pub(crate) const TEXT: OpCode = OpCode::Data(Data::Text);
/// The end of a socket.
pub(crate) const CLOSE: OpCode = OpCode::Control(Control::Close);
/// A question whether somebody is there.
pub(crate) const PING: OpCode = OpCode::Control(Control::Ping);
/// Its answer.
pub(crate) const PONG: OpCode = OpCode::Control(Control::Pong);

/// Not zero, so that the server has to unmask as it does for any client.
const MASK: [u8; 4] = [0x5a, 0x3c, 0x96, 0xe1];

/// A frame of the server's.
pub(crate) struct Frame<'a> {
    pub(crate) opcode: OpCode,
    pub(crate) payload: &'a [u8],
}

/// A whole client frame, masked.
pub(crate) fn encode(opcode: OpCode, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        opcode,
        mask: Some(MASK),
        ..FrameHeader::default()
    };
    let mut frame = Vec::new();
    // A write to memory does not fail.
    let _ = header.format(payload.len() as u64, &mut frame);
    let masked = payload.iter().zip(MASK.iter().cycle());
    frame.extend(masked.map(|(byte, mask)| byte ^ mask));
    frame
}

/// The first frame of what a server sent, and how many bytes it took; `None` until it is whole.
pub(crate) fn next(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let mut cursor = Cursor::new(bytes);
    let (FrameHeader { opcode, .. }, length) = FrameHeader::parse(&mut cursor).ok()??;
    let head = cursor.position() as usize;
    let end = head.checked_add(length as usize)?;
    let payload = bytes.get(head..end)?;
    Some((Frame { opcode, payload }, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_one_after_another() {
        let long = vec![b'x'; 300];
        let mut wire = vec![0x81, 2, b'h', b'i', 0x81, 126, 1, 44];
        wire.extend(&long);
        wire.extend([0x89, 5, b'a']);
        let (hi, used) = next(&wire).unwrap();
        assert_eq!((hi.opcode, hi.payload, used), (TEXT, &b"hi"[..], 4));
        let (frame, more) = next(&wire[used..]).unwrap();
        assert_eq!((frame.payload, more), (&long[..], 304));
        assert!(next(&wire[used + more..]).is_none(), "half a ping is none");
        let mine = encode(TEXT, b"ab");
        assert_eq!(mine[..2], [0x81, 0x82]);
        assert_eq!(mine[6..], [b'a' ^ 0x5a, b'b' ^ 0x3c]);
    }
}
