//! The fuzz targets for files with keys: the API keys, and sets of token keys.

use jsonwebtoken::Algorithm;

use super::permissions::Scopes;
use super::{api_keys, jwks};

/// A file of API keys that parses reads the same after it is written again. It has no name and no
/// key twice, and each key has a scope.
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

/// A key set from a URL never gives a secret, since everybody can read it. Each of its keys is
/// accepted from a file too.
pub(crate) fn jwks(bytes: &[u8]) {
    let of_file = jwks::parse(bytes, jwks::KeysFrom::File);
    let of_url = jwks::parse(bytes, jwks::KeysFrom::Url);
    let in_file = of_file.iter().flatten().count();
    let in_url = of_url.iter().flatten().count();
    let with_secrets_it_has_too_many = matches!(of_file, Err(jwks::SetError::TooMany));
    assert!(in_url <= in_file || with_secrets_it_has_too_many);
    assert!(in_url.max(in_file) <= jwks::MOST_KEYS);
    for key in of_url.iter().flatten() {
        assert_ne!(key.algorithm, Algorithm::HS256, "a secret from a URL");
    }
}
