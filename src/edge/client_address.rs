//! The address of the client behind a request, for everything that limits by address. The listener puts it into the
//! extensions of every request.
//!
//! It is the peer's address, unless the peer is a trusted proxy that names the client. Whatever cannot be trusted or
//! read leaves the peer's address: an attacker then shares the limits of the proxy, and cannot take somebody else's.

pub mod forwarded;

use std::net::IpAddr;

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use forwarded::{forwarded_elements, last_untrusted, plain_elements};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Where the client is: the peer of the connection, or whom a trusted proxy names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// The proxies that are believed when they name their client.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    pub(crate) fn new(networks: &[IpNet]) -> Self {
        Self(networks.to_vec())
    }

    /// The client of a request with these headers that came from `peer`.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddress {
        ClientAddress(if self.trusts(peer) { self.named(headers).unwrap_or(peer) } else { peer })
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Whom the headers name. A proxy writes one of them and passes the other on as the client sent it, so two that
    /// disagree name nobody.
    fn named(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let named = |name: &HeaderName, elements| {
            if !headers.contains_key(name) {
                return None;
            }
            // A value that is not text ends the search as an address that cannot be read does.
            let lines: Vec<&str> = headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("")).collect();
            Some(last_untrusted(lines.into_iter(), elements, |address| self.trusts(address)))
        };
        match (named(&FORWARDED, forwarded_elements), named(&X_FORWARDED_FOR, plain_elements)) {
            (Some(one), Some(other)) if one == other => one,
            (Some(_), Some(_)) | (None, None) => None,
            (Some(client), None) | (None, Some(client)) => client,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, headers: &[(HeaderName, &'static str)]) -> String {
        let trusted = TrustedProxies::new(&["10.0.0.0/8".parse().unwrap(), "2001:db8::/32".parse().unwrap()]);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        trusted.client(peer.parse().unwrap(), &map).0.to_string()
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        let names = [(X_FORWARDED_FOR, "192.0.2.7")];
        assert_eq!(client("10.1.2.3", &names), "192.0.2.7");
        assert_eq!(client("2001:db8::5", &names), "192.0.2.7");
        assert_eq!(client("203.0.113.1", &names), "203.0.113.1");
        assert_eq!(client("10.1.2.3", &[]), "10.1.2.3");
    }

    #[test]
    fn what_cannot_be_read_leaves_the_proxy() {
        assert_eq!(client("10.1.2.3", &[(X_FORWARDED_FOR, "evil")]), "10.1.2.3");
        assert_eq!(client("10.1.2.3", &[(FORWARDED, "for=\"192.0.2.7")]), "10.1.2.3");
    }

    #[test]
    fn two_headers_that_disagree_name_nobody() {
        let two = |a, b| client("10.1.2.3", &[(FORWARDED, a), (X_FORWARDED_FOR, b)]);
        assert_eq!(two("for=192.0.2.7", "192.0.2.7"), "192.0.2.7");
        assert_eq!(two("for=1.1.1.1", "192.0.2.7"), "10.1.2.3");
        assert_eq!(two("for=192.0.2.7", "evil"), "10.1.2.3");
    }
}
