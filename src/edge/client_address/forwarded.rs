//! Reads `Forwarded` (RFC 7239) and `X-Forwarded-For`: pure functions on text that anybody may have
//! written.
//!
//! Each proxy appends the address of its peer, so the list can be trusted from its right end, as
//! far as trusted proxies wrote it. The client may have made up everything further left.

use std::net::{IpAddr, SocketAddr};

/// The right-most address that is not a trusted proxy's, among the values of all header lines in
/// their order. `None` if an element that is no address stands further right, or if there is no
/// such address.
pub fn last_untrusted<'a>(
    lines: impl DoubleEndedIterator<Item = &'a str>,
    elements: fn(&str) -> Option<Vec<&str>>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    for line in lines.rev() {
        for element in elements(line)?.into_iter().rev() {
            let address = address(element)?;
            if !is_trusted(address) {
                return Some(address);
            }
        }
    }
    None
}

/// The elements of a line of `X-Forwarded-For`.
pub fn plain_elements(line: &str) -> Option<Vec<&str>> {
    Some(
        line.split(',')
            .map(|element| element.trim_matches([' ', '\t']))
            .collect(),
    )
}

/// The `for` of each element of a line of `Forwarded`, without its quotes; an element without a
/// `for` gives an empty text. `None` if the line is malformed: a quote that a client leaves open
/// could swallow what a proxy appended.
pub fn forwarded_elements(line: &str) -> Option<Vec<&str>> {
    let mut elements = Vec::new();
    for element in split_unquoted(line, b',')? {
        let mut named = None;
        for pair in split_unquoted(element, b';')? {
            let Some((name, value)) = pair.split_once('=') else {
                if pair.trim().is_empty() {
                    continue;
                }
                return None;
            };
            if name.trim().eq_ignore_ascii_case("for") {
                // Twice in one element is malformed.
                if named.replace(unquote(value.trim())?).is_some() {
                    return None;
                }
            }
        }
        elements.push(named.unwrap_or(""));
    }
    Some(elements)
}

/// Splits at a separator outside of quoted strings; `None` if a quoted string is not closed.
fn split_unquoted(text: &str, separator: u8) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if byte == separator && !quoted => {
                parts.push(text.get(start..at)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..)?);
    if quoted { None } else { Some(parts) }
}

/// The inside of a quoted string, or a token as it is. No address needs an escape, so a string with
/// one is refused.
fn unquote(value: &str) -> Option<&str> {
    let Some(rest) = value.strip_prefix('"') else {
        return if value.contains('"') {
            None
        } else {
            Some(value)
        };
    };
    let inner = rest.strip_suffix('"')?;
    if inner.contains(['"', '\\']) {
        None
    } else {
        Some(inner)
    }
}

/// An address, with or without brackets and a port. Proxies write all of these forms.
fn address(text: &str) -> Option<IpAddr> {
    let address = if let Ok(plain) = text.parse::<IpAddr>() {
        plain
    } else if let Some(in_brackets) = in_brackets(text) {
        in_brackets
    } else {
        text.parse::<SocketAddr>().ok()?.ip()
    };
    Some(address.to_canonical())
}

fn in_brackets(text: &str) -> Option<IpAddr> {
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_proxy(ip: IpAddr) -> bool {
        ip.to_string().starts_with("10.") || ip.to_string() == "2001:db8::1"
    }

    fn plain(lines: &[&str]) -> Option<String> {
        last_untrusted(lines.iter().copied(), plain_elements, is_proxy).map(|ip| ip.to_string())
    }

    fn forwarded(lines: &[&str]) -> Option<String> {
        last_untrusted(lines.iter().copied(), forwarded_elements, is_proxy).map(|ip| ip.to_string())
    }

    #[test]
    fn the_last_address_that_no_trusted_proxy_has_is_the_client() {
        assert_eq!(plain(&["192.0.2.7"]).unwrap(), "192.0.2.7");
        assert_eq!(
            plain(&["1.1.1.1, 192.0.2.7, 10.0.0.1,10.9.9.9"]).unwrap(),
            "192.0.2.7",
            "1.1.1.1 is made up"
        );
        assert_eq!(
            plain(&["1.1.1.1", "192.0.2.7", "10.0.0.1"]).unwrap(),
            "192.0.2.7"
        );
        assert_eq!(plain(&["2001:db8::7, 2001:db8::1"]).unwrap(), "2001:db8::7");
        assert_eq!(plain(&["::ffff:192.0.2.7"]).unwrap(), "192.0.2.7");
        for with_port in ["192.0.2.7:4711", "[2001:db8::7]:4711", "[2001:db8::7]"] {
            assert!(plain(&[with_port]).is_some(), "{with_port}");
        }
    }

    #[test]
    fn garbage_names_nobody() {
        for bad in [
            "",
            ",",
            "unknown",
            "192.0.2.7,",
            "192.0.2.7, x",
            "192.0.2.7 1.1.1.1",
            "192.0.2.300",
            "[192.0.2.7]x",
            "10.0.0.1",
            "1.1.1.1, evil, 10.0.0.1",
            "\"192.0.2.7\"",
            "é",
            "192.0.2.7:99999",
        ] {
            assert_eq!(plain(&[bad]), None, "{bad:?}");
        }
        assert_eq!(plain(&[]), None);
        assert_eq!(
            plain(&["garbage, 192.0.2.7"]).unwrap(),
            "192.0.2.7",
            "what is further left is never read"
        );
    }

    #[test]
    fn the_standard_header_says_the_same() {
        assert_eq!(forwarded(&["for=192.0.2.7"]).unwrap(), "192.0.2.7");
        let line =
            "For=\"[2001:db8::7]:4711\";proto=https;by=10.0.0.3, for=10.0.0.1;host=\"a,b;c\"";
        assert_eq!(forwarded(&[line]).unwrap(), "2001:db8::7");
        assert_eq!(
            forwarded(&["for=1.1.1.1", "for=192.0.2.7;", "for=10.0.0.1"]).unwrap(),
            "192.0.2.7"
        );
        for bad in [
            "",
            "for=unknown",
            "for=_hidden",
            "by=10.0.0.1",
            "192.0.2.7",
            "for=192.0.2.7;for=1.1.1.1",
            "for=\"\\1\"",
        ] {
            assert_eq!(forwarded(&[bad]), None, "{bad:?}");
        }
    }

    #[test]
    fn a_quote_that_a_client_leaves_open_hides_nothing() {
        for spoof in [
            "for=1.1.1.1;x=\"",
            "for=1.1.1.1, for=\"",
            "for=1.1.1.1;x=\"\\",
        ] {
            for appended in [
                "for=192.0.2.7",
                "for=\"[2001:db8::7]\"",
                "for=\"[2001:db8::7]:1\";by=\"[2001:db8::1]\"",
            ] {
                let line = format!("{spoof}, {appended}");
                assert_ne!(forwarded(&[&line]).as_deref(), Some("1.1.1.1"), "{line}");
            }
        }
    }
}
