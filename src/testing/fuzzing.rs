//! The entry points of the fuzzer. Each takes any bytes, and panics if they break a promise. The
//! fuzzer of `fuzz/` calls them with bytes that it makes up. A unit test runs them on the corpora in
//! `fuzz/corpus`.

mod datagrams;
mod media;

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::FutureExt;
use reqwest::Url;

use crate::auth::fuzzing as auth;
use crate::auth::tokens::Tokens;
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::base::web_origin::{Authority, WebOrigin};
use crate::config::{self, Config};
use crate::edge::client_address::forwarded::{forwarded_elements, last_untrusted, plain_elements};
use crate::edge::listener::proxy_header::{self, Start};
use crate::peers::message;
use crate::session::fuzzing as session;
use crate::store::redis::fuzzing as redis;

/// Takes any bytes.
pub type FuzzTarget = fn(&[u8]);

/// Every target, by the name of its binary and of its corpus.
pub const TARGETS: &[(&str, FuzzTarget)] = &[
    ("api_keys", api_keys),
    ("client_message", client_message),
    ("config_file", config_file),
    ("datagram", datagram),
    ("forwarded", forwarded),
    ("frames", frames),
    ("ids", ids),
    ("jwks", jwks),
    ("media_callback", media_callback),
    ("peer_message", peer_message),
    ("proxy_header", proxy_header),
    ("redis_reply", redis_reply),
    ("token", token),
    ("web_origin", web_origin),
];

/// A file of API keys: an accepted file reads alike when it is written again.
pub fn api_keys(bytes: &[u8]) {
    auth::api_keys(bytes);
}

/// A JSON Web Key Set, from a file and from a URL.
pub fn jwks(bytes: &[u8]) {
    auth::jwks(bytes);
}

/// A callback of a media server, whose kind the first byte chooses: it is read, ignored or refused.
/// Nothing is believed that the server did not sign.
pub fn media_callback(bytes: &[u8]) {
    media::callback(bytes);
}

/// A text message of a client: it is a request, or it is refused. An answer that echoes its id is
/// still JSON.
pub fn client_message(bytes: &[u8]) {
    session::client_message(bytes);
}

/// The bytes of a client, in any cut: the socket reads from them what the reference codec reads.
pub fn frames(bytes: &[u8]) {
    session::frames(bytes);
}

/// Answers of Redis: a value, or an error.
pub fn redis_reply(bytes: &[u8]) {
    redis::reply(bytes);
}

/// Ids: an accepted id is safe in a key.
pub fn ids(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if LiveId::parse(text).is_ok() {
        let stem = text.trim_end_matches(|c: char| c.is_ascii_digit());
        assert!(
            is_safe(text, b"") && (stem.len() == text.len() || !stem.ends_with("_slice")),
            "{text:?} is a live"
        );
    }
    assert!(
        GatewayId::parse(text).is_err() || is_safe(text, b""),
        "{text:?} is a gateway"
    );
    if let Ok(user) = UserId::parse(text) {
        assert!(is_safe(text, b":@"), "{text:?} is a user");
        assert!(
            (1..=7).contains(&user.slice_index(7)),
            "{text:?} is in no slice"
        );
    }
}

/// Whether an id has a right length, and only letters, digits, `_.-` and the characters of `more`.
fn is_safe(id: &str, more: &[u8]) -> bool {
    (1..=64).contains(&id.len())
        && id.bytes().all(|byte| {
            byte.is_ascii_alphanumeric() || b"_.-".contains(&byte) || more.contains(&byte)
        })
}

/// A settings file: its mistakes are listed.
pub fn config_file(bytes: &[u8]) {
    config::mistakes_in(bytes);
}

/// A datagram whose sender has the session's key. One that is accepted says the same when it is
/// written again.
pub fn datagram(bytes: &[u8]) {
    datagrams::datagram(bytes);
}

/// A message of a peer: a message that is read is written back alike.
pub fn peer_message(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(received) = message::read(text) {
        assert_eq!(
            message::read(&received.message.text(&received.gateway)),
            Ok(received)
        );
    }
}

/// A token that no key signed: it is refused.
pub fn token(bytes: &[u8]) {
    thread_local! {
        static TOKENS: Tokens = with_a_secret();
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    TOKENS.with(|tokens| {
        let verified = tokens.verify(text).now_or_never();
        assert!(
            !matches!(verified, Some(Ok(_))),
            "an unsigned token is accepted: {text:?}"
        );
    });
}

/// The first bytes of a connection: the header is the same however they are cut, and no longer than
/// they are.
pub fn proxy_header(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(proxy_header::MAX_LENGTH + 64)];
    let mut said = Start::Incomplete;
    for seen in 0..=bytes.len() {
        let start = proxy_header::parse(&bytes[..seen]);
        match said {
            Start::Incomplete => said = start,
            _ => assert_eq!(start, said, "{seen} bytes"),
        }
        match said {
            Start::Header { length, client } => {
                assert!(
                    (1..=seen.min(proxy_header::MAX_LENGTH)).contains(&length),
                    "{length} of {seen} bytes"
                );
                assert_eq!(client, client.map(|ip| ip.to_canonical()));
            }
            Start::Incomplete => assert!(seen < proxy_header::MAX_LENGTH),
            Start::Wrong => {}
        }
    }
}

/// The lines of `Forwarded` or `X-Forwarded-For` that a client made up, and the element that a proxy
/// appends. The result is the address that the proxy named, or none.
pub fn forwarded(bytes: &[u8]) {
    const FORMS: [(Elements, &str, &str); 5] = [
        (plain_elements, "192.0.2.7", "192.0.2.7"),
        (plain_elements, "2001:db8::7", "2001:db8::7"),
        (forwarded_elements, "for=192.0.2.7", "192.0.2.7"),
        (
            forwarded_elements,
            "for=\"[2001:db8::7]:4711\"",
            "2001:db8::7",
        ),
        (
            forwarded_elements,
            "proto=https;for=\"[2001:db8::7]\";by=\"10.0.0.3\"",
            "2001:db8::7",
        ),
    ];
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let lines: Vec<&str> = text.split('\n').collect();
    for (elements, appended, address) in FORMS {
        assert!(
            !named_by(&lines, elements).is_some_and(is_trusted),
            "{lines:?} name a trusted proxy"
        );
        let address = address.parse().ok();
        let on_its_own_line = [lines.as_slice(), &[appended]].concat();
        assert_eq!(
            named_by(&on_its_own_line, elements),
            address,
            "{on_its_own_line:?}"
        );
        for separator in [",", ", "] {
            let joined = format!("{text}{separator}{appended}");
            let joined_lines: Vec<&str> = joined.split('\n').collect();
            let found = named_by(&joined_lines, elements);
            assert!(
                found.is_none() || found == address,
                "{joined:?} names {found:?}"
            );
        }
    }
}

/// Splits a line into its elements. `None` if it is malformed.
type Elements = fn(&str) -> Option<Vec<&str>>;

/// Whether the address is that of a trusted proxy, in `10.0.0.0/8`.
fn is_trusted(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.octets()[0] == 10)
}

/// The client that the lines name.
fn named_by(lines: &[&str], elements: Elements) -> Option<IpAddr> {
    last_untrusted(lines.iter().copied(), elements, is_trusted)
}

/// Two values of `Origin`, a line each. Two origins that are the same here are the same to a
/// browser. A loopback address here is a loopback address to a browser.
pub fn web_origin(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let (one, other) = text.split_once('\n').unwrap_or((text, text));
    if let Some(one_read) = WebOrigin::parse(one)
        && let Some(other_read) = WebOrigin::parse(other)
    {
        assert!(one_read.is(&one_read) && one_read.is(&other_read) == other_read.is(&one_read));
        // `Url` reads an origin as a browser does.
        if one_read.is(&other_read)
            && let Ok(one) = Url::parse(one)
            && let Ok(other) = Url::parse(other)
        {
            assert_eq!(one.origin(), other.origin());
        }
    }
    let Some(authority) = Authority::parse(one) else {
        return;
    };
    let origin = format!("https://{one}");
    assert!(
        WebOrigin::parse(&origin).is_some_and(|origin| origin.is(&origin)),
        "{origin} is no origin"
    );
    if authority.is_loopback()
        && let Ok(url) = Url::parse(&origin)
    {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        let address = host.parse::<IpAddr>();
        assert!(
            host == "localhost" || address.is_ok_and(|ip| ip.to_canonical().is_loopback()),
            "{url} is elsewhere"
        );
    }
}

/// Checks tokens with a secret that nobody knows.
fn with_a_secret() -> Tokens {
    let path = std::env::temp_dir().join(format!(
        "rollcall-fuzz-{}-{:x}",
        std::process::id(),
        rand::random::<u64>()
    ));
    std::fs::write(&path, format!("{:064x}", rand::random::<u128>()))
        .expect("a file for the secret");
    let config = Config {
        jwt_hs256_secret_file: Some(path.clone()),
        ..Config::default()
    };
    let opened = Tokens::open(&config, Arc::default());
    let _ = std::fs::remove_file(path);
    match opened {
        Ok((tokens, _)) => tokens,
        Err(why) => panic!("{why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_corpora_break_no_promise() {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        let page = include_str!("../../docs/security.md");
        for (name, target) in TARGETS {
            assert!(
                page.contains(&format!("| `{name}` |")),
                "{name} is undocumented"
            );
            let seeds: Vec<_> = std::fs::read_dir(corpora.join(name)).unwrap().collect();
            assert!(!seeds.is_empty(), "{name} has no corpus");
            for seed in seeds {
                target(&std::fs::read(seed.unwrap().path()).unwrap());
            }
        }
    }
}
