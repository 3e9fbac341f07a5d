//! The address of the client behind a request, for all limits by address. The listener puts it into
//! the extensions of every request.
//!
//! It is the peer's address, unless the peer names the client and is a trusted proxy, or a balancer
//! that speaks the PROXY protocol. A name that cannot be trusted or read is ignored, and the peer's
//! address stays: an attacker then shares the limits of the proxy, and cannot use up the limits of
//! somebody else.

pub mod forwarded;
pub(crate) mod proxy_hint;

use std::net::IpAddr;

use axum::http::header::FORWARDED;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use forwarded::{forwarded_elements, last_untrusted, plain_elements};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Where the client is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ClientAddress {
    /// The peer of the connection. It is not a trusted proxy that forwards for somebody else.
    Peer(IpAddr),
    /// The client that a trusted proxy or a balancer names; or the proxy itself, if its headers
    /// name nobody.
    Forwarded(IpAddr),
}

impl ClientAddress {
    pub(crate) fn address(self) -> IpAddr {
        match self {
            Self::Peer(address) | Self::Forwarded(address) => address,
        }
    }

    /// The address whose limits apply to the client; `None` for a client on this machine, such as a
    /// back end. The limits do apply to a proxy on this machine: otherwise an attacker could escape
    /// all limits with a header that cannot be read. They also apply to a client whom a header
    /// names with an address of this machine.
    pub(crate) fn limited(self) -> Option<IpAddr> {
        match self {
            Self::Peer(address) => {
                let address = address.to_canonical();
                if address.is_loopback() {
                    None
                } else {
                    Some(address)
                }
            }
            Self::Forwarded(address) => Some(address.to_canonical()),
        }
    }
}

/// One number for all addresses of a client. An IPv6 client owns a whole network of 64 bits. IPv4
/// addresses map into `::/32`, which no IPv6 client has.
pub(crate) fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64,
    }
}

/// The proxies that may name their client.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    pub(crate) fn new(networks: &[IpNet]) -> Self {
        Self(networks.to_vec())
    }

    /// The client of a request with these headers on a connection of `peer`.
    pub(crate) fn client(&self, peer: ClientAddress, headers: &HeaderMap) -> ClientAddress {
        let forwards = headers.contains_key(FORWARDED) || headers.contains_key(X_FORWARDED_FOR);
        if forwards && self.trusts(peer.address()) {
            ClientAddress::Forwarded(self.named(headers).unwrap_or(peer.address()))
        } else {
            peer
        }
    }

    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client that the headers name. A proxy writes one of the two headers and passes the other
    /// on as the client sent it, so two headers that disagree name nobody.
    fn named(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let has_forwarded = headers.contains_key(FORWARDED);
        let has_x_forwarded_for = headers.contains_key(X_FORWARDED_FOR);
        let by_forwarded = self.named_by(headers, &FORWARDED, forwarded_elements);
        let by_x_forwarded_for = self.named_by(headers, &X_FORWARDED_FOR, plain_elements);
        match (has_forwarded, has_x_forwarded_for) {
            (true, true) if by_forwarded != by_x_forwarded_for => None,
            (true, _) => by_forwarded,
            (false, _) => by_x_forwarded_for,
        }
    }

    /// The client that one header names; `None` if there is no such header, or it names nobody.
    fn named_by(
        &self,
        headers: &HeaderMap,
        name: &HeaderName,
        elements: fn(&str) -> Option<Vec<&str>>,
    ) -> Option<IpAddr> {
        let lines: Vec<&str> = headers
            .get_all(name)
            .iter()
            // A value that is not text ends the search, as an address that cannot be read does.
            .map(|line| line.to_str().unwrap_or(""))
            .collect();
        last_untrusted(lines.into_iter(), elements, |address| self.trusts(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, headers: &[(HeaderName, &'static str)]) -> String {
        limited(peer, headers).unwrap().to_string()
    }

    fn limited(peer: &str, headers: &[(HeaderName, &'static str)]) -> Option<IpAddr> {
        let trusted =
            ["10.0.0.0/8", "2001:db8::/32", "127.0.0.0/8"].map(|network| network.parse().unwrap());
        let trusted = TrustedProxies::new(&trusted);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        trusted
            .client(ClientAddress::Peer(peer.parse().unwrap()), &map)
            .limited()
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
        assert_eq!(
            client("10.1.2.3", &[(FORWARDED, "for=\"192.0.2.7")]),
            "10.1.2.3"
        );
    }

    #[test]
    fn a_proxy_on_this_machine_pays_for_whom_it_does_not_name_and_a_back_end_does_not_pay() {
        for names in ["evil", "", "127.0.0.1", "10.0.0.1"] {
            assert_eq!(
                client("127.0.0.1", &[(X_FORWARDED_FOR, names)]),
                "127.0.0.1",
                "{names}"
            );
        }
        let two = [(FORWARDED, "for=1.1.1.1"), (X_FORWARDED_FOR, "192.0.2.7")];
        assert_eq!(client("127.0.0.1", &two), "127.0.0.1");
        for peer in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(limited(peer, &[]), None);
        }
        assert_eq!(
            limited("::1", &[(X_FORWARDED_FOR, "evil")]),
            None,
            "no trusted proxy, so the header is ignored"
        );
    }

    #[test]
    fn a_client_whom_a_balancer_names_pays_even_with_an_address_of_this_machine() {
        let trusted = TrustedProxies::new(&["127.0.0.0/8".parse().unwrap()]);
        for named in ["127.0.0.1", "::1", "192.0.2.7"] {
            let address: IpAddr = named.parse().unwrap();
            let peer = ClientAddress::Forwarded(address);
            assert_eq!(
                TrustedProxies::default()
                    .client(peer, &HeaderMap::new())
                    .limited(),
                Some(address)
            );
            assert_eq!(
                trusted.client(peer, &HeaderMap::new()).limited(),
                Some(address)
            );
        }
        let mut headers = HeaderMap::new();
        headers.insert(X_FORWARDED_FOR, "192.0.2.9".parse().unwrap());
        let proxy = ClientAddress::Forwarded("127.0.0.1".parse().unwrap());
        assert_eq!(
            trusted.client(proxy, &headers).limited(),
            Some("192.0.2.9".parse().unwrap())
        );
    }

    #[test]
    fn the_addresses_of_one_network_are_one_client() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("192.0.2.7"), of("::ffff:192.0.2.7"));
        assert_eq!(of("2001:db8:1:2::7"), of("2001:db8:1:2:ffff::8"));
        assert_ne!(of("2001:db8:1:2::7"), of("2001:db8:1:3::7"));
        assert_ne!(of("192.0.2.7"), of("192.0.2.8"));
    }

    #[test]
    fn two_headers_that_disagree_name_nobody() {
        let two = |a, b| client("10.1.2.3", &[(FORWARDED, a), (X_FORWARDED_FOR, b)]);
        assert_eq!(two("for=192.0.2.7", "192.0.2.7"), "192.0.2.7");
        assert_eq!(two("for=1.1.1.1", "192.0.2.7"), "10.1.2.3");
        assert_eq!(two("for=192.0.2.7", "evil"), "10.1.2.3");
    }
}
