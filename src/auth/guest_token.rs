//! The tokens that gateways give out to guests: viewers without an account. A gateway signs them
//! with a key that follows from the presence secret, so every gateway of a platform takes them.

use std::time::Duration;

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Header, Validation, decode, encode};
use serde::Serialize;

use super::claims::{LEEWAY, RawClaims};
use super::presence_secret::PresenceSecret;
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;

/// The id of the key in the header of such a token. No key of an app may have it with `--guests on`.
const KEY_ID: &str = "rollcall-guest";

/// How long a guest stays the same.
const LIFE: Duration = Duration::from_secs(30 * 24 * 3_600);

/// A token that a gateway made for a new guest.
pub(crate) struct GuestToken {
    pub(crate) text: String,
    pub(crate) user: UserId,
    pub(crate) expires_at: UnixMillis,
}

#[derive(Serialize)]
struct GuestClaims<'a> {
    /// Without the mark of a guest.
    sub: &'a str,
    guest: bool,
    /// In seconds.
    iat: u64,
    /// In seconds.
    exp: u64,
}

/// Makes a guest. `None` if the secret is gone, which it never is.
pub(crate) fn make(secret: &PresenceSecret, now: UnixMillis) -> Option<GuestToken> {
    let user = UserId::random_guest();
    let iat = now / 1_000;
    let exp = iat.saturating_add(LIFE.as_secs());
    let claims = GuestClaims {
        sub: user.guest_name()?,
        guest: true,
        iat,
        exp,
    };
    let header = Header {
        kid: Some(KEY_ID.to_owned()),
        ..Header::new(Algorithm::HS256)
    };
    let text = secret.with_guest_key(|key| encode(&header, &claims, key).ok())??;
    Some(GuestToken {
        text,
        user,
        expires_at: exp.saturating_mul(1_000),
    })
}

/// Whether a token says that a gateway made it for a guest.
pub(super) fn is_meant(header: &Header) -> bool {
    header.kid.as_deref() == Some(KEY_ID) && header.alg == Algorithm::HS256
}

/// The claims of such a token.
///
/// # Errors
/// No gateway with this secret made it, or it has expired.
pub(super) fn read(token: &str, secret: &PresenceSecret) -> Result<RawClaims, Error> {
    let mut validation = Validation::new(Algorithm::HS256);
    validation.leeway = LEEWAY.as_secs();
    validation.set_required_spec_claims(&["exp", "sub"]);
    validation.validate_aud = false;
    let read = secret.check_guest_with(|key| match decode(token, key, &validation) {
        Ok(token) => Some(Ok(token.claims)),
        // A former secret may have made it.
        Err(why) if matches!(why.kind(), ErrorKind::InvalidSignature) => None,
        Err(why) => Some(Err(why)),
    });
    read.unwrap_or_else(|| Err(ErrorKind::InvalidSignature.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::{millis, unix_now};
    use crate::base::identity::Role;

    #[test]
    fn a_guest_is_the_same_on_every_gateway_that_shares_the_secret_until_the_token_ends() {
        let secret = PresenceSecret::default();
        let made = make(&secret, unix_now()).unwrap();
        let claims = read(&made.text, &secret).unwrap().read().unwrap();
        assert_eq!((&claims.user, claims.role), (&made.user, Role::Viewer));
        assert!(claims.user.is_guest() && claims.counted);
        assert_eq!(claims.expires_at, made.expires_at);
        assert_ne!(make(&secret, unix_now()).unwrap().user, made.user);

        let kind =
            |token: &str, secret: &PresenceSecret| read(token, secret).err().unwrap().into_kind();
        let other = PresenceSecret::default();
        let stranger = kind(&made.text, &other);
        assert!(matches!(stranger, ErrorKind::InvalidSignature));
        let ended = make(&secret, unix_now() - millis(LIFE + LEEWAY) - 1_000).unwrap();
        let ended = kind(&ended.text, &secret);
        assert!(matches!(ended, ErrorKind::ExpiredSignature));
    }
}
