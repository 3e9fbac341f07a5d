//! What the fuzzer runs of the files with keys: the API keys, and sets of token keys.

use jsonwebtoken::Algorithm;

use super::permissions::Scopes;
use super::{api_keys, jwks};

/// A file of API keys: what is accepted is read alike when it is written again, no name or key is
/// there twice, and each key is good for something.
pub(crate) fn api_keys(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(keys) = api_keys::parse(text) else {
        return;
    };
    let written: String = keys.iter().map(|key| key.line() + "\n").collect();
    assert_eq!(api_keys::parse(&written).as_ref(), Ok(&keys));
    for (at, key) in keys.iter().enumerate() {
        let twice = keys[..at]
            .iter()
            .any(|other| other.name == key.name || other.sha256 == key.sha256);
        assert!(!twice && key.scopes != Scopes::default(), "{key:?}");
    }
}

/// A key set: what a URL shows to everybody is never a secret, and is good in a file too.
pub(crate) fn jwks(bytes: &[u8]) {
    let of_file = jwks::parse(bytes, jwks::Origin::File);
    let of_url = jwks::parse(bytes, jwks::Origin::Url);
    let count = |keys: &Result<Vec<_>, _>| keys.as_ref().map_or(0, Vec::len);
    assert!(count(&of_url) <= count(&of_file) && count(&of_file) <= jwks::MOST_KEYS);
    for key in of_url.iter().flatten() {
        assert_ne!(key.algorithm, Algorithm::HS256, "a secret from a URL");
    }
}
