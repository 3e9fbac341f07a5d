//! Follows where frames begin and end in the bytes that a client sends (RFC 6455, 5.2), however the
//! network cuts them. It decodes nothing: it exists because the codec does not report a frame that
//! is only a part of a message.

/// The part of a frame that the next byte belongs to.
#[derive(Debug, Clone, Copy)]
enum NextByte {
    /// The first byte of a frame: its opcode, and whether it ends its message.
    Opcode,
    /// The mask's bit and the short length.
    Length,
    /// `left` bytes of a longer length, of which `length` was read; then a mask of `mask` bytes.
    LongLength { left: u8, length: u64, mask: u64 },
    /// This many bytes of mask and payload.
    Body(u64),
}

#[derive(Debug)]
pub(super) struct Boundaries {
    next: NextByte,
    /// The last data frame does not end its message.
    in_message: bool,
    whole: bool,
    /// Frames that do not end their message.
    parts: u32,
}

impl Boundaries {
    pub(super) fn new() -> Self {
        Self {
            next: NextByte::Opcode,
            in_message: false,
            whole: false,
            parts: 0,
        }
    }

    pub(super) fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = rest;
            match self.next {
                NextByte::Opcode => {
                    // A control frame between the parts of a message is not a part of it.
                    let is_control = byte & 0x08 != 0;
                    if !is_control {
                        self.in_message = byte & 0x80 == 0;
                        if self.in_message {
                            self.parts = self.parts.saturating_add(1);
                        }
                    }
                    self.next = NextByte::Length;
                }
                NextByte::Length => {
                    let mask = if byte & 0x80 == 0 { 0 } else { 4 };
                    match byte & 0x7f {
                        126 => {
                            self.next = NextByte::LongLength {
                                left: 2,
                                length: 0,
                                mask,
                            }
                        }
                        127 => {
                            self.next = NextByte::LongLength {
                                left: 8,
                                length: 0,
                                mask,
                            }
                        }
                        length => self.expect(mask + u64::from(length)),
                    }
                }
                NextByte::LongLength { left, length, mask } => {
                    let length = length << 8 | u64::from(byte);
                    match left - 1 {
                        0 => self.expect(length.saturating_add(mask)),
                        left => self.next = NextByte::LongLength { left, length, mask },
                    }
                }
                NextByte::Body(left) => {
                    let more = (left - 1).min(bytes.len() as u64);
                    bytes = &bytes[more as usize..];
                    self.expect(left - 1 - more);
                }
            }
        }
    }

    fn expect(&mut self, body: u64) {
        match body {
            0 => {
                self.next = NextByte::Opcode;
                self.whole = true;
            }
            left => self.next = NextByte::Body(left),
        }
    }

    /// Whether only whole messages have arrived.
    pub(super) fn is_between_messages(&self) -> bool {
        matches!(self.next, NextByte::Opcode) && !self.in_message
    }

    /// Whether a frame was completed since the last call of [`Self::take_whole`].
    pub(super) fn has_whole(&self) -> bool {
        self.whole
    }

    /// How many frames that do not end their message have begun since the last call.
    pub(super) fn take_parts(&mut self) -> u32 {
        std::mem::take(&mut self.parts)
    }

    /// Returns [`Self::has_whole`], and resets it until the next frame is complete.
    pub(super) fn take_whole(&mut self) -> bool {
        std::mem::take(&mut self.whole)
    }
}
