//! Proves that a callback comes from the media server: by the signature of its kind, or by a secret in the query.

use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, Key};
use axum::http::HeaderMap;
use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::base::media_kind::MediaKind;
use crate::base::secret::Secret;

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
pub fn check(kind: MediaKind, secret: &Secret, callback: Callback<'_>, now: Duration) -> Result<(), Forged> {
    let key = secret.reveal().as_bytes();
    match kind {
        MediaKind::OvenMediaEngine => oven_media_engine(key, callback),
        MediaKind::LiveKit => livekit(key, callback),
        MediaKind::Mux => mux(key, callback, now),
        MediaKind::Cloudflare => same(key, header(callback, "cf-webhook-auth")?),
        _ => same(key, callback.query_secret.ok_or(Forged::Missing)?),
    }
}

fn header<'a>(callback: Callback<'a>, name: &str) -> Result<&'a str, Forged> {
    callback.headers.get(name).and_then(|value| value.to_str().ok()).ok_or(Forged::Missing)
}

fn same(secret: &[u8], told: &str) -> Result<(), Forged> {
    // Of digests, so that the time tells nothing of the length either.
    let is_same = Sha256::digest(secret).ct_eq(&Sha256::digest(told.as_bytes()));
    if is_same.into() { Ok(()) } else { Err(Forged::Wrong) }
}

fn oven_media_engine(key: &[u8], callback: Callback<'_>) -> Result<(), Forged> {
    let told = header(callback, "x-ome-signature")?;
    let told = BASE64URL_NOPAD.decode(told.trim_end_matches('=').as_bytes()).map_err(|_| Forged::Wrong)?;
    let key = Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
    hmac::verify(&key, callback.body, &told).map_err(|_| Forged::Wrong)
}

#[derive(serde::Deserialize)]
struct LiveKitClaims {
    /// Base64 of the SHA-256 of the body.
    sha256: String,
}

fn livekit(key: &[u8], callback: Callback<'_>) -> Result<(), Forged> {
    let told = header(callback, "authorization")?;
    let told = told.strip_prefix("Bearer ").unwrap_or(told);
    let mut validation = Validation::new(Algorithm::HS256);
    validation.validate_nbf = true;
    let token = decode::<LiveKitClaims>(told, &DecodingKey::from_secret(key), &validation);
    let claims = match token {
        Ok(token) => token.claims,
        Err(error) if is_of_another_time(&error) => return Err(Forged::Replayed),
        Err(_) => return Err(Forged::Wrong),
    };
    let body = BASE64.encode(&Sha256::digest(callback.body));
    same(body.as_bytes(), &claims.sha256)
}

fn is_of_another_time(error: &jsonwebtoken::errors::Error) -> bool {
    use jsonwebtoken::errors::ErrorKind;
    matches!(error.kind(), ErrorKind::ExpiredSignature | ErrorKind::ImmatureSignature)
}

/// `t=<seconds>,v1=<hex>`. While secrets change there may be several `v1`.
fn mux(key: &[u8], callback: Callback<'_>, now: Duration) -> Result<(), Forged> {
    let told = header(callback, "mux-signature")?;
    let fields = || told.split(',').filter_map(|field| field.trim().split_once('='));
    let at = fields().find(|(name, _)| *name == "t").map(|(_, at)| at).ok_or(Forged::Wrong)?;
    let signed = [at.as_bytes(), b".", callback.body].concat();
    let key = Key::new(HMAC_SHA256, key);
    let is_right = |hex: &str| {
        let signature = HEXLOWER.decode(hex.as_bytes());
        signature.is_ok_and(|signature| hmac::verify(&key, &signed, &signature).is_ok())
    };
    if !fields().any(|(name, hex)| name == "v1" && is_right(hex)) {
        return Err(Forged::Wrong);
    }
    let at: u64 = at.parse().map_err(|_| Forged::Wrong)?;
    if now.abs_diff(Duration::from_secs(at)) > WINDOW { Err(Forged::Replayed) } else { Ok(()) }
}
