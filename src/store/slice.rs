//! The slice protocol as pure code: what one slice holds, and how each call changes it. The code
//! does no I/O and has no clock and no lock: the caller passes the time and gets an answer of
//! [`crate::store`]. The memory store keeps one [`Slice`] per slice, and the scripts of the Redis
//! store must give the same answers.
//!
//! The claims say which gateways hold which users. The public sets of members and fans only show
//! the claims to others. If claims or entries of gateways are not what the calls have counted, the
//! slice forgets all of them, but not the public sets, and each gateway says again whom it holds:
//! a rebuild. If the public sets are not what the claims say, a pass puts that right.
//!
//! A slice does not know which slices a live has, whether the live is open, or which gateways live.

mod by_hash;
mod claims;
mod counted;
mod meddling;
mod pass;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};

use self::by_hash::{ByHash, Members};
use self::claims::{Claims, Presence, Token};
use self::counted::{Counted, Rebuild};
use super::limits::MAX_BATCH;
use super::online_users::Whereabouts;
use super::sessions::Stays;
use super::slices::{
    Apply, ApplyReply, Claim, ClaimedUser, ClaimsPage, Entries, Fence, MemberPage, REBUILD,
    Refusal, SliceEntry, SliceLook, SliceSize, SliceTotals,
};
use super::sums::Uniques;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, Group, OnlineSet, UserId};

/// One slice. The default is a slice that no call has used yet, or whose data was lost.
///
/// Two slices are equal if they give the same answers from now on, except for versions and for how
/// many users came and left. A model checker uses this to tell states apart.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    /// The public set of all members.
    members: Members,
    /// The public set of fans.
    fans: Members,
    /// The users on whom there are claims.
    who: ByHash<Claims>,
    entries: BTreeMap<GatewayId, Entry>,
    fence: Option<Fence>,
    counted: Counted,
    /// The hashes of the different users who came, and of the fans among them.
    users: HashSet<u64>,
    different_fans: HashSet<u64>,
    /// The totals of the epoch, if it is closed.
    closed: SliceTotals,
    /// The sessions of each epoch, if the set keeps sessions. They outlast the close.
    stays: BTreeMap<Epoch, Stays>,
    /// See [`Self::take_departed`].
    departed: Vec<(UserId, UnixMillis)>,
}

/// A gateway's entry.
#[derive(Debug, Clone)]
struct Entry {
    token: Token,
    state: SliceEntry,
}

impl Slice {
    /// Changes what a gateway claims. A call that makes an entry does nothing after `not_after`:
    /// its gateway may have registered, let go or died since.
    pub fn apply(&mut self, call: &Apply, not_after: UnixMillis, now: UnixMillis) -> ApplyReply {
        debug_assert!(call.joins.len() + call.fans.len() + call.leaves.len() <= MAX_BATCH);
        self.departed.clear();
        let begins = match self.fence {
            Some(fence) if fence.epoch() > call.epoch => return ApplyReply::Newer(fence.epoch()),
            Some(Fence::Closed(epoch)) if epoch == call.epoch => return ApplyReply::Closed,
            Some(Fence::Open(epoch)) if epoch == call.epoch => false,
            // No fence, or an older one.
            _ => true,
        };
        if !begins {
            self.guard(call.known, None, now);
        }
        if let Some(refusal) = self.refusal(call, begins, not_after, now) {
            return refusal;
        }
        if begins {
            self.begin(call.epoch, call.known, now);
        }
        let version = self.move_on(now);
        if call.bye {
            self.drop_entry(&call.gateway);
        } else {
            let token = self.enter(call);
            self.take_claims(call, token, now);
            self.note_uniques(call);
            self.begin_stays(call, version);
        }
        ApplyReply::Done(self.size())
    }

    /// Why the call changes no claims, if it does not. A call that begins an epoch finds no entry.
    fn refusal(
        &self,
        call: &Apply,
        begins: bool,
        not_after: UnixMillis,
        now: UnixMillis,
    ) -> Option<ApplyReply> {
        let found = if begins {
            None
        } else {
            self.entry(&call.gateway)
        };
        let entry = match found {
            Some(SliceEntry::Dead) => return Some(ApplyReply::Dead),
            Some(SliceEntry::At { number, .. }) => Some(number),
            None => None,
        };
        if entry != call.follows {
            let size = if begins { None } else { Some(self.size()) };
            return Some(ApplyReply::Refused(Refusal { entry, size }));
        }
        if entry.is_none() && now > not_after {
            return Some(ApplyReply::Late(now));
        }
        None
    }

    /// Opens a slice that belongs to no epoch or to an older one. If there is something in a slice
    /// without a fence, or should be, the fence was lost: the public sets stay then.
    fn begin(&mut self, epoch: Epoch, known: SliceSize, now: UnixMillis) {
        if self.fence.is_some() {
            self.wipe();
        }
        let has_lost_data = self.has_keys() || known.version > 0;
        self.fence = Some(Fence::Open(epoch));
        if has_lost_data {
            self.forget(known, now);
        } else {
            self.counted.incarnation = self.move_on(now);
        }
    }

    /// Looks for lost writes, and for claims and entries that somebody else wrote; ends a rebuild
    /// that is due. `known` is what the caller knows of the slice, and `wrong` the incarnation in
    /// which it found its entry changed.
    fn guard(&mut self, known: SliceSize, wrong: Option<u64>, now: UnixMillis) {
        let has_foreign_data = !self.is_intact() || self.counted.fans > self.who.len();
        let is_wrong = wrong == Some(self.counted.incarnation) || has_foreign_data;
        if self.size().is_older_than(known) {
            self.forget(known, now);
        } else if is_wrong {
            match &mut self.counted.rebuild {
                // One rebuild at a time: the next one begins when this one ends.
                Some(rebuild) => rebuild.users = None,
                None => self.forget(known, now),
            }
        }
        self.end_rebuild(known, now);
    }

    /// Forgets all claims and entries, but not the public sets. Every gateway finds that its entry
    /// is gone, and says again whom it holds.
    fn forget(&mut self, known: SliceSize, now: UnixMillis) {
        self.who = ByHash::default();
        self.entries.clear();
        self.counted = Counted {
            // The next version is newer than every version that gateways know, even if the clock
            // is behind.
            version: self.counted.version.max(known.version),
            arrived: self.counted.arrived.max(known.arrived()),
            rebuild: Some(Rebuild {
                users: Some(0),
                since: now,
            }),
            ..Counted::default()
        };
        self.counted.incarnation = self.move_on(now);
    }

    /// Ends a rebuild that has lasted long enough, if all gateways have said whom they hold. If
    /// somebody else wrote meanwhile, the slice forgets again.
    fn end_rebuild(&mut self, known: SliceSize, now: UnixMillis) {
        let Some(rebuild) = &mut self.counted.rebuild else {
            return;
        };
        // The clock may have gone back since.
        rebuild.since = rebuild.since.min(now);
        let is_complete = self.entries.values().all(Entry::is_complete);
        if now - rebuild.since < millis(REBUILD) || !is_complete {
            return;
        }
        let users = self.who.len();
        if rebuild.users == Some(users) {
            self.counted.end_rebuild(users);
            self.move_on(now);
        } else {
            self.forget(known, now);
        }
    }

    /// Writes the number of the call into the entry of its gateway. A gateway without an entry gets
    /// a new token.
    fn enter(&mut self, call: &Apply) -> Token {
        let token = match self.entries.get(&call.gateway) {
            Some(entry) => entry.token,
            None => {
                self.counted.entries += 1;
                self.counted.last_token += 1;
                self.counted.last_token
            }
        };
        let state = SliceEntry::At {
            number: call.number,
            is_complete: !call.more,
        };
        self.entries
            .insert(call.gateway.clone(), Entry { token, state });
        token
    }

    fn drop_entry(&mut self, gateway: &GatewayId) {
        if self.entries.remove(gateway).is_some() {
            self.counted.entries -= 1;
        }
    }

    /// Makes the claims of a call, and takes those back that the gateway has no longer.
    fn take_claims(&mut self, call: &Apply, token: Token, now: UnixMillis) {
        for (place, user) in call.present().enumerate() {
            let claim = if place >= call.joins.len() {
                Claim::Fan
            } else if call.slice.set == OnlineSet::Users {
                Claim::In(call.lives.get(place).cloned().unwrap_or_default())
            } else {
                Claim::Member
            };
            let since = call.since.get(place).copied();
            self.change_claims(user, |claims| claims.put(token, claim, since));
            self.members.insert(user, ());
            self.show_fan(user);
        }
        for (place, user) in call.leaves.iter().enumerate() {
            let left = call.left.as_ref().and_then(|left| left.get(place));
            self.change_claims(user, |claims| claims.retract(token));
            self.leave_unless_claimed(user, left.copied().unwrap_or(now));
            self.show_fan(user);
        }
    }

    /// Changes the claims on a user, and counts the change.
    fn change_claims(&mut self, user: &UserId, change: impl FnOnce(&mut Claims)) {
        let mut claims = self.who.remove(user).unwrap_or_default();
        let before = claims.presence();
        change(&mut claims);
        let after = claims.presence();
        if after.is_member {
            self.who.insert(user, claims);
        }
        self.counted.count(before, after);
    }

    /// Takes a user without claims out of the members; in a rebuild nobody leaves. `last_here` is
    /// when the user was here last.
    fn leave_unless_claimed(&mut self, user: &UserId, last_here: UnixMillis) {
        if !self.who.contains(user) && !self.is_in_rebuild() {
            self.remove_member(user, last_here);
        }
    }

    /// Shows in the public set of fans whether a user is one. In a rebuild nobody leaves the set.
    fn show_fan(&mut self, user: &UserId) {
        if self.claimed(user).is_fan {
            self.fans.insert(user, ());
        } else if !self.is_in_rebuild() {
            self.fans.remove(user);
        }
    }

    /// Takes a user out of the members, which ends the user's session.
    fn remove_member(&mut self, user: &UserId, last_here: UnixMillis) {
        if let Some(fence) = self.fence
            && let Some(stays) = self.stays.get_mut(&fence.epoch())
        {
            stays.leave(user, last_here);
        }
        if self.members.remove(user).is_some() {
            self.departed.push((user.clone(), last_here));
        }
    }

    /// The users whom the last call took out of the members, and when each was here last.
    pub fn take_departed(&mut self) -> Vec<(UserId, UnixMillis)> {
        std::mem::take(&mut self.departed)
    }

    fn note_uniques(&mut self, call: &Apply) {
        if call.uniques {
            self.users.extend(call.present().map(UserId::xxh3));
            self.different_fans
                .extend(call.fans.iter().map(UserId::xxh3));
        }
    }

    /// Begins the sessions of users who join. `id` names them.
    fn begin_stays(&mut self, call: &Apply, id: u64) {
        if call.keeps_sessions() {
            let stays = self.stays.entry(call.epoch).or_default();
            for (user, at) in call.present().zip(&call.since) {
                stays.enter(user, id, *at);
            }
        }
    }

    /// Closes the slice for an epoch and forgets all it held. Returns the totals of the epoch,
    /// zeros if the slice belongs to another one, and whether the fence moved.
    pub fn close(&mut self, epoch: Epoch) -> (SliceTotals, bool) {
        if self.fence.is_some_and(|fence| fence.epoch() > epoch) {
            return (SliceTotals::default(), false);
        }
        let closed = Some(Fence::Closed(epoch));
        if self.fence == closed {
            return (self.closed, false);
        }
        let totals = if self.is_open_in(epoch) {
            SliceTotals {
                arrived: self.counted.arrived,
                uniques: Uniques {
                    viewers: self.users.len() as u64,
                    fans: self.different_fans.len() as u64,
                },
            }
        } else {
            SliceTotals::default()
        };
        self.wipe();
        self.closed = totals;
        self.fence = closed;
        (totals, true)
    }

    /// Forgets everything but the sessions.
    fn wipe(&mut self) {
        *self = Self {
            stays: std::mem::take(&mut self.stays),
            ..Self::default()
        };
    }

    /// Moves to the next version after a change. Versions follow the store's clock, so that they
    /// keep growing after the slice's data was lost, and they grow even if the clock goes back.
    fn move_on(&mut self, now: UnixMillis) -> u64 {
        self.counted.version = (self.counted.version + 1).max(now * 1_000);
        self.counted.version
    }
}

/// What the slice is.
impl Slice {
    /// The epoch to which the slice belongs, if it was ever used.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    fn is_open_in(&self, epoch: Epoch) -> bool {
        self.fence == Some(Fence::Open(epoch))
    }

    fn is_in_rebuild(&self) -> bool {
        self.counted.rebuild.is_some()
    }

    /// Whether there are as many claims and entries as the calls have counted.
    fn is_intact(&self) -> bool {
        self.counted.users() == Some(self.who.len())
            && self.counted.entries == self.entries.len() as u64
    }

    /// Whether the public sets have other sizes than the claims.
    fn differs(&self) -> bool {
        self.members.len() != self.who.len() || self.fans.len() != self.counted.fans
    }

    /// Whether there is anything besides the fence.
    fn has_keys(&self) -> bool {
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
    fn owner_of(&self, token: Token) -> Option<(&GatewayId, &Entry)> {
        self.entries.iter().find(|(_, entry)| entry.token == token)
    }

    /// Whether a user is there, and a fan, by the claims.
    fn claimed(&self, user: &UserId) -> Presence {
        match self.who.get(user) {
            Some(claims) => claims.presence(),
            None => Claims::default().presence(),
        }
    }

    /// The claims on a user, the one made last at the end.
    fn claims_on(&self, user: &UserId) -> impl Iterator<Item = (Token, &Claim)> {
        self.who.get(user).into_iter().flat_map(Claims::iter)
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

    fn claimed_user(&self, user: UserId) -> ClaimedUser {
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

    fn members_of(&self, group: Group) -> &Members {
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

    /// Forgets the sessions of an epoch.
    pub fn forget_stays(&mut self, epoch: Epoch) {
        self.stays.remove(&epoch);
    }

    /// Forgets a user's sessions in all epochs. Answers how many there were.
    pub fn erase_stays(&mut self, user: &UserId) -> u64 {
        self.stays.values_mut().map(|stays| stays.erase(user)).sum()
    }

    /// What decides the answers of the slice from now on.
    fn essence(&self) -> Essence<'_> {
        let mut claims = Vec::new();
        for (user, of_user) in self.who.iter() {
            for (token, claim) in of_user.iter() {
                let gateway = self.owner_of(token).map(|(gateway, _)| gateway);
                claims.push((user, of_user.since, gateway, claim));
            }
        }
        let entries = self.entries.iter();
        Essence {
            members: &self.members,
            fans: &self.fans,
            claims,
            entries: entries.map(|(name, entry)| (name, entry.state)).collect(),
            fence: self.fence,
            counted: [self.counted.card(), self.counted.fans, self.counted.entries],
            rebuild: self.counted.rebuild,
            stays: &self.stays,
        }
    }
}

impl Entry {
    /// Whether its gateway lives and has said all that it holds.
    fn is_complete(&self) -> bool {
        match self.state {
            SliceEntry::At { is_complete, .. } => is_complete,
            SliceEntry::Dead => false,
        }
    }
}

/// A slice without versions, totals and tokens.
#[derive(PartialEq, Eq, Hash)]
struct Essence<'a> {
    members: &'a Members,
    fans: &'a Members,
    claims: Vec<(
        &'a UserId,
        Option<UnixMillis>,
        Option<&'a GatewayId>,
        &'a Claim,
    )>,
    entries: Vec<(&'a GatewayId, SliceEntry)>,
    fence: Option<Fence>,
    /// Members, fans, entries.
    counted: [u64; 3],
    rebuild: Option<Rebuild>,
    stays: &'a BTreeMap<Epoch, Stays>,
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        self.essence() == other.essence()
    }
}

impl Eq for Slice {}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.essence().hash(state);
    }
}
