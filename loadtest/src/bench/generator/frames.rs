//! Frames as a generator writes and reads them: encoded once, found in place, never copied.

/// A text message.
pub(crate) const TEXT: u8 = 0x1;
/// The end of a socket.
pub(crate) const CLOSE: u8 = 0x8;
/// A question whether somebody is there.
pub(crate) const PING: u8 = 0x9;
/// Its answer.
pub(crate) const PONG: u8 = 0xA;

/// Not zero, so that the server has to unmask as it does for any client.
const MASK: [u8; 4] = [0x5a, 0x3c, 0x96, 0xe1];

/// A frame of the server's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) opcode: u8,
    pub(crate) payload: &'a [u8],
}

/// A whole client frame, masked. Payloads up to 65,535 bytes.
pub(crate) fn encode(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match u16::try_from(payload.len()) {
        Ok(length) if length < 126 => frame.push(0x80 | length as u8),
        length => {
            frame.push(0x80 | 126);
            frame.extend(length.unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(
        payload
            .iter()
            .zip(MASK.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    frame
}

/// The first frame of what a server sent, and how many bytes it took; `None` until it is whole.
pub(crate) fn next(bytes: &[u8]) -> Option<(Frame<'_>, usize)> {
    let (&first, &second) = (bytes.first()?, bytes.get(1)?);
    let (head, length): (usize, usize) = match second & 0x7f {
        126 => (
            4,
            u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?) as usize,
        ),
        127 => (
            10,
            u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?) as usize,
        ),
        short => (2, short as usize),
    };
    let payload = bytes.get(head..head.checked_add(length)?)?;
    Some((
        Frame {
            opcode: first & 0xf,
            payload,
        },
        head + length,
    ))
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
        assert_eq!(
            (hi, used),
            (
                Frame {
                    opcode: TEXT,
                    payload: b"hi"
                },
                4
            )
        );
        let (frame, more) = next(&wire[used..]).unwrap();
        assert_eq!((frame.payload, more), (&long[..], 304));
        assert_eq!(next(&wire[used + more..]), None, "half a ping is none");
    }

    #[test]
    fn an_encoded_frame_is_masked_and_has_its_length() {
        let short = encode(TEXT, b"ab");
        assert_eq!(
            short,
            [0x81, 0x82, 0x5a, 0x3c, 0x96, 0xe1, b'a' ^ 0x5a, b'b' ^ 0x3c]
        );
        let long = encode(TEXT, &[0; 4096]);
        assert_eq!(&long[..4], [0x81, 0x80 | 126, 16, 0]);
        assert_eq!(long.len(), 8 + 4096);
    }
}
