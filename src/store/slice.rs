//! The slice protocol as pure code: what one slice holds, and how each call changes it. No I/O, no clock, no lock: the
//! caller passes the time and gets an answer of [`crate::store`]. The memory store keeps one of these per slice, and
//! the scripts of the Redis store must agree with it at every answer.
//!
//! A slice does not know which slices a live has, whether the live is open, or which gateways live: the caller of
//! [`Slice::sweep`] must know that the gateway was buried.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use super::limits::MAX_BATCH;
use super::sessions::Stays;
use super::slices::{
    Apply, ApplyReply, Compared, DOUBT_AFTER_LOSS, Fence, HeldFrom, HeldPage, MemberPage, PutBackPage, Settled,
    SlicePart, SliceReading, SliceSize, SliceSurvey, SliceTotals, SliceView, Strays, StraysPage, Swept,
};
use super::sums::Arrived;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, UserId};

/// The most strays that one answer names.
const MAX_NAMES: usize = 10;

/// One slice. The default is a slice that nobody has used yet, or whose data was lost.
///
/// Two slices are equal if they answer alike from now on but for versions and for how many came and left, so that a
/// model checker can tell states apart.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    members: Members,
    held: BTreeMap<GatewayId, Members>,
    /// Since when each member is there, in a set that keeps it.
    since: BTreeMap<UserId, UnixMillis>,
    /// The number of each gateway's last applied call.
    entries: BTreeMap<GatewayId, u64>,
    fence: Option<Fence>,
    version: u64,
    /// How often a user came, by the first gateway, and how often one left, by the last.
    arrived: Arrived,
    /// The hashes of the different users who came.
    users: HashSet<u64>,
    /// What was counted of the epoch, if it is closed.
    closed: SliceTotals,
    /// When the doubt about the slice may end; `None` if it is in no doubt.
    doubt: Option<UnixMillis>,
    /// The sessions of each epoch, in a set that keeps them. They outlast the close.
    stays: BTreeMap<Epoch, Stays>,
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        (&self.members, &self.held, &self.since, &self.entries, self.fence, &self.stays)
            == (&other.members, &other.held, &other.since, &other.entries, other.fence, &other.stays)
            && (self.counted(), self.doubt) == (other.counted(), other.doubt)
    }
}

impl Eq for Slice {}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.members, &self.held, &self.since, &self.entries, self.fence).hash(state);
        (self.counted(), self.doubt).hash(state);
    }
}

impl Slice {
    /// Changes what a gateway holds. A call that registers does nothing after `not_after`: its gateway may have
    /// registered, let go or died since.
    pub fn apply(&mut self, call: &Apply, not_after: UnixMillis, now: UnixMillis) -> ApplyReply {
        debug_assert!(call.joins.len() + call.leaves.len() <= MAX_BATCH);
        let begins = match self.fence {
            Some(fence) if fence.epoch() > call.epoch => return ApplyReply::Newer(fence.epoch()),
            Some(Fence::Closed(epoch)) if epoch == call.epoch => return ApplyReply::Closed,
            Some(Fence::Open(epoch)) if epoch == call.epoch => false,
            // No fence, or an older one: a call that registers begins the epoch with an empty slice.
            _ => true,
        };
        let entry = if begins { None } else { self.entries.get(&call.gateway).copied() };
        match (entry, call.follows) {
            (None, Some(_)) => return ApplyReply::Unknown,
            (Some(entry), follows) if follows != Some(entry) => return ApplyReply::Old,
            (None, None) if now > not_after => return ApplyReply::Late(now),
            _ => {}
        }
        if begins {
            self.wipe();
            self.fence = Some(Fence::Open(call.epoch));
        }
        self.compare_size(Some(call.known), now);
        let size = self.members.len();
        self.entries.insert(call.gateway.clone(), call.number);
        let version = self.move_on(now);
        self.note_since(&call.joins, &call.since);
        let came = self.join(&call.gateway, &call.joins);
        if call.uniques {
            self.users.extend(call.joins.iter().map(UserId::xxh3));
        }
        if call.keeps_sessions() {
            let stays = self.stays.entry(call.epoch).or_default();
            call.joins.iter().zip(&call.since).for_each(|(user, at)| stays.enter(user, version, *at));
        }
        let left: HashMap<&UserId, UnixMillis> = call.times_left().collect();
        let left = self.leave(&call.gateway, &call.leaves, |user| left.get(user).copied().unwrap_or(now));
        self.count_change(size, came, left);
        let held = self.held.get(&call.gateway).map_or(0, Members::len);
        ApplyReply::Done(SliceView { size: self.size(), held })
    }

    /// The size, as the calls have counted it.
    fn size(&self) -> SliceSize {
        let leaves = self.arrived.leaves;
        SliceSize { card: self.counted(), leaves, version: self.version, in_doubt: self.doubt.is_some() }
    }

    /// How many members the slice has by the count of the calls.
    fn counted(&self) -> u64 {
        self.arrived.joins - self.arrived.leaves
    }

    /// Begins a doubt if the slice has another size than was counted, or is older than the one `known` to a gateway.
    fn compare_size(&mut self, known: Option<SliceSize>, now: UnixMillis) {
        if let Some(known) = known.filter(|known| known.version > self.version) {
            self.doubt = Some(now + millis(DOUBT_AFTER_LOSS));
            // The next version is newer than every one that gateways know, even if the clock is behind.
            self.version = known.version;
            self.arrived = self.arrived.max(known.arrived());
        } else if self.counted() != self.members.len() {
            self.doubt = self.doubt.or(Some(0));
        }
        // The clock may have gone back since.
        let latest = now + millis(DOUBT_AFTER_LOSS);
        self.doubt = self.doubt.map(|not_before| not_before.min(latest));
    }

    /// Counts members who came to a slice of this size and who left it. While members are missing, those who come are
    /// taken for them: they were counted before.
    fn count_change(&mut self, size: u64, came: u64, left: u64) {
        let missing = self.counted().saturating_sub(size);
        self.arrived.joins += came.saturating_sub(missing);
        // Another program may have put somebody there who came to a gateway later, and was not counted.
        self.arrived.leaves = (self.arrived.leaves + left).min(self.arrived.joins);
    }

    fn is_open_in(&self, epoch: Epoch) -> bool {
        self.fence == Some(Fence::Open(epoch))
    }

    /// Compares the size with what was counted; see [`super::Slices::compare`].
    pub fn compare(&mut self, epoch: Epoch, known: SliceSize, now: UnixMillis) -> Option<Compared> {
        if !self.is_open_in(epoch) {
            return None;
        }
        let before = self.doubt;
        self.compare_size(Some(known), now);
        if self.doubt != before {
            self.move_on(now);
        }
        let wait = self.doubt.unwrap_or(0).saturating_sub(now);
        let began = before.is_none() && self.doubt.is_some();
        Some(Compared { size: self.size(), difference: self.difference(), wait, began })
    }

    fn difference(&self) -> i64 {
        self.members.len().wrapping_sub(self.counted()).cast_signed()
    }

    /// Puts those of a page of what a gateway holds back whom the slice lacks.
    pub fn put_back(&mut self, epoch: Epoch, gateway: &GatewayId, page: HeldFrom, now: UnixMillis) -> PutBackPage {
        let held = self.held.get(gateway).filter(|_| self.is_open_in(epoch));
        let MemberPage { users, next } = held.map_or_else(MemberPage::end, |held| held.page(page.cursor, page.most));
        let lacking: Vec<UserId> = users.iter().filter(|user| !self.members.contains(user)).cloned().collect();
        lacking.iter().for_each(|user| self.members.insert(user));
        if !lacking.is_empty() {
            self.compare_size(None, now);
            self.move_on(now);
        }
        PutBackPage { put_back: lacking.len() as u64, next, size: self.size() }
    }

    /// Ends the doubt about the slice; see [`super::Slices::settle`].
    pub fn settle(&mut self, epoch: Epoch, difference: i64, now: UnixMillis) -> Settled {
        if !self.is_open_in(epoch) {
            return Settled::Over;
        }
        let Some(not_before) = self.doubt else { return Settled::Settled(self.size()) };
        if now < not_before {
            return Settled::Early;
        }
        if self.difference() != difference {
            return Settled::Changed;
        }
        self.arrived.joins += difference.max(0).unsigned_abs();
        self.arrived.leaves += difference.min(0).unsigned_abs();
        self.doubt = None;
        self.move_on(now);
        Settled::Settled(self.size())
    }

    /// Reads the slice, as one gateway sees it.
    pub fn read(&self, gateway: &GatewayId) -> SliceReading {
        SliceReading {
            size: SliceSize { in_doubt: self.may_be_in_doubt(), ..self.size() },
            fence: self.fence,
            entry: self.entries.get(gateway).copied(),
            held: self.held.get(gateway).map_or(0, Members::len),
            timed: None,
            gateways: self.entries.keys().filter(|other| *other != gateway).cloned().collect(),
        }
    }

    /// What the slice holds for all gateways.
    pub fn survey(&self) -> SliceSurvey {
        let part = |(gateway, entry): (&GatewayId, &u64)| SlicePart {
            gateway: gateway.clone(),
            entry: *entry,
            held: self.held.get(gateway).map_or(0, Members::len),
        };
        SliceSurvey {
            fence: self.fence,
            card: self.members.len(),
            leaves: self.arrived.leaves,
            timed: None,
            may_be_in_doubt: self.may_be_in_doubt(),
            parts: self.entries.iter().map(part).collect(),
        }
    }

    /// Whether the slice is in doubt, or will be with the next call.
    fn may_be_in_doubt(&self) -> bool {
        self.doubt.is_some() || self.counted() != self.members.len()
    }

    /// The number of members.
    pub fn card(&self) -> u64 {
        self.members.len()
    }

    /// Takes out up to `most` members of a gateway that was buried; drops its entry when none is left. Their sessions
    /// end at `last_heard`.
    pub fn sweep(&mut self, gateway: &GatewayId, most: usize, last_heard: UnixMillis, now: UnixMillis) -> Swept {
        let taken = self.held.get_mut(gateway).map(|held| held.take(most)).unwrap_or_default();
        let size = self.members.len();
        if !taken.is_empty() {
            self.compare_size(None, now);
        }
        let left = self.drop_unheld(&taken, |_| last_heard);
        let done = self.held.get(gateway).is_none_or(Members::is_empty);
        if done {
            self.held.remove(gateway);
            self.entries.remove(gateway);
        }
        if !taken.is_empty() {
            self.count_change(size, 0, left);
            self.move_on(now);
        }
        Swept { released: taken.len() as u64, done, size: self.size() }
    }

    /// Closes the slice for an epoch and forgets all it held. Answers the totals of the epoch, zeros if the slice
    /// belongs to another one, and whether the fence moved.
    pub fn close(&mut self, epoch: Epoch) -> (SliceTotals, bool) {
        let closed = Some(Fence::Closed(epoch));
        if self.fence.is_some_and(|fence| fence.epoch() > epoch) {
            return (SliceTotals::default(), false);
        }
        let moves = self.fence != closed;
        if moves {
            let totals = SliceTotals { arrived: self.arrived, uniques: self.users.len() as u64 };
            let totals = if self.is_open_in(epoch) { totals } else { SliceTotals::default() };
            self.wipe();
            self.closed = totals;
            self.fence = closed;
        }
        (self.closed, moves)
    }

    /// To which epoch it belongs, if it was ever used.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// A page of what a gateway holds.
    pub fn held_page(&self, gateway: &GatewayId, cursor: u64) -> HeldPage {
        let MemberPage { users, next } =
            self.held.get(gateway).map_or_else(MemberPage::end, |held| held.page(cursor, MAX_BATCH));
        let missing = users.iter().filter(|user| !self.members.contains(user)).cloned().collect();
        HeldPage { users, missing, next }
    }

    /// Whether it has members whom none of these gateways holds, or lacks members whom one of them holds.
    pub fn differs_from_held(&self, gateways: &[GatewayId]) -> bool {
        let held: BTreeSet<&UserId> = gateways.iter().flat_map(|gateway| self.held(gateway)).collect();
        held != self.members().collect()
    }

    /// Looks through a page of about `most` members for those whom no gateway holds.
    pub fn strays(&mut self, cursor: u64, most: usize, strays: Strays, now: UnixMillis) -> StraysPage {
        let held = self.held.values().map(Members::len).sum();
        let MemberPage { users, next } = self.members.page(cursor, most);
        let is_held = |user: &UserId| self.held.values().any(|held| held.contains(user));
        let found: Vec<UserId> = users.iter().filter(|user| !is_held(user)).cloned().collect();
        if strays == Strays::Drop && !found.is_empty() {
            found.iter().for_each(|user| self.drop_member(user, now));
            self.compare_size(None, now);
            self.move_on(now);
        }
        StraysPage {
            strays: found.len() as u64,
            names: found.into_iter().take(MAX_NAMES).collect(),
            next,
            size: self.size(),
            card: self.members.len(),
            held,
        }
    }

    /// A page of the fans.
    pub fn fans_page(&self, cursor: u64) -> MemberPage {
        self.members.page(cursor, MAX_BATCH)
    }

    /// The members.
    pub fn members(&self) -> impl Iterator<Item = &UserId> {
        self.members.users()
    }

    /// Whom a gateway holds.
    pub fn held(&self, gateway: &GatewayId) -> impl Iterator<Item = &UserId> {
        self.held.get(gateway).into_iter().flat_map(Members::users)
    }

    /// Of how many members the slice says since when they are there.
    pub fn timed(&self) -> u64 {
        self.since.len() as u64
    }

    /// Since when a user is in the slice, if it keeps that.
    pub fn since(&self, user: &UserId) -> Option<UnixMillis> {
        self.since.get(user).copied()
    }

    /// Whether a user is in the slice.
    pub fn contains(&self, user: &UserId) -> bool {
        self.members.contains(user)
    }

    /// Another program adds a member. Only tests do this.
    pub fn add_stranger(&mut self, user: &UserId) {
        self.members.insert(user);
    }

    /// Another program removes a member. Only tests do this.
    pub fn take_out(&mut self, user: &UserId) {
        self.members.remove(user);
    }

    /// Loses the set but not the held sets, as if it was evicted or deleted. Only tests do this.
    pub fn lose_set(&mut self) {
        self.members = Members::default();
    }

    /// Answers how many of them were held by no gateway before.
    fn join(&mut self, gateway: &GatewayId, users: &[UserId]) -> u64 {
        if users.is_empty() {
            return 0;
        }
        let before = self.members.len();
        let held = self.held.entry(gateway.clone()).or_default();
        for user in users {
            held.insert(user);
            self.members.insert(user);
        }
        self.members.len() - before
    }

    /// Answers how many left the slice.
    fn leave(&mut self, gateway: &GatewayId, users: &[UserId], at: impl Fn(&UserId) -> UnixMillis) -> u64 {
        let Some(held) = self.held.get_mut(gateway) else {
            return self.drop_unheld(users, at);
        };
        for user in users {
            held.remove(user);
        }
        if held.is_empty() {
            self.held.remove(gateway);
        }
        self.drop_unheld(users, at)
    }

    /// Removes users from the union whom no gateway holds; `at` tells when each was here last. Answers how many were
    /// there. Empty held sets are not kept, so this looks only at gateways that hold somebody.
    fn drop_unheld(&mut self, users: &[UserId], at: impl Fn(&UserId) -> UnixMillis) -> u64 {
        let before = self.members.len();
        for user in users {
            if !self.held.values().any(|held| held.contains(user)) {
                self.drop_member(user, at(user));
            }
        }
        before - self.members.len()
    }

    fn drop_member(&mut self, user: &UserId, at: UnixMillis) {
        self.members.remove(user);
        self.since.remove(user);
        if let Some(stays) = self.fence.and_then(|fence| self.stays.get_mut(&fence.epoch())) {
            stays.leave(user, at);
        }
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

    /// Of a user who is in the slice already, the earlier time stays.
    fn note_since(&mut self, joins: &[UserId], since: &[UnixMillis]) {
        for (user, at) in joins.iter().zip(since) {
            let before = self.since.get(user).filter(|_| self.members.contains(user));
            let at = before.map_or(*at, |before| *before.min(at));
            self.since.insert(user.clone(), at);
        }
    }

    /// Moves to the next version after a change. Versions follow the store's clock, so that they keep growing after the
    /// slice's data was lost, and they grow even if the clock goes back.
    fn move_on(&mut self, now: UnixMillis) -> u64 {
        self.version = (self.version + 1).max(now * 1_000);
        self.version
    }

    fn wipe(&mut self) {
        self.members = Members::default();
        self.since.clear();
        self.held.clear();
        self.entries.clear();
        self.arrived = Arrived::default();
        self.users.clear();
        self.closed = SliceTotals::default();
        self.doubt = None;
    }
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

    fn users(&self) -> impl Iterator<Item = &UserId> {
        self.0.iter().filter_map(|(_, user)| user.as_ref())
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

    fn take(&mut self, most: usize) -> Vec<UserId> {
        std::iter::from_fn(|| self.0.pop_first()).take(most).filter_map(|(_, user)| user).collect()
    }

    /// About `most` members. The cursor is the first hash that is not on an earlier page; users of one hash share a
    /// page.
    fn page(&self, cursor: u64, most: usize) -> MemberPage {
        let mut users = Vec::new();
        let mut last = cursor;
        for (hash, user) in self.0.range((cursor, None)..) {
            if users.len() >= most && *hash != last {
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
    use crate::base::ids::{LiveId, SliceId};

    fn user(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    /// A slice in which gateway `g` holds `u1` and `u2`; then `stray` is put in and `u2` taken out, past every call.
    fn meddled_with() -> (Slice, GatewayId) {
        let gateway = GatewayId::parse("g").unwrap();
        let mut slice = Slice::default();
        let call = Apply {
            slice: SliceId::of_fans(LiveId::parse("42").unwrap(), 1, 1),
            epoch: Epoch(1),
            gateway: gateway.clone(),
            number: 1,
            follows: None,
            known: SliceSize::default(),
            joins: vec![user("u1"), user("u2")],
            since: Vec::new(),
            leaves: Vec::new(),
            left: None,
            uniques: false,
        };
        assert!(matches!(slice.apply(&call, 0, 0), ApplyReply::Done(_)));
        slice.members.insert(&user("stray"));
        slice.members.remove(&user("u2"));
        (slice, gateway)
    }

    #[test]
    fn strays_are_found_and_nobody_else_is_removed() {
        let (mut slice, _) = meddled_with();
        for strays in [Strays::Count, Strays::Drop] {
            let page = slice.strays(0, MAX_BATCH, strays, 5);
            assert_eq!((page.strays, page.names, page.held), (1, vec![user("stray")], 2));
        }
        assert!(slice.contains(&user("u1")) && !slice.contains(&user("stray")));
        assert_eq!(slice.strays(0, MAX_BATCH, Strays::Count, 5).strays, 0);
    }

    #[test]
    fn a_page_of_held_members_names_those_that_the_slice_lacks() {
        let (slice, gateway) = meddled_with();
        let page = slice.held_page(&gateway, 0);
        assert_eq!((page.users.len(), page.missing), (2, vec![user("u2")]));
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_doubt_longer() {
        let (mut slice, _) = meddled_with();
        let known = SliceSize { version: u64::MAX / 2, ..slice.size() };
        let longest = millis(DOUBT_AFTER_LOSS);
        let wait = |slice: &mut Slice, known, now| slice.compare(Epoch(1), known, now).map(|compared| compared.wait);
        assert_eq!(wait(&mut slice, known, 1_000_000), Some(longest));
        assert_eq!(wait(&mut slice, SliceSize::default(), 1_000), Some(longest));
        assert_eq!(wait(&mut slice, SliceSize::default(), 2_000), Some(longest - 1_000));
    }

    #[test]
    fn versions_go_on_when_the_clock_is_put_back_and_when_data_is_lost() {
        let (mut slice, gateway) = meddled_with();
        let swept = |slice: &mut Slice, now| slice.sweep(&gateway, 1, now, now).size.version;
        let first = swept(&mut slice, 1_000);
        assert_eq!(swept(&mut slice, 500), first + 1);
        let (mut anew, _) = meddled_with();
        assert!(swept(&mut anew, 1_001) > first);
    }
}
