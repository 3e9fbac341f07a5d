//! Owns the slice protocol as pure code: what one slice holds, and how each call changes it. No I/O, no clock, no lock:
//! the time comes in, an answer of [`crate::store`] goes out. The memory store keeps one of these per slice, and the
//! scripts of the Redis store must agree with it at every answer.
//!
//! It knows of one slice only. Which slices a live has, and whether the live is open, is not its business.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::leases::Said;
use super::{
    Apply, ApplyReply, COVERED_LEASES, CheckSlice, CheckedPage, Entry, HeldPage, MAX_BATCH, MemberPage, OwnLeases,
    Silent, SliceView, Strays, Swept,
};
use crate::clock::{Millis, UnixMicros, UnixMillis, millis};
use crate::ids::{Epoch, GatewayId, UserId};

/// The most gateways that one view names as silent.
pub const MAX_SILENT: usize = 16;

/// The most strays that one check names.
const MAX_NAMES: usize = 10;

/// To which epoch a slice belongs. It only ever moves up, and from open to closed within an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fence {
    /// Members of this epoch may come and go.
    Open(Epoch),
    /// Nobody of this epoch or an older one may enter again.
    Closed(Epoch),
}

impl Fence {
    /// The epoch it has seen.
    pub fn epoch(self) -> Epoch {
        match self {
            Self::Open(epoch) | Self::Closed(epoch) => epoch,
        }
    }
}

/// A gateway's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lease {
    refreshed: Said,
    number: u64,
}

/// One slice. The default is a slice that nobody has used yet, or whose data was lost.
///
/// Two slices are equal if they answer alike from now on, so that a model checker can tell states apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Slice {
    members: Members,
    held: BTreeMap<GatewayId, Members>,
    leases: BTreeMap<GatewayId, Lease>,
    fence: Option<Fence>,
}

impl Slice {
    /// Changes or refreshes what a gateway holds.
    pub fn apply(&mut self, call: &Apply, own: &OwnLeases, now: UnixMillis) -> ApplyReply {
        debug_assert!(call.joins.len() + call.leaves.len() <= MAX_BATCH);
        match self.fence {
            Some(fence) if fence.epoch() > call.epoch => return ApplyReply::Newer(fence.epoch()),
            Some(Fence::Closed(epoch)) if epoch == call.epoch => return ApplyReply::Closed,
            Some(Fence::Open(epoch)) if epoch == call.epoch => {}
            // No fence, or an older one: who registers begins the epoch, on empty ground.
            _ if call.entry == Entry::Register => {
                self.wipe();
                self.fence = Some(Fence::Open(call.epoch));
            }
            _ => return ApplyReply::Unknown,
        }
        match self.leases.get(&call.gateway) {
            Some(lease) if lease.number >= call.number => return ApplyReply::Stale,
            None if call.entry != Entry::Register => return ApplyReply::Unknown,
            _ => {}
        }
        self.leases
            .insert(call.gateway.clone(), Lease { refreshed: Said { at: now, covered: false }, number: call.number });
        self.join(&call.gateway, &call.joins);
        self.leave(&call.gateway, &call.leaves);
        let held = self.held.get(&call.gateway).map_or(0, Members::len);
        if call.entry == Entry::Release && held == 0 {
            self.leases.remove(&call.gateway);
        }
        let quiet = call.joins.is_empty() && call.leaves.is_empty();
        let silent = if quiet { self.silent(Some(&call.gateway), call.lease, own, now) } else { Vec::new() };
        ApplyReply::Done(SliceView { card: self.members.len(), held, at: micros(now), silent })
    }

    /// Renews a gateway's lease if nothing is new in the slice since its call of this number: it is the last that was
    /// applied, there are so many fans, and no other gateway has a lease. From then on it stands under the gateway's own
    /// lease. False, and nothing done, if not. With no fans the gateway has no lease either.
    pub fn renew(&mut self, gateway: &GatewayId, fans: u64, number: u64, now: UnixMillis) -> bool {
        let alone = self.leases.len() == 1;
        if self.members.len() != fans {
            return false;
        }
        match self.leases.get_mut(gateway) {
            Some(lease) if fans > 0 && alone && lease.number == number => {
                lease.refreshed = Said { at: now, covered: true };
            }
            _ => return fans == 0,
        }
        true
    }

    /// Gateways with a lease.
    pub fn gateways(&self) -> usize {
        self.leases.len()
    }

    /// Fans in it.
    pub fn card(&self) -> u64 {
        self.members.len()
    }

    /// Reads the slice without holding anything in it.
    pub fn view(&self, lease: Duration, own: &OwnLeases, now: UnixMillis) -> SliceView {
        SliceView { card: self.members.len(), held: 0, at: micros(now), silent: self.silent(None, lease, own, now) }
    }

    /// Takes out up to [`MAX_BATCH`] members of a gateway whose lease has run out.
    pub fn sweep(&mut self, gateway: &GatewayId, lease: Duration, own: &OwnLeases, now: UnixMillis) -> Swept {
        let entry = self.leases.get(gateway);
        let fresh = entry.is_some_and(|entry| quiet(gateway, *entry, lease, own, now) < millis(lease));
        if fresh {
            return Swept { released: 0, done: true, card: self.members.len(), at: micros(now) };
        }
        let taken = self.held.get_mut(gateway).map(Members::take_batch).unwrap_or_default();
        self.drop_unheld(&taken);
        let done = self.held.get(gateway).is_none_or(Members::is_empty);
        if done {
            self.held.remove(gateway);
            self.leases.remove(gateway);
        }
        Swept { released: taken.len() as u64, done, card: self.members.len(), at: micros(now) }
    }

    /// Closes the slice for an epoch and forgets all it held. True if the fence moved.
    pub fn close(&mut self, epoch: Epoch) -> bool {
        let closed = Some(Fence::Closed(epoch));
        if self.fence.is_some_and(|fence| fence.epoch() > epoch) || self.fence == closed {
            return false;
        }
        self.wipe();
        self.fence = closed;
        true
    }

    /// To which epoch it belongs, if it was ever used.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// A page of what a gateway holds.
    pub fn held_page(&self, gateway: &GatewayId, cursor: u64) -> HeldPage {
        let MemberPage { users, next } = self.held.get(gateway).map_or_else(MemberPage::end, |held| held.page(cursor));
        let missing = users.iter().filter(|user| !self.members.contains(user)).cloned().collect();
        HeldPage { users, missing, next }
    }

    /// Looks through a page for members whom no gateway holds.
    pub fn check(&mut self, check: &CheckSlice, now: UnixMillis) -> CheckedPage {
        let held = self.held.values().map(Members::len).sum();
        let may = check.holder.as_ref().is_none_or(|gateway| self.leases.contains_key(gateway));
        let MemberPage { users, next } = if may { self.members.page(check.cursor) } else { MemberPage::end() };
        let is_held = |user: &UserId| self.held.values().any(|held| held.contains(user));
        let strays: Vec<UserId> = users.iter().filter(|user| !is_held(user)).cloned().collect();
        if check.strays == Strays::Drop {
            strays.iter().for_each(|user| self.members.remove(user));
        }
        CheckedPage {
            looked: users.len() as u64,
            strays: strays.len() as u64,
            names: strays.into_iter().take(MAX_NAMES).collect(),
            next,
            card: self.members.len(),
            held,
            at: micros(now),
        }
    }

    /// A page of the fans.
    pub fn fans_page(&self, cursor: u64) -> MemberPage {
        self.members.page(cursor)
    }

    /// Whether a user is in the slice.
    pub fn contains(&self, user: &UserId) -> bool {
        self.members.contains(user)
    }

    fn join(&mut self, gateway: &GatewayId, users: &[UserId]) {
        if users.is_empty() {
            return;
        }
        let held = self.held.entry(gateway.clone()).or_default();
        for user in users {
            held.insert(user);
            self.members.insert(user);
        }
    }

    fn leave(&mut self, gateway: &GatewayId, users: &[UserId]) {
        let Some(held) = self.held.get_mut(gateway) else {
            return self.drop_unheld(users);
        };
        for user in users {
            held.remove(user);
        }
        if held.is_empty() {
            self.held.remove(gateway);
        }
        self.drop_unheld(users);
    }

    /// Takes users out of the union whom no gateway holds. Sets that are empty are not kept, so this looks only at
    /// gateways that hold somebody.
    fn drop_unheld(&mut self, users: &[UserId]) {
        for user in users {
            if !self.held.values().any(|held| held.contains(user)) {
                self.members.remove(user);
            }
        }
    }

    /// The quietest first, so that a crowd of dead gateways is worked off in order.
    fn silent(&self, caller: Option<&GatewayId>, lease: Duration, own: &OwnLeases, now: UnixMillis) -> Vec<Silent> {
        let others = self.leases.iter().filter(|(gateway, _)| Some(*gateway) != caller);
        let quiet = others.map(|(gateway, entry)| (gateway, quiet(gateway, *entry, lease, own, now)));
        let late = quiet.filter(|(_, quiet)| *quiet >= millis(lease));
        let mut silent: Vec<Silent> = late
            .map(|(gateway, quiet)| Silent { gateway: gateway.clone(), quiet: Duration::from_millis(quiet) })
            .collect();
        silent.sort_by(|a, b| b.quiet.cmp(&a.quiet).then_with(|| a.gateway.cmp(&b.gateway)));
        silent.truncate(MAX_SILENT);
        silent
    }

    fn wipe(&mut self) {
        self.members = Members::default();
        self.held.clear();
        self.leases.clear();
    }
}

fn micros(now: UnixMillis) -> UnixMicros {
    now * 1_000
}

fn quiet(gateway: &GatewayId, entry: Lease, lease: Duration, own: &OwnLeases, now: UnixMillis) -> Millis {
    own.quiet(gateway, entry.refreshed, lease.saturating_mul(COVERED_LEASES), now)
}

/// A set of users in the order of a hash, so that a page can go on where the last one ended, whatever came and went in
/// between: who is in the set all along is in exactly one page. Every entry names a user; `None` only says where a page
/// begins, as it comes before every user of the same hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Members(BTreeSet<(u64, Option<UserId>)>);

impl Members {
    fn key(user: &UserId) -> (u64, Option<UserId>) {
        (xxhash_rust::xxh3::xxh3_64(user.as_str().as_bytes()), Some(user.clone()))
    }

    fn insert(&mut self, user: &UserId) {
        self.0.insert(Self::key(user));
    }

    fn remove(&mut self, user: &UserId) {
        self.0.remove(&Self::key(user));
    }

    fn contains(&self, user: &UserId) -> bool {
        self.0.contains(&Self::key(user))
    }

    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take_batch(&mut self) -> Vec<UserId> {
        std::iter::from_fn(|| self.0.pop_first()).take(MAX_BATCH).filter_map(|(_, user)| user).collect()
    }

    /// The cursor is the first hash that is not on an earlier page; users of one hash share a page.
    fn page(&self, cursor: u64) -> MemberPage {
        let mut users = Vec::new();
        let mut last = cursor;
        for (hash, user) in self.0.range((cursor, None)..) {
            if users.len() >= MAX_BATCH && *hash != last {
                return MemberPage { users, next: Some(*hash) };
            }
            last = *hash;
            users.extend(user.clone());
        }
        MemberPage { users, next: None }
    }
}

impl MemberPage {
    /// The page of a set that is not there.
    fn end() -> Self {
        Self { users: Vec::new(), next: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LiveId, SliceId};

    fn user(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    /// A slice in which gateway `g` holds `u1` and `u2`; then `stray` is put in and `u2` taken out, past every call.
    fn meddled_with() -> (Slice, GatewayId, CheckSlice) {
        let (id, gateway) =
            (SliceId { live: LiveId::parse("42").unwrap(), index: 1, of: 1 }, GatewayId::parse("g").unwrap());
        let mut slice = Slice::default();
        let call = Apply {
            slice: id.clone(),
            epoch: Epoch(1),
            gateway: gateway.clone(),
            number: 1,
            entry: Entry::Register,
            joins: vec![user("u1"), user("u2")],
            leaves: Vec::new(),
            lease: Duration::from_secs(1),
        };
        assert!(matches!(slice.apply(&call, &OwnLeases::default(), 0), ApplyReply::Done(_)));
        slice.members.insert(&user("stray"));
        slice.members.remove(&user("u2"));
        let check = CheckSlice { slice: id, holder: Some(gateway.clone()), cursor: 0, strays: Strays::Count };
        (slice, gateway, check)
    }

    #[test]
    fn a_check_finds_who_is_held_by_nobody_and_takes_nobody_else_out() {
        let (mut slice, _, check) = meddled_with();
        for strays in [Strays::Count, Strays::Drop] {
            let page = slice.check(&CheckSlice { strays, ..check.clone() }, 5);
            assert_eq!((page.looked, page.strays, page.names, page.held), (2, 1, vec![user("stray")], 2));
        }
        assert!(slice.contains(&user("u1")) && !slice.contains(&user("stray")));
        assert_eq!(slice.check(&check, 5).strays, 0);
    }

    #[test]
    fn a_gateway_without_an_entry_judges_nobody() {
        let (mut slice, _, check) = meddled_with();
        let check = CheckSlice { holder: GatewayId::parse("swept").ok(), strays: Strays::Drop, ..check };
        assert_eq!((slice.check(&check, 5).looked, slice.check(&check, 5).card), (0, 2));
        let check = CheckSlice { holder: None, ..check };
        assert_eq!(slice.check(&check, 5).card, 1);
    }

    #[test]
    fn a_reading_of_what_is_held_tells_whom_the_slice_lacks() {
        let (slice, gateway, _) = meddled_with();
        let page = slice.held_page(&gateway, 0);
        assert_eq!((page.users.len(), page.missing), (2, vec![user("u2")]));
    }
}
