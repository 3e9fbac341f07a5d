//! The entry points of the fuzzer: each takes any bytes, and panics if they break a promise. The fuzzer of `fuzz/`
//! calls them with bytes that it makes up; a unit test runs them on the corpora in `fuzz/corpus`.

use std::sync::Arc;

use futures_util::FutureExt;

use crate::auth::tokens::Tokens;
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::config::{self, Config};
use crate::peers::message;
use crate::session::fuzzing as session;
use crate::store::redis::fuzzing as redis;

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// Every target, by the name of its binary and of its corpus.
pub const TARGETS: &[(&str, Target)] = &[
    ("client_message", client_message),
    ("config_file", config_file),
    ("frames", frames),
    ("ids", ids),
    ("peer_message", peer_message),
    ("redis_reply", redis_reply),
    ("token", token),
];

/// A text message of a client: it is a request, or it is refused; an id that is echoed leaves the answer JSON.
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

/// Ids: an accepted one is safe in a key.
pub fn ids(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let is_safe = |more: &[u8]| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte) || more.contains(&byte);
        (1..=64).contains(&text.len()) && text.bytes().all(known)
    };
    if LiveId::parse(text).is_ok() {
        let stem = text.trim_end_matches(|c: char| c.is_ascii_digit());
        assert!(is_safe(b"") && (stem.len() == text.len() || !stem.ends_with("_slice")), "{text:?} is a live");
    }
    assert!(GatewayId::parse(text).is_err() || is_safe(b""), "{text:?} is a gateway");
    if let Ok(user) = UserId::parse(text) {
        assert!(is_safe(b":@"), "{text:?} is a user");
        assert!((1..=7).contains(&user.slice_index(7)), "{text:?} is in no slice");
    }
}

/// A settings file: its mistakes are listed.
pub fn config_file(bytes: &[u8]) {
    config::mistakes_in(bytes);
}

/// A message of a peer: what is read is written back alike.
pub fn peer_message(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(received) = message::read(text) {
        assert_eq!(message::read(&received.message.text(&received.gateway)), Ok(received));
    }
}

/// A token that no key signed: it is refused.
pub fn token(bytes: &[u8]) {
    thread_local! {
        static TOKENS: Tokens = with_a_secret();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    TOKENS.with(|tokens| {
        let verified = tokens.verify(text).now_or_never();
        assert!(verified.is_none_or(|verified| verified.is_err()), "an unsigned token is accepted: {text:?}");
    });
}

/// Checks tokens with a secret that nobody knows.
fn with_a_secret() -> Tokens {
    let path = std::env::temp_dir().join(format!("rollcall-fuzz-{}-{:x}", std::process::id(), rand::random::<u64>()));
    std::fs::write(&path, format!("{:064x}", rand::random::<u128>())).expect("a file for the secret");
    let config = Config { jwt_hs256_secret_file: Some(path.clone()), ..Config::default() };
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
        for (name, target) in TARGETS {
            let seeds: Vec<_> = std::fs::read_dir(corpora.join(name)).unwrap().collect();
            assert!(!seeds.is_empty(), "{name} has no corpus");
            for seed in seeds {
                target(&std::fs::read(seed.unwrap().path()).unwrap());
            }
        }
    }
}
