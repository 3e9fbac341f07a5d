//! What a slice answers to those who only read it.

use super::StoredSlice;
use super::by_hash::Members;
use super::claims::{Presence, UserClaims};
use super::entry::{EntryToken, GatewayEntry};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, Group, UserId};
use crate::store::Stays;
use crate::store::limits::MAX_BATCH;
use crate::store::online_users::Whereabouts;
use crate::store::slices::{
    Claim, ClaimedUser, ClaimsPage, Entries, Fence, MemberPage, SliceEntry, SliceLook, SliceSize,
};

impl StoredSlice {
    /// The epoch to which the slice belongs, if it was ever used.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    pub(crate) fn is_open_in(&self, epoch: Epoch) -> bool {
        self.fence == Some(Fence::Open(epoch))
    }

    pub(crate) fn is_in_rebuild(&self) -> bool {
        self.counted.rebuild.is_some()
    }

    /// Whether there are as many claims and entries as the calls have counted, and not more fans and
    /// guests than users with claims.
    pub(crate) fn is_intact(&self) -> bool {
        self.counted.fits(self.who.len()) && self.counted.entries == self.entries.len() as u64
    }

    /// Whether the public sets have other sizes than the claims.
    pub(crate) fn differs(&self) -> bool {
        self.members.len() != self.counted.shown(self.who.len())
            || self.fans.len() != self.counted.fans
    }

    /// Whether there is anything besides the fence.
    pub(crate) fn has_keys(&self) -> bool {
        let has_members = !self.members.is_empty() || !self.fans.is_empty();
        has_members || !self.who.is_empty() || !self.entries.is_empty()
    }

    /// Whether the store may forget the slice.
    pub fn is_unused(&self) -> bool {
        self.fence.is_none() && !self.has_keys() && !self.has_stays()
    }

    /// The size of an open slice, as the calls have counted it; zeros otherwise.
    pub fn size(&self) -> SliceSize {
        match self.fence {
            Some(Fence::Open(_)) => self.counted.size(self.differs()),
            _ => SliceSize::default(),
        }
    }

    /// The slice as a gateway finds it.
    pub fn look(&self, gateway: &GatewayId, which: Entries) -> SliceLook {
        let mut entries = Vec::new();
        if which == Entries::All {
            for (gateway, entry) in &self.entries {
                entries.push((gateway.clone(), entry.state));
            }
        }
        SliceLook {
            fence: self.fence,
            size: self.size(),
            is_intact: self.is_intact(),
            has_keys: self.has_keys(),
            entry: self.entry(gateway),
            entries,
        }
    }

    /// The entry of a gateway.
    pub fn entry(&self, gateway: &GatewayId) -> Option<SliceEntry> {
        Some(self.entries.get(gateway)?.state)
    }

    /// The gateway to which a token belongs, and its entry.
    pub(super) fn owner_of(&self, token: EntryToken) -> Option<(&GatewayId, &GatewayEntry)> {
        self.entries.iter().find(|(_, entry)| entry.token == token)
    }

    /// Whether a user is there, and a fan or a guest, by the claims.
    pub(crate) fn claimed(&self, user: &UserId) -> Presence {
        match self.who.get(user) {
            Some(claims) => claims.presence(user),
            None => UserClaims::default().presence(user),
        }
    }

    /// Whether the public set of members has a user, by the claims: it has no guests.
    pub(crate) fn is_shown(&self, user: &UserId) -> bool {
        let claimed = self.claimed(user);
        claimed.is_member && !claimed.is_guest
    }

    /// The claims on a user, the one made last at the end.
    pub(crate) fn claims_on(&self, user: &UserId) -> impl Iterator<Item = (EntryToken, &Claim)> {
        self.who.get(user).into_iter().flat_map(UserClaims::iter)
    }

    /// A page of the users on whom there are claims.
    pub fn claims_page(&self, cursor: u64) -> ClaimsPage {
        let MemberPage { users, next } = self.who.page(cursor, MAX_BATCH);
        let users = users.into_iter().map(|user| self.claimed_user(user));
        ClaimsPage {
            users: users.collect(),
            next,
        }
    }

    pub(crate) fn claimed_user(&self, user: UserId) -> ClaimedUser {
        let mut by = Vec::new();
        for (token, claim) in self.claims_on(&user) {
            let gateway = self.owner_of(token).map(|(gateway, _)| gateway.clone());
            by.push((gateway, claim.clone()));
        }
        let since = self.since(&user);
        ClaimedUser { user, since, by }
    }

    /// The users on whom a gateway has a claim, and what it claims of each.
    pub fn claimed_by(&self, gateway: &GatewayId) -> Vec<(UserId, Claim)> {
        let mut users = Vec::new();
        let Some(entry) = self.entries.get(gateway) else {
            return users;
        };
        for (user, claims) in self.who.iter() {
            for (token, claim) in claims.iter() {
                if token == entry.token {
                    users.push((user.clone(), claim.clone()));
                }
            }
        }
        users
    }

    /// The lives in which each user of the platform is, by the word of the living gateways.
    pub fn whereabouts(&self) -> impl Iterator<Item = (&UserId, Whereabouts)> {
        self.who
            .iter()
            .map(|(user, _)| (user, self.whereabouts_of(user)))
    }

    /// The lives in which a user of the platform is, by the word of the living gateways.
    pub fn whereabouts_of(&self, user: &UserId) -> Whereabouts {
        let mut whereabouts = Vec::new();
        for (token, claim) in self.claims_on(user) {
            if let Claim::In(lives) = claim
                && let Some((gateway, entry)) = self.owner_of(token)
                && entry.state != SliceEntry::Dead
            {
                whereabouts.extend(lives.iter().map(|live| (gateway.clone(), live.clone())));
            }
        }
        whereabouts
    }

    /// When a user came to the slice, if the slice keeps that.
    pub fn since(&self, user: &UserId) -> Option<UnixMillis> {
        self.who.get(user)?.since
    }

    pub(crate) fn members_of(&self, group: Group) -> &Members {
        match group {
            Group::All => &self.members,
            Group::Fans => &self.fans,
        }
    }

    /// The number of users in the public set of a group.
    pub fn card(&self, group: Group) -> u64 {
        self.members_of(group).len()
    }

    /// A page of the public set of a group.
    pub fn members_page(&self, group: Group, cursor: u64) -> MemberPage {
        self.members_of(group).page(cursor, MAX_BATCH)
    }

    /// The users in the public set of a group.
    pub fn members(&self, group: Group) -> impl Iterator<Item = &UserId> {
        self.members_of(group).iter().map(|(user, ())| user)
    }

    /// Whether a user is in the public set of a group.
    pub fn contains(&self, group: Group, user: &UserId) -> bool {
        self.members_of(group).contains(user)
    }

    /// The sessions of an epoch; `None` if the slice keeps none.
    pub fn stays(&self, epoch: Epoch) -> Option<&Stays> {
        self.stays.get(&epoch)
    }

    /// Whether the slice keeps sessions of any epoch.
    pub fn has_stays(&self) -> bool {
        !self.stays.is_empty()
    }
}
