//! The claims of a token: which `exp`, `nbf`, `aud` and `iss` a token must have, and what the other
//! claims of a token with a good signature mean.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::{Algorithm, Validation};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::base::clock::UnixMillis;
use crate::base::identity::Role;
use crate::base::ids::{LiveId, UserId};
use crate::config::Config;

/// How far the clocks of the issuer and of this gateway may differ.
pub(crate) const LEEWAY: Duration = Duration::from_secs(30);

/// The end of the year 9999. The gateway cuts a later expiry to this time, so that no sum
/// overflows.
const LATEST: UnixMillis = 253_402_300_799_000;

/// The claims of a verified token about its bearer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenClaims {
    pub(crate) user: UserId,
    pub(crate) role: Role,
    /// False with `count: false` or `invisible: true`, which mean the same: the bearer takes part,
    /// and is in no figure, no list, no time and no event.
    pub(crate) counted: bool,
    pub(crate) expires_at: UnixMillis,
    /// When it was issued; `None` if it does not say. Revoked tokens are told by it.
    pub(crate) issued_at: Option<UnixMillis>,
    /// When the user's id was made, in seconds; `None` if it does not say. Small, because each
    /// connection has these claims.
    pub(crate) user_since: Option<NonZeroU32>,
    /// The lives that the token is limited to; `None`: all.
    pub(crate) lives: Option<Arc<[LiveId]>>,
    /// The streamers whom the bearer follows; `None` if the token does not say.
    pub(crate) fan_of: Option<Arc<[UserId]>>,
}

impl TokenClaims {
    /// Whether the token is good for this live.
    pub(crate) fn allows(&self, live: &LiveId) -> bool {
        self.lives.as_ref().is_none_or(|lives| lives.contains(live))
    }

    /// When the user's id was made; `None` if the token does not say.
    pub(crate) fn user_since(&self) -> Option<UnixMillis> {
        Some(u64::from(self.user_since?.get()) * 1_000)
    }

    /// Whether the bearer follows this streamer; `None` if the token does not say whom the bearer
    /// follows.
    pub(crate) fn follows(&self, streamer: &UserId) -> Option<bool> {
        self.fan_of
            .as_ref()
            .map(|streamers| streamers.contains(streamer))
    }

    /// How many ids its lists hold.
    pub(super) fn ids(&self) -> usize {
        let lives = self.lives.as_deref().unwrap_or_default();
        let fan_of = self.fan_of.as_deref().unwrap_or_default();
        lives.len() + fan_of.len()
    }
}

/// The claims as they stand in the token. Other claims are ignored.
#[derive(Deserialize)]
pub(super) struct RawClaims {
    sub: String,
    /// In seconds; RFC 7519 allows fractions.
    exp: f64,
    /// In seconds, as `exp`. Anything but a number is no time, and does not make the token bad.
    #[serde(default)]
    iat: Option<Value>,
    /// In seconds, and read as `iat`.
    #[serde(default)]
    user_since: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    role: Option<String>,
    #[serde(default, deserialize_with = "given")]
    guest: Option<bool>,
    #[serde(default, deserialize_with = "given")]
    count: Option<bool>,
    #[serde(default, deserialize_with = "given")]
    invisible: Option<bool>,
    #[serde(default, deserialize_with = "given")]
    lives: Option<Vec<String>>,
    #[serde(default, deserialize_with = "given")]
    fan_of: Option<Vec<String>>,
    /// The library checks the value together with the signature, but also accepts a list with the
    /// issuer in it.
    #[serde(default, deserialize_with = "given")]
    iss: Option<Value>,
    /// The library checks the value together with the signature, if the settings name an audience.
    #[serde(default, deserialize_with = "given")]
    aud: Option<Value>,
    /// The library checks the time together with the signature.
    #[serde(default, deserialize_with = "given")]
    nbf: Option<Value>,
}

/// Refuses null as a value: a list of lives that an issuer lost must not allow all lives.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// What the claims of a token must be: its time has come and is not over, and it names the audience
/// and the issuer, if the settings name one.
pub(super) fn required(config: &Config, algorithm: Algorithm) -> Validation {
    let mut validation = Validation::new(algorithm);
    validation.leeway = LEEWAY.as_secs();
    validation.validate_nbf = true;
    validation.set_required_spec_claims(&["exp", "sub"]);
    validation.validate_aud = config.jwt_audience.is_some();
    if let Some(audience) = &config.jwt_audience {
        validation.set_audience(&[audience]);
        validation.required_spec_claims.insert("aud".to_owned());
    }
    if let Some(issuer) = &config.jwt_issuer {
        validation.set_issuer(&[issuer]);
        validation.required_spec_claims.insert("iss".to_owned());
    }
    validation
}

/// Why the claims of a token with a good signature mean nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WrongClaims {
    /// `sub` is no name of a guest.
    GuestName,
    /// A guest has another role than that of a viewer.
    GuestRole,
    /// An id, the role, the issuer, the audience or the time is not one.
    Other,
}

impl RawClaims {
    /// The claims of a token that was issued when the user's id was made.
    pub(super) fn of_new_user(self) -> Self {
        Self {
            user_since: self.iat.clone(),
            ..self
        }
    }

    pub(super) fn read(self) -> Result<TokenClaims, WrongClaims> {
        if self.guest != Some(true) {
            return self.read_user().ok_or(WrongClaims::Other);
        }
        let user = UserId::guest(&self.sub).map_err(|_| WrongClaims::GuestName)?;
        let claims = Self {
            // The mark makes the id of the guest; the name alone may be that of a user.
            guest: None,
            ..self
        };
        let claims = claims.read_user().ok_or(WrongClaims::Other)?;
        if claims.role != Role::Viewer {
            return Err(WrongClaims::GuestRole);
        }
        // A guest follows nobody.
        Ok(TokenClaims {
            user,
            fan_of: None,
            ..claims
        })
    }

    fn read_user(self) -> Option<TokenClaims> {
        let issuer = self.iss.as_ref().is_none_or(Value::is_string);
        let audience = self.aud.as_ref().is_none_or(is_audience);
        let not_before = self.nbf.as_ref().is_none_or(Value::is_number);
        if !(issuer && audience && not_before) {
            return None;
        }
        let role = match self.role.as_deref() {
            None => Role::Viewer,
            Some(word) => Role::from_word(word)?,
        };
        let issued = self.iat.as_ref().and_then(Value::as_f64);
        let issued = issued.map(|at| (at * 1_000.0) as UnixMillis);
        Some(TokenClaims {
            user: UserId::parse(&self.sub).ok()?,
            role,
            counted: self.count != Some(false) && self.invisible != Some(true),
            expires_at: ((self.exp * 1_000.0) as UnixMillis).min(LATEST),
            issued_at: issued,
            user_since: self.user_since.as_ref().and_then(seconds),
            lives: ids(self.lives, |id| LiveId::parse(id).ok())?,
            fan_of: ids(self.fan_of, |id| UserId::parse(id).ok())?,
        })
    }
}

/// A time in seconds, up to the year 2106.
fn seconds(time: &Value) -> Option<NonZeroU32> {
    NonZeroU32::new(time.as_f64()? as u32)
}

/// A text, or a list of texts.
fn is_audience(aud: &Value) -> bool {
    match aud {
        Value::Array(list) => list.iter().all(Value::is_string),
        aud => aud.is_string(),
    }
}

/// The ids of an optional list; the outer `None` if one of them is no id.
fn ids<T>(
    list: Option<Vec<String>>,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Option<Arc<[T]>>> {
    let Some(list) = list else {
        return Some(None);
    };
    let ids: Option<Arc<[T]>> = list.iter().map(|id| parse(id)).collect();
    Some(Some(ids?))
}
