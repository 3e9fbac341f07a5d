//! What the calls on an open slice count. In Redis the fence keeps these numbers, and
//! `store/redis/slices/fence.rs` reads them.

use super::claims::Presence;
use super::entry::EntryToken;
use crate::base::clock::UnixMillis;
use crate::store::slices::SliceSize;
use crate::store::sums::Arrived;

/// The counts of an open slice; of another, all but the version are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SliceCounts {
    /// Grows with every change.
    pub(crate) version: u64,
    /// The version at which the slice forgot all claims last, or began.
    pub(crate) incarnation: u64,
    /// How often a first claim on a user was made, and how often a last one ended. Both stand still
    /// in a rebuild.
    pub(crate) arrived: Arrived,
    /// Users with a claim that says fan.
    pub(crate) fans: u64,
    /// Users with a claim who are guests.
    pub(crate) guests: u64,
    /// Entries of gateways, those of the dead included.
    pub(crate) entries: u64,
    /// The token that was given last in this incarnation.
    pub(crate) last_token: EntryToken,
    /// `Some` from when the slice forgot all claims until the gateways have said them again.
    pub(crate) rebuild: Option<Rebuild>,
}

/// A rebuild of the claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rebuild {
    /// Users with a claim; `None` if somebody wrote in the rebuild, so that it will not end well.
    pub(crate) users: Option<u64>,
    /// When it began.
    pub(crate) since: UnixMillis,
    /// The fans and the guests before it, which gateways are told until it ends.
    pub(crate) fans: u64,
    pub(crate) guests: u64,
}

impl SliceCounts {
    /// The number of members.
    pub(crate) fn card(&self) -> u64 {
        self.arrived.joins.saturating_sub(self.arrived.leaves)
    }

    /// The number of users with a claim, if it is known.
    pub(crate) fn users(&self) -> Option<u64> {
        match self.rebuild {
            Some(rebuild) => rebuild.users,
            None => Some(self.card()),
        }
    }

    /// Whether so many users with claims can be there.
    pub(crate) fn fits(&self, claimed: u64) -> bool {
        self.users() == Some(claimed) && self.fans + self.guests <= claimed
    }

    /// How many users the public set of members has if so many have claims: all but the guests.
    pub(crate) fn shown(&self, claimed: u64) -> u64 {
        claimed.saturating_sub(self.guests)
    }

    /// Counts a change of the claims on one user.
    pub(crate) fn count(&mut self, before: Presence, after: Presence) {
        match (before.is_member, after.is_member) {
            (false, true) => self.count_join(),
            (true, false) => self.count_leave(),
            _ => {}
        }
        match (before.is_fan, after.is_fan) {
            (false, true) => self.fans += 1,
            // Another program may have made a claim of a fan that no call counted.
            (true, false) => self.fans = self.fans.saturating_sub(1),
            _ => {}
        }
        match (before.is_guest, after.is_guest) {
            (false, true) => self.guests += 1,
            (true, false) => self.guests = self.guests.saturating_sub(1),
            _ => {}
        }
    }

    fn count_join(&mut self) {
        match &mut self.rebuild {
            Some(rebuild) => rebuild.users = rebuild.users.map(|users| users + 1),
            None => self.arrived.joins += 1,
        }
    }

    fn count_leave(&mut self) {
        match &mut self.rebuild {
            Some(rebuild) => rebuild.users = rebuild.users.map(|users| users.saturating_sub(1)),
            None => self.arrived.leaves += 1,
        }
    }

    /// Takes the users who have claims at the end of a rebuild for the members. Those who are
    /// missing left in the rebuild, and those who are too many came in it.
    pub(crate) fn end_rebuild(&mut self, users: u64) {
        let card = self.card();
        self.arrived.leaves += card.saturating_sub(users);
        self.arrived.joins += users.saturating_sub(card);
        self.rebuild = None;
    }

    pub(crate) fn size(&self, differs: bool) -> SliceSize {
        let (fans, guests) = match self.rebuild {
            Some(rebuild) => (rebuild.fans, rebuild.guests),
            None => (self.fans, self.guests),
        };
        SliceSize {
            card: self.card(),
            fans,
            guests,
            leaves: self.arrived.leaves,
            version: self.version,
            incarnation: self.incarnation,
            rebuild: self.rebuild.is_some(),
            differs,
        }
    }
}
