//! The byte stream of a connection, with or without TLS. HTTP uses it first, and the session later.
//! A plain socket is no larger with this type than without it: the state of TLS is in a box.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::base::web_origin::Scheme;

#[derive(Debug)]
pub(crate) enum PlainOrTls {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl PlainOrTls {
    pub(super) fn scheme(&self) -> Scheme {
        match self {
            Self::Plain(_) => Scheme::Http,
            Self::Tls(_) => Scheme::Https,
        }
    }
}

/// Calls the same method of the stream inside.
macro_rules! inside {
    ($transport:expr, $method:ident $(, $argument:expr)*) => {
        match $transport.get_mut() {
            PlainOrTls::Plain(stream) => Pin::new(stream).$method($($argument),*),
            PlainOrTls::Tls(stream) => Pin::new(&mut **stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for PlainOrTls {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inside!(self, poll_read, cx, buffer)
    }
}

impl AsyncWrite for PlainOrTls {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        inside!(self, poll_write, cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        inside!(self, poll_write_vectored, cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, poll_flush, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        inside!(self, poll_shutdown, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_socket_is_no_larger_for_it() {
        assert_eq!(size_of::<PlainOrTls>(), size_of::<TcpStream>());
    }
}
