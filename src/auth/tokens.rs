//! Checks tokens: the signature, the times, the audience and the issuer; and reads their claims.

use std::sync::Arc;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use serde::Deserialize;

use super::claims::Claims;
use super::keys::{self, Key, KeyError};
use crate::base::identity::Role;
use crate::base::ids::{LiveId, UserId};
use crate::config::Config;

/// How far clocks may differ, in seconds.
pub(crate) const LEEWAY: u64 = 30;

/// The longest token that is looked at, in bytes: a request's head has 8 KiB.
const LONGEST: usize = 8 << 10;

/// Why a token is refused. It quotes nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("the token is not a JSON Web Token")]
    Malformed,
    #[error("the token's signature is wrong, or no key of this gateway made it")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYet,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token is from another issuer")]
    Issuer,
    #[error("the token's claims are incomplete or wrong")]
    Claims,
}

/// The claims as they stand in the token.
#[derive(Deserialize)]
struct RawClaims {
    sub: String,
    exp: u64,
    role: Option<String>,
    count: Option<bool>,
    invisible: Option<bool>,
    lives: Option<Vec<String>>,
    fan_of: Option<Vec<String>>,
}

/// Checks tokens with the keys of the settings.
pub(crate) struct Tokens {
    keys: Vec<Key>,
    audience: Option<String>,
    issuer: Option<String>,
}

impl Tokens {
    /// # Errors
    /// A key cannot be had.
    pub(crate) fn open(config: &Config) -> Result<Self, KeyError> {
        let keys = keys::of_files(config)?;
        Ok(Self { keys, audience: config.jwt_audience.clone(), issuer: config.jwt_issuer.clone() })
    }

    /// What the token says, if it is good.
    ///
    /// # Errors
    /// Says why it is not, without a word of the token.
    pub(crate) async fn verify(&self, token: &str) -> Result<Arc<Claims>, TokenError> {
        if token.len() > LONGEST {
            return Err(TokenError::Malformed);
        }
        let header = decode_header(token).map_err(|_| TokenError::Malformed)?;
        let fits = |key: &&Key| {
            key.algorithm == header.alg && (key.id.is_none() || header.kid.is_none() || key.id == header.kid)
        };
        let mut refused = TokenError::Signature;
        for key in self.keys.iter().filter(fits) {
            match decode::<RawClaims>(token, &key.key, &self.validation(key)) {
                Ok(token) => return claims(token.claims).map(Arc::new),
                Err(why) => refused = why.into(),
            }
        }
        Err(refused)
    }

    fn validation(&self, key: &Key) -> Validation {
        let mut validation = Validation::new(key.algorithm);
        validation.leeway = LEEWAY;
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "sub"]);
        match &self.audience {
            Some(audience) => validation.set_audience(&[audience]),
            None => validation.validate_aud = false,
        }
        if let Some(issuer) = &self.issuer {
            validation.set_issuer(&[issuer]);
        }
        for (name, wanted) in [("aud", &self.audience), ("iss", &self.issuer)] {
            if wanted.is_some() {
                validation.required_spec_claims.insert(name.to_owned());
            }
        }
        validation
    }
}

impl From<jsonwebtoken::errors::Error> for TokenError {
    fn from(why: jsonwebtoken::errors::Error) -> Self {
        match why.kind() {
            ErrorKind::ExpiredSignature => Self::Expired,
            ErrorKind::ImmatureSignature => Self::NotYet,
            ErrorKind::InvalidAudience => Self::Audience,
            ErrorKind::InvalidIssuer => Self::Issuer,
            ErrorKind::MissingRequiredClaim(_) | ErrorKind::Json(_) | ErrorKind::InvalidClaimFormat(_) => Self::Claims,
            _ => Self::Signature,
        }
    }
}

fn claims(raw: RawClaims) -> Result<Claims, TokenError> {
    let role = match raw.role.as_deref() {
        None => Role::Viewer,
        Some(word) => Role::from_word(word).ok_or(TokenError::Claims)?,
    };
    let ids = |ids: Vec<String>| ids.iter().map(|id| UserId::parse(id)).collect::<Result<Arc<[_]>, _>>();
    let lives = |ids: Vec<String>| ids.iter().map(|id| LiveId::parse(id)).collect::<Result<Arc<[_]>, _>>();
    Ok(Claims {
        user: UserId::parse(&raw.sub).map_err(|_| TokenError::Claims)?,
        role,
        counted: raw.count != Some(false),
        invisible: raw.invisible == Some(true),
        expires_at: raw.exp.saturating_mul(1_000),
        lives: raw.lives.map(lives).transpose().map_err(|_| TokenError::Claims)?,
        fan_of: raw.fan_of.map(ids).transpose().map_err(|_| TokenError::Claims)?,
    })
}
