//! Tokens whose algorithm is `Ed25519`: RFC 9864 gives EdDSA with that curve this name, and the
//! library of tokens knows only the older name.

use std::sync::LazyLock;

use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::crypto::{sign, verify};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, TokenData, Validation, decode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The name of RFC 9864.
pub(super) const NEW_NAME: &str = "Ed25519";

/// The name of RFC 8037, by which the library knows it.
pub(super) const OLD_NAME: &str = "EdDSA";

/// The header of a token with the new name, as if it had the old one; `None` for other tokens.
pub(super) fn header_of(token: &str) -> Option<Header> {
    let (header, _) = token.split_once('.')?;
    let header = BASE64URL_NOPAD.decode(header.as_bytes()).ok()?;
    let mut header: Value = serde_json::from_slice(&header).ok()?;
    if header["alg"] != NEW_NAME {
        return None;
    }
    header["alg"] = json!(OLD_NAME);
    serde_json::from_value(header).ok()
}

/// Checks a token with the new name as [`decode`] does one with the old. The library then checks the
/// claims in a copy that is signed for this process alone.
pub(super) fn decode_renamed<T: DeserializeOwned>(
    token: &str,
    key: &DecodingKey,
    mut required: Validation,
) -> Result<TokenData<T>, Error> {
    static OWN: LazyLock<[u8; 32]> = LazyLock::new(rand::random);
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else {
        return Err(ErrorKind::InvalidToken.into());
    };
    let message = format!("{header}.{payload}");
    if !verify(signature, message.as_bytes(), key, Algorithm::EdDSA)? {
        return Err(ErrorKind::InvalidSignature.into());
    }
    let header = BASE64URL_NOPAD.encode(br#"{"alg":"HS256"}"#);
    let message = format!("{header}.{payload}");
    let own = EncodingKey::from_secret(&*OWN);
    let signature = sign(message.as_bytes(), &own, Algorithm::HS256)?;
    required.algorithms = vec![Algorithm::HS256];
    let own = DecodingKey::from_secret(&*OWN);
    decode(format!("{message}.{signature}"), &own, &required)
}
