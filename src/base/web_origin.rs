//! The parts of a web address that decide which pages may use a gateway: `host[:port]`, as in the
//! header `Host`, and an origin, as in the header `Origin`. The settings and the HTTP edge read
//! them with this code. Pure.

use std::net::{IpAddr, Ipv6Addr};

/// The longest name that DNS knows.
const MAX_NAME: usize = 253;

/// The protocol of a connection to a page, or to this gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// `None` for a scheme that no gateway speaks.
    fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("http") {
            Some(Self::Http)
        } else if name.eq_ignore_ascii_case("https") {
            Some(Self::Https)
        } else {
            None
        }
    }

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
        if !host.starts_with('[') && !is_host_name(host) {
            return None;
        }
        let port = match rest.strip_prefix(':') {
            None if rest.is_empty() => None,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
                Some(digits.parse().ok()?)
            }
            _ => return None,
        };
        Some(Self { host, port })
    }

    /// Whether the host is this machine and no other: `localhost`, or a loopback address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        if self.host.eq_ignore_ascii_case("localhost") {
            return true;
        }
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        match bare.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => false,
        }
    }

    /// Whether both are the same, for a scheme with this port by default.
    fn is(&self, other: &Authority<'_>, default_port: Option<u16>) -> bool {
        self.host.eq_ignore_ascii_case(other.host)
            && self.port.or(default_port) == other.port.or(default_port)
    }
}

/// Whether a text may be a name in DNS, or an IPv4 address.
fn is_host_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NAME
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_'))
}

/// The origin that browsers send for a page without one, such as a page in a sandboxed frame. All
/// such pages send the same.
pub const NO_ORIGIN: &str = "null";

/// `scheme://host[:port]`: where a page came from. Pages inside apps have schemes of their own,
/// such as `capacitor://localhost`, and one of a file may have no host.
#[derive(Debug, Clone, Copy)]
pub struct WebOrigin<'a> {
    scheme: &'a str,
    authority: Option<Authority<'a>>,
}

impl<'a> WebOrigin<'a> {
    /// `None` if the text is anything else, such as [`NO_ORIGIN`].
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        if !is_scheme(scheme) {
            return None;
        }
        let authority = Authority::parse(rest);
        let may_lack_host = rest.is_empty() && Scheme::named(scheme).is_none();
        if authority.is_none() && !may_lack_host {
            return None;
        }
        Some(Self { scheme, authority })
    }

    /// Whether both are the same origin.
    #[must_use]
    pub fn is(&self, other: &WebOrigin<'_>) -> bool {
        let default_port = Scheme::named(self.scheme).map(Scheme::default_port);
        let is_same_host = match (&self.authority, &other.authority) {
            (Some(own), Some(other)) => own.is(other, default_port),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.scheme.eq_ignore_ascii_case(other.scheme) && is_same_host
    }

    /// Whether a page of this origin comes from `host`, which it asks over a connection of this
    /// scheme. A request that arrives without TLS may have been sent with TLS, to a balancer in
    /// front of the gateway. A page inside an app comes from no host, whatever its name.
    #[must_use]
    pub fn is_of(&self, host: &Authority<'_>, scheme: Scheme) -> bool {
        let Some(own) = Scheme::named(self.scheme) else {
            return false;
        };
        let Some(authority) = &self.authority else {
            return false;
        };
        (own == Scheme::Https || scheme == Scheme::Http)
            && authority.is(host, Some(own.default_port()))
    }
}

/// Whether a text may be the scheme of a URL.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for good in [
            "localhost",
            "Example.org:8080",
            "127.0.0.1",
            "10.0.0.7:1",
            "[::1]",
            "[2001:db8::1]:443",
            "a_b-c.d",
        ] {
            assert!(Authority::parse(good).is_some(), "{good}");
        }
        let long = "a".repeat(MAX_NAME + 1);
        for bad in [
            "", ":80", "a:", "a:b", "a:65536", "a:+1", "a:1:2", "a b", "a/b", "u@a", "a,b", "[::1",
            "::1", "[::1]x", "[x]", "[]", "[::1]:", "é", "[é", "a\0", &long,
        ] {
            assert!(Authority::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for local in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1",
            "127.9.9.9:8080",
            "[::1]",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(Authority::parse(local).unwrap().is_loopback(), "{local}");
        }
        for other in [
            "x",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "0.0.0.0",
            "10.0.0.1",
            "[::]",
            "[2001:db8::1]",
        ] {
            assert!(!Authority::parse(other).unwrap().is_loopback(), "{other}");
        }
    }

    #[test]
    fn origins_are_the_same_if_scheme_host_and_port_are() {
        let same = |a, b| {
            WebOrigin::parse(a)
                .unwrap()
                .is(&WebOrigin::parse(b).unwrap())
        };
        assert!(same("https://example.org", "HTTPS://Example.org:443"));
        assert!(same("http://[::1]:80", "http://[::1]"));
        assert!(!same("https://example.org", "http://example.org"));
        assert!(!same("https://example.org", "https://example.org:8443"));
        assert!(!same("https://example.org", "https://www.example.org"));
        for bad in [
            "null",
            "",
            "example.org",
            "https://",
            "http://:80",
            "https://a/",
            "https://u@a",
            "https://a?b",
            "app://./",
            "capacitor://localhost/index.html",
            "://a",
            "1app://a",
            "a b://c",
            "capacitor:localhost",
            "https://a https://b",
        ] {
            assert!(WebOrigin::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_app_has_an_origin_of_its_own_that_is_compared_exactly() {
        let apps = [
            "capacitor://localhost",
            "ionic://localhost",
            "tauri://localhost",
            "app://.",
            "file://",
            "chrome-extension://gighmmpiobklfepjocnamgkkbiglidom",
            "moz-extension://7a5a650a-9b8c-4f8d-b0b3-0a4b5d6c7e8f",
            "vscode-webview://1k5jvqk3tq0f5l2f1c9m8o7n6b5v4c3x2z1a",
            "capacitor://localhost:8100",
        ];
        for (place, app) in apps.iter().enumerate() {
            for (other_place, other) in apps.iter().enumerate() {
                let same = WebOrigin::parse(app)
                    .unwrap()
                    .is(&WebOrigin::parse(other).unwrap());
                assert_eq!(same, place == other_place, "{app} {other}");
            }
        }
        let host = Authority::parse("localhost").unwrap();
        for app in apps {
            let origin = WebOrigin::parse(app).unwrap();
            assert!(
                !origin.is_of(&host, Scheme::Http) && !origin.is_of(&host, Scheme::Https),
                "{app}"
            );
        }
        let is = |a, b| {
            WebOrigin::parse(a)
                .unwrap()
                .is(&WebOrigin::parse(b).unwrap())
        };
        assert!(
            !is("capacitor://localhost", "http://localhost"),
            "the scheme counts"
        );
        assert!(
            !is("capacitor://localhost:80", "capacitor://localhost"),
            "no port is the usual one of an app"
        );
    }

    #[test]
    fn a_page_is_of_the_host_that_it_asks_unless_it_came_without_tls_and_asks_with_it() {
        let of = |origin, host, scheme| {
            WebOrigin::parse(origin)
                .unwrap()
                .is_of(&Authority::parse(host).unwrap(), scheme)
        };
        assert!(of("https://example.org", "example.org", Scheme::Https));
        assert!(
            of("https://example.org", "example.org:443", Scheme::Http),
            "behind a balancer that ends TLS"
        );
        assert!(of("http://127.0.0.1:8080", "127.0.0.1:8080", Scheme::Http));
        assert!(!of("http://example.org", "example.org", Scheme::Https));
        assert!(!of(
            "https://example.org",
            "example.org:8443",
            Scheme::Https
        ));
        assert!(!of("https://evil.org", "example.org", Scheme::Http));
    }
}
