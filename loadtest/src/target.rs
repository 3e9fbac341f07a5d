//! Where the load goes: loopback addresses, and nothing else.
//!
//! A load generator that can be pointed at somebody else's server will be. A name is resolved once,
//! here, and every one of its addresses must be a loopback address; what is dialled later is the
//! address, not the name.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::http::Uri;

use crate::entry::EntryTerms;

/// Why an address was refused.
#[derive(Debug, Error)]
pub(crate) enum TargetError {
    /// Not an address at all.
    #[error("{0:?} is not an address such as {1}")]
    Malformed(String, &'static str),
    /// A scheme that is not spoken here.
    #[error("{0:?} must start with {1}:// or {1}s://")]
    Scheme(String, &'static str),
    /// The name means nothing here.
    #[error("{0:?} does not resolve: {1}")]
    Unresolved(String, std::io::Error),
    /// Somebody else's server.
    #[error("{0:?} is {1}, which is not a loopback address: load is for this machine only")]
    NotLoopback(String, IpAddr),
}

/// A resolved loopback address, and the path that was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    pub(crate) entry: EntryTerms,
}

impl Target {
    /// `ws[s]://HOST[:PORT][/path]`
    pub(crate) fn websocket(url: &str) -> Result<Self, TargetError> {
        let mut target = Self::from_url(url, "ws", "ws://127.0.0.1:8080")?;
        if target.path == "/" {
            target.path = "/ws".to_owned();
        }
        Ok(target)
    }

    /// The WebSocket endpoint of a gateway that this program started.
    pub(crate) fn gateway(address: SocketAddr) -> Self {
        Self {
            path: "/ws".to_owned(),
            ..Self::plain(address)
        }
    }

    /// `http[s]://HOST[:PORT]`
    pub(crate) fn http(url: &str) -> Result<Self, TargetError> {
        Self::from_url(url, "http", "http://127.0.0.1:8080")
    }

    /// An address that asks for nothing.
    pub(crate) fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            path: String::new(),
            entry: EntryTerms::default(),
        }
    }

    /// `HOST:PORT`
    pub(crate) fn host_port(text: &str) -> Result<Self, TargetError> {
        if let Some((host, port)) = text.rsplit_once(':')
            && let Ok(port) = port.parse()
        {
            return Ok(Self::plain(resolve(text, host, port)?));
        }
        Err(TargetError::Malformed(text.to_owned(), "127.0.0.1:6379"))
    }

    fn from_url(
        url: &str,
        scheme: &'static str,
        example: &'static str,
    ) -> Result<Self, TargetError> {
        let Ok(uri) = url.parse::<Uri>() else {
            return Err(TargetError::Malformed(url.to_owned(), example));
        };
        let Some(host) = uri.host() else {
            return Err(TargetError::Malformed(url.to_owned(), example));
        };
        let (port, name) = match uri.scheme_str().and_then(|word| word.strip_prefix(scheme)) {
            Some("") => (80, None),
            Some("s") => (443, Some(host.trim_matches(['[', ']']).to_owned())),
            _ => return Err(TargetError::Scheme(url.to_owned(), scheme)),
        };
        let address = resolve(url, host, uri.port_u16().unwrap_or(port))?;
        Ok(Self {
            address,
            path: uri.path().to_owned(),
            entry: EntryTerms {
                name,
                ..EntryTerms::default()
            },
        })
    }

    /// A new connection; `source` picks one of the addresses 127.0.0.1, 127.0.0.2, … to come from,
    /// since one source address has too few ports for a large crowd.
    pub(crate) async fn connect(&self, source: Option<usize>) -> std::io::Result<TcpStream> {
        let socket = if self.address.is_ipv4() {
            TcpSocket::new_v4()?
        } else {
            TcpSocket::new_v6()?
        };
        if let Some(number) = source {
            let from = u32::from(Ipv4Addr::LOCALHOST) + number as u32;
            socket.bind(SocketAddr::new(Ipv4Addr::from(from).into(), 0))?;
        }
        let stream = socket.connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

fn resolve(text: &str, host: &str, port: u16) -> Result<SocketAddr, TargetError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<SocketAddr> = (bare, port)
        .to_socket_addrs()
        .map_err(|error| TargetError::Unresolved(text.to_owned(), error))?
        .collect();
    if let Some(stranger) = addresses.iter().find(|address| !address.ip().is_loopback()) {
        return Err(TargetError::NotLoopback(text.to_owned(), stranger.ip()));
    }
    // `localhost` often names ::1 first, where nothing listens.
    let preferred = addresses
        .iter()
        .find(|address| address.is_ipv4())
        .or(addresses.first());
    match preferred {
        Some(address) => Ok(*address),
        None => Err(TargetError::Unresolved(
            text.to_owned(),
            std::io::ErrorKind::NotFound.into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_taken() {
        for url in [
            "ws://127.0.0.1:8080",
            "ws://127.9.9.9:1/ws",
            "ws://[::1]:8080/",
            "ws://localhost:9",
        ] {
            let target = Target::websocket(url).expect(url);
            assert!(target.address.ip().is_loopback());
            assert_eq!(target.path, "/ws");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for url in [
            "ws://10.0.0.1:8080",
            "ws://0.0.0.0:8080",
            "ws://[2001:db8::1]:80",
            "ws://192.0.2.7",
        ] {
            assert!(
                matches!(Target::websocket(url), Err(TargetError::NotLoopback(..))),
                "{url}"
            );
        }
        let secure = Target::websocket("wss://localhost").unwrap();
        assert_eq!(
            (secure.address.port(), secure.entry.name.as_deref()),
            (443, Some("localhost"))
        );
        assert!(matches!(
            Target::websocket("wsx://127.0.0.1"),
            Err(TargetError::Scheme(..))
        ));
        assert!(matches!(
            Target::websocket("http://127.0.0.1"),
            Err(TargetError::Scheme(..))
        ));
        assert!(matches!(
            Target::host_port("127.0.0.1"),
            Err(TargetError::Malformed(..))
        ));
        assert!(matches!(
            Target::host_port("192.0.2.7:6379"),
            Err(TargetError::NotLoopback(..))
        ));
    }

    #[tokio::test]
    async fn a_connection_comes_from_the_source_asked_for() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = Target::host_port(&listener.local_addr().unwrap().to_string()).unwrap();
        for (source, from) in [
            (None, "127.0.0.1"),
            (Some(0), "127.0.0.1"),
            (Some(2), "127.0.0.3"),
        ] {
            let _connection = target.connect(source).await.unwrap();
            let (_, peer) = listener.accept().await.unwrap();
            assert_eq!(peer.ip().to_string(), from);
        }
    }
}
