//! Checks tokens: the signature, the times, the audience, the issuer and the claims. The gateway
//! remembers the digest of a verified token until the token expires or the keys change, so a client
//! that comes again costs no second check of the signature.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};

use super::claims::{self, RawClaims, TokenClaims, WrongClaims};
use super::ed25519;
use super::guest_token;
use super::key::VerifyingKey;
use super::key_fetcher::{FetchOrders, KeyFetcher};
use super::key_ring::{KeyRing, digest};
use super::key_url::{FetchError, KeyUrl};
use super::keys::{self, KeyError};
use super::presence_secret::PresenceSecret;
use crate::base::clock::unix_now;
use crate::base::from_files::FromFiles;
use crate::base::metrics::Metrics;
use crate::config::{Config, Jwks};

/// The longest token that the gateway reads, in bytes: a request's head has 8 KiB.
const LONGEST: usize = 8 << 10;

/// Why a token is refused. The text quotes nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("the token is not a JSON Web Token; an API key is none, because it is no user")]
    Malformed,
    #[error("the token's signature is wrong, or no key of this gateway made it")]
    Signature,
    #[error("the token names a key that this gateway does not know")]
    UnknownKey,
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
    #[error("the token's sub is no name of a guest: 1 to 63 bytes of A-Z a-z 0-9 _ . - : @")]
    GuestName,
    #[error("the token's role must be viewer: a guest has no other")]
    GuestRole,
    /// The rules of moderation say so; the caller of [`Tokens::verify`] asks them.
    #[error("the token was revoked; a token that is issued now is good")]
    Revoked,
}

impl TokenError {
    fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Signature => "signature",
            Self::UnknownKey => "unknown_key",
            Self::Expired => "expired",
            Self::NotYet => "not_yet",
            Self::Audience => "audience",
            Self::Issuer => "issuer",
            Self::Claims | Self::GuestName | Self::GuestRole => "claims",
            Self::Revoked => "revoked",
        }
    }
}

/// Why the gateway has no keys at start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file is wrong.
    #[error("{0}")]
    File(#[from] KeyError),
    /// The URL cannot be asked.
    #[error("jwt-jwks: {0}")]
    Url(#[from] FetchError),
}

/// A token of which only the header was read.
struct Unchecked<'a> {
    text: &'a str,
    header: Header,
    name: AlgorithmName,
}

/// Which of the two names of EdDSA with Ed25519 a token may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AlgorithmName {
    /// As the library knows all algorithms.
    Old,
    /// That of RFC 9864.
    New,
}

impl<'a> Unchecked<'a> {
    /// `None` if it is no token.
    fn read(text: &'a str) -> Option<Self> {
        let (header, name) = match decode_header(text) {
            Ok(header) => (header, AlgorithmName::Old),
            Err(_) => (ed25519::header_of(text)?, AlgorithmName::New),
        };
        Some(Self { text, header, name })
    }

    fn decode(&self, key: &DecodingKey, required: Validation) -> Result<RawClaims, Error> {
        let decoded = match self.name {
            AlgorithmName::Old => decode(self.text, key, &required),
            AlgorithmName::New => ed25519::decode_renamed(self.text, key, required),
        };
        decoded.map(|token| token.claims)
    }
}

/// Checks tokens with the keys of the settings.
pub(crate) struct Tokens {
    config: Config,
    metrics: Arc<Metrics>,
    ring: Arc<ArcSwap<KeyRing>>,
    /// `None` if no keys come from a URL.
    orders: Option<FetchOrders>,
    /// From it follows the key of the tokens that gateways give out to guests; `None` if they give
    /// out none.
    guests: Option<Arc<PresenceSecret>>,
}

impl Tokens {
    /// Reads the keys of the files. The fetcher, which the caller runs, brings the keys of a URL.
    pub(crate) fn open(
        config: &Config,
        metrics: Arc<Metrics>,
    ) -> Result<(Self, Option<KeyFetcher>), OpenError> {
        let files: Arc<[VerifyingKey]> = keys::of_files(config)?.into();
        let ring = Arc::new(ArcSwap::from_pointee(KeyRing::new(files, Arc::default())));
        let (fetcher, orders) = match &config.jwt_jwks {
            Some(Jwks::Url(url)) => {
                let source = Box::new(KeyUrl::new(url.clone(), config.proxy())?);
                let (fetcher, orders) = KeyFetcher::new(source, ring.clone(), metrics.clone());
                (Some(fetcher), Some(orders))
            }
            _ => (None, None),
        };
        Ok((
            Self {
                config: config.clone(),
                metrics,
                ring,
                orders,
                guests: None,
            },
            fetcher,
        ))
    }

    /// As [`Self::open`], with keys from files only, which are not read again.
    pub(crate) fn open_once(config: &Config, metrics: Arc<Metrics>) -> Result<Self, OpenError> {
        let (tokens, _) = Self::open(config, metrics)?;
        let without_files = Config {
            jwt_hs256_secret_file: None,
            jwt_public_key: None,
            jwt_jwks: None,
            ..tokens.config
        };
        Ok(Self {
            config: without_files,
            ..tokens
        })
    }

    /// Takes the tokens that gateways give out to guests, too.
    pub(crate) fn with_guests(self, secret: Arc<PresenceSecret>) -> Self {
        Self {
            guests: Some(secret),
            ..self
        }
    }

    /// The problem of each file of keys that cannot be used.
    pub(crate) fn wrong_files(config: &Config) -> Vec<KeyError> {
        let files = keys::each_file(config).into_iter();
        files.filter_map(Result::err).collect()
    }

    /// Whether keys come from a URL.
    pub(crate) fn has_url(&self) -> bool {
        self.orders.is_some()
    }

    /// Fetches the key set of the URL now, if there is one.
    ///
    /// # Errors
    /// It could not be fetched; the log says why, and the old keys stay.
    pub(crate) async fn fetch(&self) -> Result<(), String> {
        match &self.orders {
            Some(orders) if !orders.now().await => Err(format!(
                "{}: the key set could not be fetched; the log says why",
                keys::JWKS
            )),
            _ => Ok(()),
        }
    }

    /// The claims of a valid token.
    ///
    /// # Errors
    /// Why the token is not valid; the text quotes nothing of the token.
    pub(crate) async fn verify(&self, token: &str) -> Result<Arc<TokenClaims>, TokenError> {
        let (result, label) = match self.check(token).await {
            Ok((claims, label)) => (Ok(claims), label),
            Err(why) => (Err(why), why.label()),
        };
        Metrics::count_result(&self.metrics.token_checks, label);
        result
    }

    /// The claims, and the label of this success in the metrics.
    async fn check(&self, token: &str) -> Result<(Arc<TokenClaims>, &'static str), TokenError> {
        if token.len() > LONGEST {
            return Err(TokenError::Malformed);
        }
        let token_digest = digest(token.as_bytes());
        if let Some(claims) = self.ring.load().verified(&token_digest, unix_now()) {
            return Ok((claims, "known"));
        }
        let token = Unchecked::read(token).ok_or(TokenError::Malformed)?;
        // RFC 7515, 4.1.11: a recipient that does not understand a critical extension must refuse
        // the token.
        if token.header.crit.is_some() {
            return Err(TokenError::Malformed);
        }
        if let Some(secret) = &self.guests
            && guest_token::is_meant(&token.header)
        {
            let claims = guest_token::read(token.text, secret)?;
            let claims = claims.of_new_user().read()?;
            if !claims.user.is_guest() {
                return Err(TokenError::Claims);
            }
            return Ok((Arc::new(claims), "verified"));
        }
        let mut ring = self.ring.load_full();
        let mut checked = self.check_with(&ring, &token);
        if matches!(checked, Err(TokenError::UnknownKey))
            && let Some(orders) = &self.orders
        {
            orders.for_unknown_key().await;
            ring = self.ring.load_full();
            checked = self.check_with(&ring, &token);
        }
        let claims = Arc::new(checked?);
        ring.remember(token_digest, claims.clone());
        Ok((claims, "verified"))
    }

    fn check_with(&self, ring: &KeyRing, token: &Unchecked<'_>) -> Result<TokenClaims, TokenError> {
        let header = &token.header;
        for key in ring.candidates(header) {
            let required = claims::required(&self.config, key.algorithm);
            match token.decode(&key.key, required).map_err(TokenError::from) {
                Ok(claims) => return claims.read().map_err(TokenError::from),
                // Another key may have made it.
                Err(TokenError::Signature) => {}
                Err(why) => return Err(why),
            }
        }
        // A secret never comes from a URL, so no fetch can make such a token good.
        let may_be_fetched = header.alg != Algorithm::HS256;
        match header.kid.as_deref() {
            Some(id) if may_be_fetched && !ring.has(id) => Err(TokenError::UnknownKey),
            _ => Err(TokenError::Signature),
        }
    }
}

/// If one file is bad, the keys of all files stay as they are.
impl FromFiles for Tokens {
    fn name(&self) -> &'static str {
        "the keys of tokens"
    }

    fn files(&self) -> Vec<PathBuf> {
        keys::files(&self.config)
    }

    fn read_again(&self) -> Result<(), String> {
        let files: Arc<[VerifyingKey]> = keys::of_files(&self.config)
            .map_err(|why| why.to_string())?
            .into();
        self.ring.rcu(|ring| ring.with_files(files.clone()));
        Ok(())
    }
}

impl From<WrongClaims> for TokenError {
    fn from(why: WrongClaims) -> Self {
        match why {
            WrongClaims::GuestName => Self::GuestName,
            WrongClaims::GuestRole => Self::GuestRole,
            WrongClaims::Other => Self::Claims,
        }
    }
}

impl From<Error> for TokenError {
    fn from(why: Error) -> Self {
        match why.kind() {
            ErrorKind::ExpiredSignature => Self::Expired,
            ErrorKind::ImmatureSignature => Self::NotYet,
            ErrorKind::InvalidAudience => Self::Audience,
            ErrorKind::InvalidIssuer => Self::Issuer,
            ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => Self::Audience,
            ErrorKind::MissingRequiredClaim(claim) if claim == "iss" => Self::Issuer,
            ErrorKind::MissingRequiredClaim(_)
            | ErrorKind::Json(_)
            | ErrorKind::InvalidClaimFormat(_) => Self::Claims,
            _ => Self::Signature,
        }
    }
}

#[cfg(test)]
mod tests;
