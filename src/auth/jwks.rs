//! Reads a JSON Web Key Set (RFC 7517). A set may hold keys that are not for tokens, or keys of
//! unknown kinds; the reader leaves them out.

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use super::ed25519;
use super::key::{VerifyingKey, is_sound};

/// Maximum usable keys per set. A token that names no key is checked with each of them.
pub(super) const MOST_KEYS: usize = 32;

/// Where a set comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeysFrom {
    File,
    /// Everybody can read a URL, so the reader leaves symmetric keys out: they would be no secret.
    Url,
}

/// Why a set cannot be used. The text quotes nothing of the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SetError {
    #[error("is not a JSON Web Key Set")]
    Malformed,
    #[error("holds no key that can check RS256, ES256, EdDSA or, in a file, HS256")]
    NoKey,
    #[error("holds more than {MOST_KEYS} keys that can check tokens")]
    TooMany,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// The keys of a set that can check tokens.
pub(super) fn parse(text: &[u8], origin: KeysFrom) -> Result<Vec<VerifyingKey>, SetError> {
    let set: Set = serde_json::from_slice(text).map_err(|_| SetError::Malformed)?;
    let mut keys = Vec::new();
    for mut value in set.keys {
        if value["alg"] == ed25519::NEW_NAME {
            value["alg"] = ed25519::OLD_NAME.into();
        }
        if let Ok(jwk) = serde_json::from_value::<Jwk>(value) {
            keys.extend(key(&jwk, origin));
        }
    }
    match keys.len() {
        0 => Err(SetError::NoKey),
        1..=MOST_KEYS => Ok(keys),
        _ => Err(SetError::TooMany),
    }
}

/// The key, if it can check tokens.
fn key(jwk: &Jwk, origin: KeysFrom) -> Option<VerifyingKey> {
    let common = &jwk.common;
    let signs = common
        .public_key_use
        .as_ref()
        .is_none_or(|usage| *usage == PublicKeyUse::Signature);
    let verifies = common
        .key_operations
        .as_ref()
        .is_none_or(|may| may.contains(&KeyOperations::Verify));
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => {
            Algorithm::ES256
        }
        AlgorithmParameters::OctetKeyPair(point) if point.curve == EllipticCurve::Ed25519 => {
            Algorithm::EdDSA
        }
        AlgorithmParameters::OctetKey(_) if origin == KeysFrom::File => Algorithm::HS256,
        _ => return None,
    };
    let fits = common
        .key_algorithm
        .is_none_or(|named| named == KeyAlgorithm::from(algorithm));
    let key = DecodingKey::from_jwk(jwk).ok()?;
    if !(signs && verifies && fits && is_sound(algorithm, &key)) {
        return None;
    }
    Some(VerifyingKey {
        id: common.key_id.clone(),
        algorithm,
        key,
    })
}

#[cfg(test)]
mod tests;
