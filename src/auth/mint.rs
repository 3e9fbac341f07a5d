//! Makes tokens and API keys, for development and tests. In production the platform makes tokens; a
//! gateway only checks them.

use std::path::Path;
use std::time::Duration;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::keys::{self, KeyError};
use crate::base::clock::unix_now;
use crate::base::identity::Role;
use crate::base::ids::{LiveId, UserId};
use crate::base::secret::Secret;

const PRIVATE_KEY: &str = "jwt-private-key";

/// The content of a token to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The bearer.
    pub user: UserId,
    /// The role of the bearer.
    pub role: Role,
    /// How long the token lasts.
    pub ttl: Duration,
    /// Limits the token to these lives.
    pub lives: Option<Vec<LiveId>>,
    /// The streamers whom the bearer follows.
    pub fan_of: Option<Vec<UserId>>,
    /// False if the bearer is in no figure.
    pub counted: bool,
    /// The audience of the token.
    pub audience: Option<String>,
    /// The issuer of the token.
    pub issuer: Option<String>,
}

impl Grant {
    /// A grant without limits, for an hour.
    pub fn new(user: UserId, role: Role) -> Self {
        let ttl = Duration::from_secs(3600);
        Self {
            user,
            role,
            ttl,
            lives: None,
            fan_of: None,
            counted: true,
            audience: None,
            issuer: None,
        }
    }
}

/// The claims as they stand in the token.
#[derive(Serialize)]
struct MintedClaims<'a> {
    sub: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    guest: Option<bool>,
    role: &'static str,
    iat: u64,
    exp: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lives: Option<&'a [LiveId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fan_of: Option<&'a [UserId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    iss: Option<&'a str>,
}

/// Signs tokens.
pub struct TokenSigner {
    algorithm: Algorithm,
    key: EncodingKey,
}

impl std::fmt::Debug for TokenSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({:?})", self.algorithm)
    }
}

impl TokenSigner {
    /// Signs with the HS256 secret in a file.
    ///
    /// # Errors
    /// The file cannot be read, or the secret is too short.
    pub fn of_secret_file(path: &Path) -> Result<Self, KeyError> {
        Ok(Self {
            algorithm: Algorithm::HS256,
            key: EncodingKey::from_secret(&keys::secret(path)?),
        })
    }

    /// Signs with the private key in a PEM file: RSA, P-256 or Ed25519.
    ///
    /// # Errors
    /// The file cannot be read, or holds no such key.
    pub fn of_private_key(path: &Path) -> Result<Self, KeyError> {
        let pem = keys::read(PRIVATE_KEY, path)?;
        match Self::from_pem(&pem) {
            Some(signer) if signer.can_sign() => Ok(signer),
            _ => Err(KeyError {
                setting: PRIVATE_KEY,
                problem: "the file is not a private key in PEM (PKCS #8): \
                          RSA of 2048 bits or more, P-256 or Ed25519"
                    .to_owned(),
            }),
        }
    }

    /// Reads a key of the first kind that fits.
    fn from_pem(pem: &[u8]) -> Option<Self> {
        if let Ok(key) = EncodingKey::from_rsa_pem(pem) {
            return Some(Self {
                algorithm: Algorithm::RS256,
                key,
            });
        }
        if let Ok(key) = EncodingKey::from_ec_pem(pem) {
            return Some(Self {
                algorithm: Algorithm::ES256,
                key,
            });
        }
        let key = EncodingKey::from_ed_pem(pem).ok()?;
        Some(Self {
            algorithm: Algorithm::EdDSA,
            key,
        })
    }

    /// False for a public key, or a key of another curve: the library finds that out only when it
    /// signs.
    fn can_sign(&self) -> bool {
        encode(&Header::new(self.algorithm), &(), &self.key).is_ok()
    }

    /// A token that begins now.
    ///
    /// # Errors
    /// The key cannot sign, which the constructors have ruled out.
    pub fn sign(&self, grant: &Grant) -> Result<Secret, jsonwebtoken::errors::Error> {
        let iat = unix_now() / 1_000;
        let claims = MintedClaims {
            sub: grant.user.guest_name().unwrap_or(grant.user.as_str()),
            guest: grant.user.is_guest().then_some(true),
            role: grant.role.as_str(),
            iat,
            exp: iat.saturating_add(grant.ttl.as_secs()),
            lives: grant.lives.as_deref(),
            fan_of: grant.fan_of.as_deref(),
            count: if grant.counted { None } else { Some(false) },
            aud: grant.audience.as_deref(),
            iss: grant.issuer.as_deref(),
        };
        encode(&Header::new(self.algorithm), &claims, &self.key).map(Secret::new)
    }
}

/// A new API key of 256 random bits, and its SHA-256 in hex for the file of API keys.
pub fn api_key() -> (Secret, String) {
    let key = BASE64URL_NOPAD.encode(&rand::random::<[u8; 32]>());
    let digest = HEXLOWER.encode(&Sha256::digest(&key));
    (Secret::new(key), digest)
}

#[cfg(test)]
mod tests;
