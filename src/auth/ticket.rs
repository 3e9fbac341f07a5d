//! The ticket of a session without a socket: what a hello says, so that any gateway can go on with
//! the session. Everybody on the way can read a datagram, so a ticket is sealed: only gateways read
//! whose session it is, and it is good for that session alone.

use std::num::NonZeroU32;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};

use super::claims::TokenClaims;
use super::presence_secret::PresenceSecret;
use super::session_claims::SessionClaims;
use crate::base::clock::UnixMillis;
use crate::base::identity::Role;
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::base::session_key::SessionKey;

/// The longest ticket, in bytes: a hello has no room for a longer one.
pub(crate) const LONGEST_TICKET: usize = 1_142;

/// What a ticket says. Its names are short, because a hello has room for little.
#[derive(Serialize, Deserialize)]
struct TicketContent {
    #[serde(rename = "l")]
    live: LiveId,
    #[serde(rename = "e")]
    epoch: Epoch,
    #[serde(rename = "n")]
    number: u32,
    #[serde(rename = "f")]
    friends: bool,
    #[serde(rename = "m")]
    removals: u64,
    #[serde(rename = "g")]
    good_until: UnixMillis,
    #[serde(rename = "b")]
    began: UnixMillis,
    #[serde(rename = "u")]
    user: String,
    #[serde(rename = "r")]
    role: String,
    #[serde(rename = "c")]
    counted: bool,
    #[serde(rename = "x")]
    expires_at: UnixMillis,
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    issued_at: Option<UnixMillis>,
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    user_since: Option<NonZeroU32>,
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    lives: Option<Vec<LiveId>>,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    fan_of: Option<Vec<UserId>>,
}

impl SessionClaims {
    /// The ticket, as text. `None` if it would be too long.
    pub(crate) fn seal(&self, secret: &PresenceSecret) -> Option<String> {
        let bearer = &self.bearer;
        let content = TicketContent {
            live: self.live.clone(),
            epoch: self.epoch,
            number: self.number,
            friends: self.friends,
            removals: self.removals,
            good_until: self.good_until,
            began: self.began,
            user: bearer.user.to_string(),
            role: bearer.role.as_str().to_owned(),
            counted: bearer.counted,
            expires_at: bearer.expires_at,
            issued_at: bearer.issued_at,
            user_since: bearer.user_since,
            lives: bearer.lives.as_deref().map(<[_]>::to_vec),
            fan_of: bearer.fan_of.as_deref().map(<[_]>::to_vec),
        };
        // Texts and numbers only: this does not fail.
        let content = serde_json::to_vec(&content).ok()?;
        let ticket = BASE64URL_NOPAD.encode(&secret.seal_ticket(content, &self.key)?);
        (ticket.len() <= LONGEST_TICKET).then_some(ticket)
    }

    /// Reads the ticket of this session. `None` if no gateway sealed it, or it is no longer good.
    pub(crate) fn open(
        ticket: &str,
        session: &SessionKey,
        secret: &PresenceSecret,
        now: UnixMillis,
    ) -> Option<Self> {
        let sealed = BASE64URL_NOPAD.decode(ticket.as_bytes()).ok()?;
        let content: TicketContent =
            serde_json::from_slice(&secret.open_ticket(&sealed, session)?).ok()?;
        let claims = Self {
            key: *session,
            live: content.live,
            epoch: content.epoch,
            number: content.number,
            friends: content.friends,
            removals: content.removals,
            good_until: content.good_until,
            began: content.began,
            bearer: TokenClaims {
                user: UserId::read(&content.user).ok()?,
                role: Role::from_word(&content.role)?,
                counted: content.counted,
                expires_at: content.expires_at,
                issued_at: content.issued_at,
                user_since: content.user_since,
                lives: content.lives.map(Into::into),
                fan_of: content.fan_of.map(Into::into),
            },
        };
        claims.are_good(now).then_some(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::session_claims::tests::claims;

    #[test]
    fn a_ticket_says_on_any_gateway_what_it_said_on_the_first_and_nothing_to_others() {
        let secret = PresenceSecret::default();
        let written = claims(&secret);
        let ticket = written.seal(&secret).unwrap();
        let read = SessionClaims::open(&ticket, &written.key, &secret, 0);
        assert_eq!(read, Some(written.clone()));
        assert_ne!(
            Some(&ticket),
            written.seal(&secret).as_ref(),
            "no two are the same"
        );
        assert!(ticket.len() < written.sign(&secret).len());
        let sealed = BASE64URL_NOPAD.decode(ticket.as_bytes()).unwrap();
        // Words of two letters stand in random bytes by chance.
        let sealed = String::from_utf8_lossy(&sealed);
        for said in ["mail@example.org", "viewer"] {
            assert!(!sealed.contains(said), "{said}");
        }
    }

    #[test]
    fn a_ticket_of_another_session_that_was_forged_or_has_expired_says_nothing() {
        let secret = PresenceSecret::default();
        let written = claims(&secret);
        let (ticket, session) = (written.seal(&secret).unwrap(), &written.key);
        let last = 1_732_000_030_499;
        assert!(SessionClaims::open(&ticket, session, &secret, last).is_some());
        assert_eq!(
            SessionClaims::open(&ticket, session, &secret, last + 1),
            None
        );
        assert_eq!(
            SessionClaims::open(&ticket, &secret.new_key(), &secret, 0),
            None
        );
        let stranger = PresenceSecret::default();
        assert_eq!(SessionClaims::open(&ticket, session, &stranger, 0), None);
        for at in [0, ticket.len() / 2, ticket.len() - 3] {
            let mut forged = ticket.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(
                SessionClaims::open(&forged, session, &secret, 0),
                None,
                "{forged}"
            );
        }
        let id = written.sign(&secret);
        for wrong in ["", "AAAA", "no base64!", &id] {
            assert_eq!(
                SessionClaims::open(wrong, session, &secret, 0),
                None,
                "{wrong}"
            );
        }
        assert_eq!(
            SessionClaims::read(&ticket, &secret, 0),
            None,
            "a ticket is no id"
        );
    }
}
