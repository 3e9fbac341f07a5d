//! The claims on one user: which gateways say that the user is there, and as what.

use super::entry::EntryToken;
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::slices::Claim;

/// The claims on a user.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserClaims {
    /// When the user of a live came.
    pub(crate) since: Option<UnixMillis>,
    /// One claim a gateway, in the order in which they were made.
    by: Vec<(EntryToken, Claim)>,
}

/// Whether a user is there, and a fan or a guest, by the claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Presence {
    pub(crate) is_member: bool,
    pub(crate) is_fan: bool,
    pub(crate) is_guest: bool,
}

impl UserClaims {
    /// Makes a claim, or makes it again, which moves it behind those of the other gateways. The
    /// earliest time at which the user came stays.
    pub(crate) fn put(&mut self, token: EntryToken, claim: Claim, since: Option<UnixMillis>) {
        self.since = match (self.since, since) {
            (Some(before), Some(now)) => Some(before.min(now)),
            (before, now) => before.or(now),
        };
        self.retract(token);
        self.by.push((token, claim));
    }

    /// Takes the claim of a gateway back.
    pub(crate) fn retract(&mut self, token: EntryToken) {
        self.by.retain(|(of, _)| *of != token);
    }

    /// The claims, the one made last at the end.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EntryToken, &Claim)> {
        self.by.iter().map(|(token, claim)| (*token, claim))
    }

    /// A user is there as long as any gateway says so, and a fan as long as any gateway says so.
    /// Whether the user is a guest, the id says; no guest is a fan.
    pub(crate) fn presence(&self, user: &UserId) -> Presence {
        let is_member = !self.by.is_empty();
        let says_fan = self.by.iter().any(|(_, claim)| *claim == Claim::Fan);
        Presence {
            is_member,
            is_fan: says_fan && !user.is_guest(),
            is_guest: is_member && user.is_guest(),
        }
    }
}
