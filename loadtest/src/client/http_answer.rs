//! An answer of HTTP/1.1 as a gateway sends it: a head, and a body of a known length.

/// A whole answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    /// Whether the gateway closes the connection after it.
    pub(crate) closes: bool,
    pub(crate) body: Vec<u8>,
    /// The length of head and body.
    pub(crate) length: usize,
}

impl HttpAnswer {
    /// `None` until it is whole.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let status = head.get(9..12)?.parse().ok()?;
        let mut body_length = 0;
        let mut closes = false;
        for line in head.lines() {
            let Some((name, value)) = line.split_once(':') else {
                continue;
            };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                body_length = value.parse().ok()?;
            }
            if name.eq_ignore_ascii_case("connection") {
                closes = value.eq_ignore_ascii_case("close");
            }
        }
        let length = end + 4 + body_length;
        let body = bytes.get(end + 4..length)?.to_vec();
        Some(Self {
            status,
            closes,
            body,
            length,
        })
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_it_is_whole() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-type: x\r\nContent-Length: 2\r\n\r\n{}";
        for length in 0..whole.len() {
            assert_eq!(HttpAnswer::read(&whole[..length]), None, "{length} bytes");
        }
        let answer = HttpAnswer {
            status: 200,
            closes: false,
            body: b"{}".to_vec(),
            length: whole.len(),
        };
        assert_eq!(HttpAnswer::read(whole), Some(answer));
    }

    #[test]
    fn a_refusal_may_end_the_connection() {
        let text = b"HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n";
        let refused = HttpAnswer::read(text).unwrap();
        assert!(refused.closes && !refused.is_success());
    }
}
