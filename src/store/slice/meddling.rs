//! What another program may do to a slice, or a loss of data. Only tests do this.

use super::StoredSlice;
use super::counted::SliceCounts;
use super::entry::EntryToken;
use crate::base::ids::{GatewayId, Group, UserId};
use crate::store::slices::{Claim, SliceEntry, SliceTotals};

/// A token that no gateway gets.
const NOBODY: EntryToken = 0;

impl StoredSlice {
    /// Another program adds a user to a group.
    pub fn add_stranger(&mut self, group: Group, user: &UserId) {
        self.members_of_mut(group).insert(user, ());
    }

    /// Another program removes a user from a group.
    pub fn take_out(&mut self, group: Group, user: &UserId) {
        self.members_of_mut(group).remove(user);
    }

    /// Loses the public set of a group, as if the set was evicted or deleted.
    pub fn lose_set(&mut self, group: Group) {
        *self.members_of_mut(group) = Default::default();
    }

    /// Loses the claims on a user.
    pub fn lose_claims(&mut self, user: &UserId) {
        self.who.remove(user);
    }

    /// Another program makes a claim: in the name of a gateway with an entry, or of nobody.
    pub fn invent_claim(&mut self, user: &UserId, by: Option<&GatewayId>, claim: Claim) {
        let entry = by.and_then(|gateway| self.entries.get(gateway));
        let token = entry.map_or(NOBODY, |entry| entry.token);
        let mut claims = self.who.remove(user).unwrap_or_default();
        claims.put(token, claim, None);
        self.who.insert(user, claims);
    }

    /// Loses the entry of a gateway.
    pub fn lose_entry(&mut self, gateway: &GatewayId) {
        self.entries.remove(gateway);
    }

    /// Another program changes the number in the entry of a gateway.
    pub fn change_entry(&mut self, gateway: &GatewayId, number: u64) {
        if let Some(entry) = self.entries.get_mut(gateway) {
            entry.state = SliceEntry::At {
                number,
                is_complete: true,
            };
        }
    }

    /// Loses the fence alone.
    pub fn lose_fence(&mut self) {
        self.fence = None;
        self.counted = SliceCounts::default();
        self.closed = SliceTotals::default();
    }

    fn members_of_mut(&mut self, group: Group) -> &mut super::Members {
        match group {
            Group::All => &mut self.members,
            Group::Fans => &mut self.fans,
        }
    }
}
