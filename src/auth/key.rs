//! A key that tokens are checked with. It pins its algorithm, so a token cannot choose one: a token
//! that is signed with HS256 and the text of a public key fails, and so does a token without a
//! signature.

use std::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};

/// The shortest HS256 secret, in bytes: RFC 7518, 3.2.
pub(super) const SHORTEST_SECRET: usize = 32;

/// A key with the one algorithm that it is good for.
pub(super) struct VerifyingKey {
    /// `None` if the key may check every token, whether or not the token names a key.
    pub(super) id: Option<String>,
    pub(super) algorithm: Algorithm,
    pub(super) key: DecodingKey,
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?})", self.algorithm)
    }
}

/// Whether the key can check signatures. Without this test, the operator would notice a key of
/// another curve, a private key or a short key only when the gateway refuses every token.
pub(super) fn is_sound(algorithm: Algorithm, key: &DecodingKey) -> bool {
    match (algorithm, key.kind()) {
        (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => secret.len() >= SHORTEST_SECRET,
        // The DER has some 14 bytes around the modulus.
        (Algorithm::RS256, DecodingKeyKind::SecretOrDer(der)) => {
            has_right_size(der.len().saturating_sub(14))
                && ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der).is_ok()
        }
        (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => {
            has_right_size(n.len())
                && RsaPublicKeyComponents { n, e }
                    .to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
                    .is_ok()
        }
        (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => {
            ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).is_ok()
        }
        (Algorithm::EdDSA, DecodingKeyKind::SecretOrDer(point)) => {
            ParsedPublicKey::new(&ED25519, point).is_ok()
        }
        _ => false,
    }
}

/// Whether an RSA modulus of `modulus` bytes has 2048 to 8192 bits.
fn has_right_size(modulus: usize) -> bool {
    (2048 / 8..=8192 / 8).contains(&modulus)
}
