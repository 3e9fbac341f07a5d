//! The parts of a web address that say who may talk to whom: `host[:port]`, as in the header `Host`, and an origin, as
//! in the header `Origin`. Reading them is pure: the settings and the HTTP edge read them with the same code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest name that DNS knows.
const MAX_NAME: usize = 253;

/// How a page, or this gateway, is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// `host[:port]`.
#[derive(Debug, Clone, Copy)]
pub struct Authority<'a> {
    /// A name, or an IP address; an IPv6 address is in brackets.
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    /// `None` if the text is anything else.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let end = match text.strip_prefix('[') {
            Some(rest) => {
                let inner = rest.find(']')?;
                rest.get(..inner)?.parse::<Ipv6Addr>().ok()?;
                inner + 2
            }
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, rest) = text.split_at_checked(end)?;
        let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
        if !host.starts_with('[') && (host.is_empty() || host.len() > MAX_NAME || !host.bytes().all(is_name)) {
            return None;
        }
        let port = match rest.strip_prefix(':') {
            None => rest.is_empty().then_some(None)?,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
        };
        Some(Self { host, port })
    }

    /// Whether it names this machine and no other: `localhost`, or a loopback address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let address: Option<IpAddr> =
            bare.parse::<Ipv4Addr>().map(IpAddr::from).or_else(|_| bare.parse::<Ipv6Addr>().map(IpAddr::from)).ok();
        self.host.eq_ignore_ascii_case("localhost") || address.is_some_and(|ip| ip.to_canonical().is_loopback())
    }

    fn is(&self, other: &Authority<'_>, scheme: Scheme) -> bool {
        let port = |authority: &Authority<'_>| authority.port.unwrap_or(scheme.default_port());
        self.host.eq_ignore_ascii_case(other.host) && port(self) == port(other)
    }
}

/// `scheme://host[:port]`: where a page came from.
#[derive(Debug, Clone, Copy)]
pub struct WebOrigin<'a> {
    scheme: Scheme,
    authority: Authority<'a>,
}

impl<'a> WebOrigin<'a> {
    /// `None` if the text is anything else, such as the `null` of a page without an origin.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let known = [("http", Scheme::Http), ("https", Scheme::Https)];
        let (_, scheme) = known.into_iter().find(|(name, _)| scheme.eq_ignore_ascii_case(name))?;
        Some(Self { scheme, authority: Authority::parse(authority)? })
    }

    /// Whether both are the same origin.
    #[must_use]
    pub fn is(&self, other: &WebOrigin<'_>) -> bool {
        self.scheme == other.scheme && self.authority.is(&other.authority, self.scheme)
    }

    /// Whether a page of this origin is of the host that it asks, over a connection of this scheme. What arrives
    /// without TLS may have been sent with it, to a balancer in front of the gateway.
    #[must_use]
    pub fn is_of(&self, host: &Authority<'_>, scheme: Scheme) -> bool {
        (self.scheme == Scheme::Https || scheme == Scheme::Http) && self.authority.is(host, self.scheme)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for good in
            ["localhost", "Example.org:8080", "127.0.0.1", "10.0.0.7:1", "[::1]", "[2001:db8::1]:443", "a_b-c.d"]
        {
            assert!(Authority::parse(good).is_some(), "{good}");
        }
        let long = "a".repeat(MAX_NAME + 1);
        for bad in [
            "", ":80", "a:", "a:b", "a:65536", "a:+1", "a:1:2", "a b", "a/b", "u@a", "a,b", "[::1", "::1", "[::1]x",
            "[x]", "[]", "[::1]:", "é", "[é", "a\0", &long,
        ] {
            assert!(Authority::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for local in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.9.9.9:8080", "[::1]", "[::ffff:127.0.0.1]:1"] {
            assert!(Authority::parse(local).unwrap().is_loopback(), "{local}");
        }
        for other in
            ["x", "localhost.example.org", "127.0.0.1.example.org", "0.0.0.0", "10.0.0.1", "[::]", "[2001:db8::1]"]
        {
            assert!(!Authority::parse(other).unwrap().is_loopback(), "{other}");
        }
    }

    #[test]
    fn origins_are_the_same_if_scheme_host_and_port_are() {
        let same = |a, b| WebOrigin::parse(a).unwrap().is(&WebOrigin::parse(b).unwrap());
        assert!(same("https://example.org", "HTTPS://Example.org:443"));
        assert!(same("http://[::1]:80", "http://[::1]"));
        assert!(!same("https://example.org", "http://example.org"));
        assert!(!same("https://example.org", "https://example.org:8443"));
        assert!(!same("https://example.org", "https://www.example.org"));
        for bad in
            ["null", "", "example.org", "ftp://example.org", "https://", "https://a/", "https://u@a", "https://a?b"]
        {
            assert!(WebOrigin::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_page_is_of_the_host_that_it_asks_unless_it_came_without_tls_and_asks_with_it() {
        let of =
            |origin, host, scheme| WebOrigin::parse(origin).unwrap().is_of(&Authority::parse(host).unwrap(), scheme);
        assert!(of("https://example.org", "example.org", Scheme::Https));
        assert!(of("https://example.org", "example.org:443", Scheme::Http), "behind a balancer that ends TLS");
        assert!(of("http://127.0.0.1:8080", "127.0.0.1:8080", Scheme::Http));
        assert!(!of("http://example.org", "example.org", Scheme::Https));
        assert!(!of("https://example.org", "example.org:8443", Scheme::Https));
        assert!(!of("https://evil.org", "example.org", Scheme::Http));
    }
}
