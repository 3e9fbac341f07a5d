//! The header of the PROXY protocol, versions 1 and 2. A balancer begins each connection with it,
//! to say who connected to the balancer. This module reads nothing after the header.

use std::io::{self, ErrorKind};
use std::net::IpAddr;

use proxy_header::{Error, ParseConfig, ProxyHeader};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// The longest header: version 2 has some dozen bytes and what a balancer adds about TLS.
pub const MAX_LENGTH: usize = 1_024;

/// The longest header of version 1, as its specification says.
const MAX_TEXT: usize = 107;

/// The meaning of the first bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
pub enum Start {
    /// A header. Without a client, the connection is the balancer's own, such as a health check, or
    /// the balancer does not know the client.
    Header {
        /// In bytes.
        length: usize,
        /// Who connected to the balancer.
        client: Option<IpAddr>,
    },
    /// The beginning of a header that goes on.
    Incomplete,
    /// No header, or one that is too long.
    Wrong,
}

/// Reads the header at the start of `bytes`.
#[must_use]
pub fn parse(bytes: &[u8]) -> Start {
    // The library refuses a longer header of version 1 only if it has not arrived whole.
    let most = if bytes.starts_with(b"PROXY") {
        MAX_TEXT
    } else {
        MAX_LENGTH
    };
    let parse_config = ParseConfig {
        include_tlvs: false,
        ..ParseConfig::default()
    };
    match ProxyHeader::parse(bytes, parse_config) {
        Ok((header, length)) if length <= most => Start::Header {
            length,
            client: header
                .proxied_address()
                .map(|address| address.source.ip().to_canonical()),
        },
        Err(Error::BufferTooShort) if bytes.len() < most => Start::Incomplete,
        _ => Start::Wrong,
    }
}

/// Takes the header from a connection; returns the client that it names.
pub(super) async fn read(stream: &mut TcpStream) -> io::Result<Option<IpAddr>> {
    let mut bytes = vec![0; MAX_LENGTH];
    let mut taken = 0;
    loop {
        // The bytes after the header must stay in the kernel's buffer, so this looks at the bytes
        // before it takes them.
        let seen = taken + stream.peek(&mut bytes[taken..]).await?;
        if seen == taken {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match parse(&bytes[..seen]) {
            Start::Header { length, client } => {
                stream.read_exact(&mut bytes[taken..length]).await?;
                return Ok(client);
            }
            Start::Incomplete => {
                stream.read_exact(&mut bytes[taken..seen]).await?;
                taken = seen;
            }
            Start::Wrong => {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "no PROXY protocol header",
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        [
            V2,
            &[command, family],
            &u16::try_from(body.len()).unwrap().to_be_bytes(),
            body,
        ]
        .concat()
    }

    fn named(bytes: &[u8], client: Option<&str>) {
        let client = client.map(|ip| ip.parse().unwrap());
        assert_eq!(
            parse(bytes),
            Start::Header {
                length: bytes.len(),
                client
            }
        );
        let longer = [bytes, b"GET / HTTP/1.1\r\n\r\n"].concat();
        assert_eq!(
            parse(&longer),
            Start::Header {
                length: bytes.len(),
                client
            },
            "what follows is not read"
        );
        for short in 0..bytes.len() {
            assert_eq!(
                parse(&bytes[..short]),
                Start::Incomplete,
                "{short} of {}",
                bytes.len()
            );
        }
    }

    #[test]
    fn both_versions_name_the_client() {
        named(
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 443\r\n",
            Some("192.0.2.7"),
        );
        named(
            b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n",
            Some("2001:db8::7"),
        );
        named(
            &v2(0x21, 0x11, &[192, 0, 2, 7, 10, 0, 0, 1, 18, 103, 1, 187]),
            Some("192.0.2.7"),
        );
        named(
            &v2(
                0x21,
                0x11,
                &[
                    [192, 0, 2, 7, 10, 0, 0, 1, 18, 103, 1, 187].as_slice(),
                    &[9; 300],
                ]
                .concat(),
            ),
            Some("192.0.2.7"),
        );
        let mut mapped = [0; 36];
        mapped[10..16].copy_from_slice(&[0xff, 0xff, 192, 0, 2, 7]);
        named(&v2(0x21, 0x21, &mapped), Some("192.0.2.7"));
    }

    #[test]
    fn a_balancer_that_speaks_for_itself_names_nobody() {
        named(b"PROXY UNKNOWN\r\n", None);
        named(b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None);
        named(
            &[
                b"PROXY UNKNOWN ".as_slice(),
                &[b'x'; MAX_TEXT - 16],
                b"\r\n",
            ]
            .concat(),
            None,
        );
        named(&v2(0x20, 0x00, &[]), None);
        named(&v2(0x20, 0x11, &[0; 12]), None);
        named(&v2(0x21, 0x31, &[b'x'; 216]), None);
    }

    #[test]
    fn anything_else_is_wrong() {
        let long = v2(0x21, 0x11, &[0; MAX_LENGTH]);
        for wrong in [
            b"GET / HTTP/1.1\r\nhost: x\r\n".as_slice(),
            b"\x16\x03\x01\x02\0\x01\0",
            b"PROXY TCP4 192.0.2.300 10.0.0.1 4711 443\r\n",
            b"PROXY TCP4 2001:db8::7 2001:db8::1 4711 443\r\n",
            b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 70000\r\n",
            b"PROXY UDP4 192.0.2.7 10.0.0.1 4711 443\r\n",
            &v2(0x31, 0x11, &[0; 12]),
            &[v2(0x21, 0x11, &[0; 4]), vec![0; 12]].concat(),
            &v2(0x21, 0x77, &[0; 12]),
            &[b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat(),
            &[
                b"PROXY UNKNOWN ".as_slice(),
                &[b'x'; MAX_TEXT - 15],
                b"\r\n",
            ]
            .concat(),
            &long,
        ] {
            assert_eq!(
                parse(wrong),
                Start::Wrong,
                "{:?}",
                String::from_utf8_lossy(wrong)
            );
        }
    }
}
