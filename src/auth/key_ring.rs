//! The keys in force, and the tokens that they have verified. New keys come with an empty cache, so
//! no token outlives the keys that it was checked with; a check that began with the old keys cannot
//! leave its result to the new ones.

use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::Header;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sha2::{Digest, Sha256};

use super::claims::{LEEWAY, TokenClaims};
use super::key::VerifyingKey;
use crate::base::clock::{UnixMillis, millis};

/// The memory for verified tokens: enough for 65,536 without lists.
const CACHE_BYTES: u64 = 32 << 20;

/// The memory for one verified token, and for one id in its lists; rounded up.
const TOKEN_BYTES: usize = 512;
const ID_BYTES: usize = 80;

/// How long the cache keeps a token. It frees the memory some time after a crowd has come.
const REMEMBER: Duration = Duration::from_secs(3600);

/// The key of a token in the cache, which never holds the token itself.
pub(super) type TokenDigest = [u8; 32];

pub(super) fn digest(text: &[u8]) -> TokenDigest {
    Sha256::digest(text).into()
}

pub(super) struct KeyRing {
    /// From the files of the settings.
    files: Arc<[VerifyingKey]>,
    /// From the URL of the settings.
    fetched: Arc<[VerifyingKey]>,
    verified: Cache<TokenDigest, Arc<TokenClaims>>,
}

/// The memory that a token takes in the cache, in bytes.
fn weight(claims: &TokenClaims) -> u32 {
    (TOKEN_BYTES + claims.ids() * ID_BYTES) as u32
}

impl KeyRing {
    pub(super) fn new(files: Arc<[VerifyingKey]>, fetched: Arc<[VerifyingKey]>) -> Self {
        let verified = Cache::builder()
            .max_capacity(CACHE_BYTES)
            .weigher(|_: &TokenDigest, claims: &Arc<TokenClaims>| weight(claims))
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(REMEMBER)
            .build();
        Self {
            files,
            fetched,
            verified,
        }
    }

    pub(super) fn with_files(&self, files: Arc<[VerifyingKey]>) -> Self {
        Self::new(files, self.fetched.clone())
    }

    pub(super) fn with_fetched(&self, fetched: Arc<[VerifyingKey]>) -> Self {
        Self::new(self.files.clone(), fetched)
    }

    /// The keys that may have signed a token with this header.
    pub(super) fn candidates(&self, header: &Header) -> impl Iterator<Item = &VerifyingKey> {
        self.all().filter(|key| {
            let is_named = key.id.is_none() || header.kid.is_none() || key.id == header.kid;
            key.algorithm == header.alg && is_named
        })
    }

    /// Whether a key has this id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.all().any(|key| key.id.as_deref() == Some(id))
    }

    fn all(&self) -> impl Iterator<Item = &VerifyingKey> {
        self.files.iter().chain(self.fetched.iter())
    }

    /// The claims of a token that these keys have verified, unless it has expired since.
    pub(super) fn verified(
        &self,
        token: &TokenDigest,
        now: UnixMillis,
    ) -> Option<Arc<TokenClaims>> {
        self.verified
            .get(token)
            .filter(|claims| now <= claims.expires_at.saturating_add(millis(LEEWAY)))
    }

    pub(super) fn remember(&self, token: TokenDigest, claims: Arc<TokenClaims>) {
        self.verified.insert(token, claims);
    }
}
