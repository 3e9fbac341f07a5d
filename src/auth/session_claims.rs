//! The id of a session without a socket: a token that the gateways sign for each other. It says
//! whose session it is, in which live, and what its user may do, so that any gateway can go on with
//! the session without asking anybody.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use jsonwebtoken::{Algorithm, Header, Validation, decode, encode};

use super::claims::{LEEWAY, RawClaims, TokenClaims};
use super::presence_secret::PresenceSecret;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::base::session_key::SessionKey;

/// What the id of a session says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionClaims {
    pub(crate) key: SessionKey,
    /// The live that the session has joined.
    pub(crate) live: LiveId,
    pub(crate) epoch: Epoch,
    /// Grows with each switch to another live. Of two ids of a session the one with the higher
    /// number is right.
    pub(crate) number: u32,
    /// Whether the client asked for its friends in the live.
    pub(crate) friends: bool,
    /// When the session began, in whole seconds: an erasure of the user after that ends it.
    pub(crate) began: UnixMillis,
    /// The last removal from the live when the id was made. A later one may be of the user.
    pub(crate) removals: u64,
    /// Until when the id is good, whatever else it says.
    pub(crate) good_until: UnixMillis,
    /// Of the token with which the session began. With `--auth off`, of what its query said.
    pub(crate) bearer: TokenClaims,
}

/// The claims as they stand in the text.
#[derive(Serialize)]
struct WrittenClaims<'a> {
    sid: SessionKey,
    live: &'a LiveId,
    epoch: Epoch,
    number: u32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    friends: bool,
    #[serde(skip_serializing_if = "is_none")]
    removals: u64,
    /// In seconds.
    until: u64,
    /// In seconds.
    iat: u64,
    /// Without the mark of a guest.
    sub: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    guest: bool,
    role: &'static str,
    count: bool,
    /// In seconds.
    exp: f64,
    /// When the token was issued, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    issued: Option<UnixMillis>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_since: Option<NonZeroU32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lives: Option<&'a [LiveId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fan_of: Option<&'a [UserId]>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_none(number: &u64) -> bool {
    *number == 0
}

#[derive(Deserialize)]
struct ReadClaims {
    sid: SessionKey,
    live: LiveId,
    epoch: Epoch,
    number: u32,
    #[serde(default)]
    friends: bool,
    #[serde(default)]
    removals: u64,
    until: u64,
    #[serde(default)]
    iat: u64,
    #[serde(default)]
    issued: Option<UnixMillis>,
    #[serde(flatten)]
    bearer: RawClaims,
}

impl SessionClaims {
    /// The id, as text for a URL.
    pub(crate) fn sign(&self, secret: &PresenceSecret) -> String {
        let user = &self.bearer.user;
        let written = WrittenClaims {
            sid: self.key,
            live: &self.live,
            epoch: self.epoch,
            number: self.number,
            friends: self.friends,
            removals: self.removals,
            until: self.good_until / 1_000,
            iat: self.began / 1_000,
            sub: user.guest_name().unwrap_or(user.as_str()),
            guest: user.is_guest(),
            role: self.bearer.role.as_str(),
            count: self.bearer.counted,
            exp: self.bearer.expires_at as f64 / 1_000.0,
            issued: self.bearer.issued_at,
            user_since: self.bearer.user_since,
            lives: self.bearer.lives.as_deref(),
            fan_of: self.bearer.fan_of.as_deref(),
        };
        let header = Header::new(Algorithm::HS256);
        // Texts and numbers only: this does not fail.
        secret
            .with_signing_key(|key| encode(&header, &written, key).unwrap_or_default())
            .unwrap_or_default()
    }

    /// Reads an id. `None` if no gateway signed it, or it is no longer good.
    pub(crate) fn read(id: &str, secret: &PresenceSecret, now: UnixMillis) -> Option<Self> {
        let mut validation = Validation::new(Algorithm::HS256);
        // The time is checked below, by the clock that the tests can set.
        validation.validate_exp = false;
        validation.required_spec_claims.clear();
        let read: ReadClaims = secret.check_with(|key| {
            let token = decode(id, key, &validation).ok()?;
            Some(token.claims)
        })?;
        let claims = Self {
            key: read.sid,
            live: read.live,
            epoch: read.epoch,
            number: read.number,
            friends: read.friends,
            removals: read.removals,
            good_until: read.until.saturating_mul(1_000),
            began: read.iat.saturating_mul(1_000),
            bearer: TokenClaims {
                issued_at: read.issued,
                ..read.bearer.read().ok()?
            },
        };
        claims.are_good(now).then_some(claims)
    }

    /// Whether neither the id or ticket that says this has expired, nor the user's token.
    pub(super) fn are_good(&self, now: UnixMillis) -> bool {
        let token = self.bearer.expires_at.saturating_add(millis(LEEWAY));
        now < self.good_until.min(token)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::base::identity::Role;

    pub(in crate::auth) fn claims(secret: &PresenceSecret) -> SessionClaims {
        SessionClaims {
            key: secret.new_key(),
            live: LiveId::parse("42").unwrap(),
            epoch: Epoch(3),
            number: 1,
            friends: true,
            removals: 7,
            good_until: 1_732_000_060_000,
            began: 1_731_000_000_000,
            bearer: TokenClaims {
                user: UserId::parse("mail@example.org").unwrap(),
                role: Role::Viewer,
                counted: false,
                expires_at: 1_732_000_000_500,
                issued_at: Some(1_730_000_000_500),
                user_since: NonZeroU32::new(1_700_000_000),
                lives: Some([LiveId::parse("42").unwrap()].into()),
                fan_of: Some([UserId::parse("s1").unwrap()].into()),
            },
        }
    }

    #[test]
    fn an_id_says_on_any_gateway_what_it_said_on_the_first() {
        let secret = PresenceSecret::open(None).unwrap();
        let written = claims(&secret);
        let id = written.sign(&secret);
        assert_eq!(SessionClaims::read(&id, &secret, 0), Some(written));
        let is_for_a_path = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        assert!(id.bytes().all(is_for_a_path), "{id}");
        assert!(id.len() < 480, "{} bytes", id.len());
    }

    #[test]
    fn an_id_that_was_forged_or_has_expired_says_nothing() {
        let secret = PresenceSecret::open(None).unwrap();
        let id = claims(&secret).sign(&secret);
        let last = 1_732_000_030_499;
        assert!(SessionClaims::read(&id, &secret, last).is_some());
        assert_eq!(SessionClaims::read(&id, &secret, last + 1), None);
        let short = SessionClaims {
            good_until: 1_731_999_999_000,
            ..claims(&secret)
        }
        .sign(&secret);
        assert!(SessionClaims::read(&short, &secret, 1_731_999_998_999).is_some());
        assert_eq!(
            SessionClaims::read(&short, &secret, 1_731_999_999_000),
            None
        );
        let stranger = PresenceSecret::open(None).unwrap();
        assert_eq!(SessionClaims::read(&id, &stranger, 0), None);
        for at in [3, id.len() / 2, id.len() - 3] {
            let mut forged = id.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(SessionClaims::read(&forged, &secret, 0), None, "{forged}");
        }
        for wrong in ["", ".", "..", "a.b.c"] {
            assert_eq!(SessionClaims::read(wrong, &secret, 0), None, "{wrong}");
        }
    }
}
