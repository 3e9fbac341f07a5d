//! Proves that a callback comes from the media server: by the signature of its kind, or by a secret
//! in the query.

use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, Key};
use axum::http::HeaderMap;
use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::base::media_server::MediaKind;
use crate::base::secret::Secret;
use crate::features::media::json;

/// How far the time of a signed callback may be from now. An older one may be a replay.
const WINDOW: Duration = Duration::from_secs(300);

/// Why a callback is not believed. It quotes nothing of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forged {
    /// No signature, or no secret.
    #[error("the callback has no signature, or no secret")]
    Missing,
    /// Another secret made the signature, or the body is another one.
    #[error("the signature or the secret of the callback is wrong")]
    Wrong,
    /// A signature of too long ago, or of the future.
    #[error("the callback was signed at another time")]
    Replayed,
}

/// The parts of a callback that prove where it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Callback<'a> {
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The field `secret` of the query.
    pub query_secret: Option<&'a str>,
    /// The body, as it was sent.
    pub body: &'a [u8],
}

/// Checks where a callback comes from, at a Unix time.
///
/// # Errors
/// It was not the server that knows the secret, or it is an old message.
pub fn check(
    kind: MediaKind,
    secret: &Secret,
    callback: Callback<'_>,
    now: Duration,
) -> Result<(), Forged> {
    let key = secret.reveal().as_bytes();
    match kind {
        MediaKind::OvenMediaEngine => oven_media_engine(key, callback, now),
        MediaKind::LiveKit => livekit(key, callback),
        MediaKind::Mux => mux(key, callback, now),
        MediaKind::Cloudflare => is_same(key, header(callback, "cf-webhook-auth")?),
        _ => is_same(key, callback.query_secret.ok_or(Forged::Missing)?),
    }
}

/// Checks what can be checked before the body is read: that there is a signature, or that the secret
/// is right.
///
/// # Errors
/// The callback has no signature, or another secret.
pub fn check_head(
    kind: MediaKind,
    secret: &Secret,
    headers: &HeaderMap,
    query_secret: Option<&str>,
) -> Result<(), Forged> {
    let callback = Callback {
        headers,
        query_secret,
        body: &[],
    };
    let signed = match kind {
        MediaKind::OvenMediaEngine => "x-ome-signature",
        MediaKind::LiveKit => "authorization",
        MediaKind::Mux => "mux-signature",
        _ => return check(kind, secret, callback, Duration::ZERO),
    };
    header(callback, signed).map(drop)
}

fn header<'a>(callback: Callback<'a>, name: &str) -> Result<&'a str, Forged> {
    let value = callback.headers.get(name).ok_or(Forged::Missing)?;
    value.to_str().map_err(|_| Forged::Wrong)
}

/// Compares digests, so that the time tells nothing of the length either.
fn is_same(secret: &[u8], presented: &str) -> Result<(), Forged> {
    let secret = Sha256::digest(secret);
    let presented = Sha256::digest(presented.as_bytes());
    if secret.ct_eq(&presented).into() {
        Ok(())
    } else {
        Err(Forged::Wrong)
    }
}

/// The body that is signed says when it was sent.
fn oven_media_engine(key: &[u8], callback: Callback<'_>, now: Duration) -> Result<(), Forged> {
    let signature = header(callback, "x-ome-signature")?.trim_end_matches('=');
    let Ok(signature) = BASE64URL_NOPAD.decode(signature.as_bytes()) else {
        return Err(Forged::Wrong);
    };
    let key = Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
    hmac::verify(&key, callback.body, &signature).map_err(|_| Forged::Wrong)?;
    let body: Value = serde_json::from_slice(callback.body).map_err(|_| Forged::Wrong)?;
    match json::time(json::text(&body, "/request/time")) {
        Some(at) if now.abs_diff(Duration::from_millis(at)) > WINDOW => Err(Forged::Replayed),
        _ => Ok(()),
    }
}

#[derive(serde::Deserialize)]
struct LiveKitClaims {
    /// Base64 of the SHA-256 of the body.
    sha256: String,
}

fn livekit(key: &[u8], callback: Callback<'_>) -> Result<(), Forged> {
    let header = header(callback, "authorization")?;
    let token = header.strip_prefix("Bearer ").unwrap_or(header);
    let mut validation = Validation::new(Algorithm::HS256);
    validation.validate_nbf = true;
    let claims = match decode::<LiveKitClaims>(token, &DecodingKey::from_secret(key), &validation) {
        Ok(token) => token.claims,
        Err(error) if is_of_another_time(&error) => return Err(Forged::Replayed),
        Err(_) => return Err(Forged::Wrong),
    };
    let digest = BASE64.encode(&Sha256::digest(callback.body));
    is_same(digest.as_bytes(), &claims.sha256)
}

fn is_of_another_time(error: &jsonwebtoken::errors::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ExpiredSignature | ErrorKind::ImmatureSignature
    )
}

/// `t=<seconds>,v1=<hex>`. While secrets change there may be several `v1`.
fn mux(key: &[u8], callback: Callback<'_>, now: Duration) -> Result<(), Forged> {
    let mut at = None;
    let mut signatures = Vec::new();
    for field in header(callback, "mux-signature")?.split(',') {
        match field.trim().split_once('=') {
            Some(("t", seconds)) if at.is_none() => at = Some(seconds),
            Some(("v1", hex)) => signatures.push(hex),
            _ => {}
        }
    }
    let at = at.ok_or(Forged::Wrong)?;
    let signed = [at.as_bytes(), b".", callback.body].concat();
    let key = Key::new(HMAC_SHA256, key);
    if !signatures
        .into_iter()
        .any(|hex| is_signature(&key, &signed, hex))
    {
        return Err(Forged::Wrong);
    }
    let seconds: u64 = at.parse().map_err(|_| Forged::Wrong)?;
    if now.abs_diff(Duration::from_secs(seconds)) > WINDOW {
        Err(Forged::Replayed)
    } else {
        Ok(())
    }
}

fn is_signature(key: &Key, signed: &[u8], hex: &str) -> bool {
    match HEXLOWER.decode(hex.as_bytes()) {
        Ok(signature) => hmac::verify(key, signed, &signature).is_ok(),
        Err(_) => false,
    }
}
