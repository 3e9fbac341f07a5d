//! The slice protocol as pure code: what one slice holds, and how each call changes it. The code
//! does no I/O and has no clock and no lock: the caller passes the time and gets an answer of
//! [`crate::store`]. The memory store keeps one [`Slice`] per slice, and the scripts of the Redis
//! store must give the same answers.
//!
//! A slice does not know which slices a live has, whether the live is open, or which gateways live:
//! the caller of [`Slice::sweep`] must know that the gateway was buried.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use super::limits::MAX_BATCH;
use super::online_users::Whereabouts;
use super::sessions::Stays;
use super::slices::{
    Apply, ApplyReply, Compared, DOUBT_AFTER_LOSS, Fence, HeldFrom, HeldPage, MemberPage,
    PutBackPage, Settled, SlicePart, SliceReading, SliceSize, SliceSurvey, SliceTotals, SliceView,
    Strays, StraysPage, Surplus, Swept,
};
use super::sums::{Arrived, Uniques};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, Group, LiveId, OnlineSet, UserId};

/// Maximum strays that one answer names.
const MAX_NAMES: usize = 10;

/// One slice. The default is a slice that no call has used yet, or whose data was lost.
///
/// Two slices are equal if they give the same answers from now on, except for versions and for how
/// many users came and left. A model checker uses this to tell states apart.
#[derive(Debug, Clone, Default)]
pub struct Slice {
    members: GroupSet,
    fans: GroupSet,
    /// When each member of a live came.
    since: BTreeMap<UserId, UnixMillis>,
    /// In the set of the users of the platform: the lives in which each member is.
    lives: BTreeMap<UserId, Whereabouts>,
    /// The number of each gateway's last applied call.
    entries: BTreeMap<GatewayId, u64>,
    fence: Option<Fence>,
    version: u64,
    /// How often a user came to their first gateway, and how often one left their last.
    arrived: Arrived,
    /// How many fans the calls have counted.
    counted_fans: u64,
    /// The hashes of the different users who came, and of the fans among them.
    users: HashSet<u64>,
    different_fans: HashSet<u64>,
    /// The totals of the epoch, if it is closed.
    closed: SliceTotals,
    /// When the doubt about the slice may end; `None` if it is in no doubt.
    doubt: Option<UnixMillis>,
    /// The sessions of each epoch, if the set keeps sessions. They outlast the close.
    stays: BTreeMap<Epoch, Stays>,
}

/// A number of members, and how many fans.
#[derive(Debug, Clone, Copy, Default)]
struct Moved {
    members: u64,
    fans: u64,
}

impl PartialEq for Slice {
    fn eq(&self, other: &Self) -> bool {
        self.members == other.members
            && self.fans == other.fans
            && self.entries == other.entries
            && self.fence == other.fence
            && self.stays == other.stays
            && self.since == other.since
            && self.lives == other.lives
            && self.counted() == other.counted()
            && self.counted_fans == other.counted_fans
            && self.doubt == other.doubt
    }
}

impl Eq for Slice {}

impl Hash for Slice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.members.hash(state);
        self.fans.hash(state);
        self.since.hash(state);
        self.lives.hash(state);
        self.entries.hash(state);
        self.fence.hash(state);
        self.counted().hash(state);
        self.counted_fans.hash(state);
        self.doubt.hash(state);
    }
}

impl Slice {
    /// Changes what a gateway holds. A call that registers does nothing after `not_after`: its
    /// gateway may have registered, let go or died since.
    pub fn apply(&mut self, call: &Apply, not_after: UnixMillis, now: UnixMillis) -> ApplyReply {
        debug_assert!(call.joins.len() + call.fans.len() + call.leaves.len() <= MAX_BATCH);
        let begins = match self.fence {
            Some(fence) if fence.epoch() > call.epoch => return ApplyReply::Newer(fence.epoch()),
            Some(Fence::Closed(epoch)) if epoch == call.epoch => return ApplyReply::Closed,
            Some(Fence::Open(epoch)) if epoch == call.epoch => false,
            // No fence, or an older one: a call that registers begins the epoch with an empty
            // slice.
            _ => true,
        };
        let entry = if begins {
            None
        } else {
            self.entries.get(&call.gateway).copied()
        };
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
        self.compare_sizes(Some(call.known), now);
        let before = self.there();
        self.entries.insert(call.gateway.clone(), call.number);
        let version = self.move_on(now);
        let present: Vec<UserId> = call.present().cloned().collect();
        self.note_since(&present, &call.since);
        self.note_lives(&call.gateway, &call.joins, &call.lives);
        let came = Moved {
            members: self.members.join(&call.gateway, &present),
            fans: self.fans.join(&call.gateway, &call.fans),
        };
        if call.uniques {
            self.users.extend(present.iter().map(UserId::xxh3));
            self.different_fans
                .extend(call.fans.iter().map(UserId::xxh3));
        }
        if call.keeps_sessions() {
            let stays = self.stays.entry(call.epoch).or_default();
            for (user, at) in present.iter().zip(&call.since) {
                stays.enter(user, version, *at);
            }
        }
        let no_fans: Vec<UserId> = call.joins.iter().chain(&call.leaves).cloned().collect();
        let last_here: HashMap<&UserId, UnixMillis> = call.times_left().collect();
        let left = Moved {
            fans: self.drop_fans(&call.gateway, &no_fans),
            members: self.leave(&call.gateway, &call.leaves, |user| {
                last_here.get(user).copied().unwrap_or(now)
            }),
        };
        self.count_change(before, came, left);
        ApplyReply::Done(SliceView {
            size: self.size(),
            held: self.members.held_by(&call.gateway),
            held_fans: self.fans.held_by(&call.gateway),
            noted: self.noted(&call.slice.set),
        })
    }

    fn group(&self, group: Group) -> &GroupSet {
        match group {
            Group::All => &self.members,
            Group::Fans => &self.fans,
        }
    }

    /// How many members and fans are in the sets, whatever the calls have counted.
    fn there(&self) -> Moved {
        Moved {
            members: self.members.users.len(),
            fans: self.fans.users.len(),
        }
    }

    /// The size, as the calls have counted it.
    fn size(&self) -> SliceSize {
        SliceSize {
            card: self.counted(),
            fans: self.counted_fans,
            leaves: self.arrived.leaves,
            version: self.version,
            in_doubt: self.doubt.is_some(),
        }
    }

    /// How many members the slice has by the count of the calls.
    fn counted(&self) -> u64 {
        self.arrived.joins - self.arrived.leaves
    }

    /// Whether the slice has as many members and fans as the calls have counted.
    fn has_counted_sizes(&self) -> bool {
        let there = self.there();
        there.members == self.counted() && there.fans == self.counted_fans
    }

    /// Begins a doubt if the slice has other sizes than were counted, or is older than the one
    /// `known` to a gateway.
    fn compare_sizes(&mut self, known: Option<SliceSize>, now: UnixMillis) {
        if let Some(known) = known.filter(|known| known.version > self.version) {
            self.doubt = Some(now + millis(DOUBT_AFTER_LOSS));
            // The next version is newer than every version that gateways know, even if the clock
            // is behind.
            self.version = known.version;
            self.arrived = self.arrived.max(known.arrived());
            self.counted_fans = known.fans;
        } else if !self.has_counted_sizes() {
            self.doubt = self.doubt.or(Some(0));
        }
        // The clock may have gone back since.
        let latest = now + millis(DOUBT_AFTER_LOSS);
        self.doubt = self.doubt.map(|not_before| not_before.min(latest));
    }

    /// Counts members who came to a slice that had the size `before`, and members who left it.
    /// While members are missing, the calls take new members for the missing ones, which were
    /// counted before. The same goes for fans.
    fn count_change(&mut self, before: Moved, came: Moved, left: Moved) {
        let missing = self.counted().saturating_sub(before.members);
        let missing_fans = self.counted_fans.saturating_sub(before.fans);
        self.arrived.joins += came.members.saturating_sub(missing);
        // Another program may have added a user who came to a gateway later: no call counted that
        // user as a join.
        self.arrived.leaves = (self.arrived.leaves + left.members).min(self.arrived.joins);
        let fans = self.counted_fans + came.fans.saturating_sub(missing_fans);
        self.counted_fans = fans.saturating_sub(left.fans);
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
        self.compare_sizes(Some(known), now);
        if self.doubt != before {
            self.move_on(now);
        }
        let wait = self.doubt.unwrap_or(0).saturating_sub(now);
        let began = before.is_none() && self.doubt.is_some();
        Some(Compared {
            size: self.size(),
            surplus: self.surplus(),
            wait,
            began,
        })
    }

    fn surplus(&self) -> Surplus {
        let there = self.there();
        Surplus {
            members: there.members.wrapping_sub(self.counted()).cast_signed(),
            fans: there.fans.wrapping_sub(self.counted_fans).cast_signed(),
        }
    }

    /// Looks through a page of what a gateway holds, and puts back the users whom the slice lacks.
    pub fn put_back(
        &mut self,
        epoch: Epoch,
        gateway: &GatewayId,
        page: HeldFrom,
        now: UnixMillis,
    ) -> PutBackPage {
        let is_open = self.is_open_in(epoch);
        let set = match page.group {
            Group::All => &mut self.members,
            Group::Fans => &mut self.fans,
        };
        let MemberPage { users, next } = if is_open {
            set.held_page(gateway, page.cursor, page.most)
        } else {
            MemberPage::end()
        };
        let lacking: Vec<UserId> = users
            .iter()
            .filter(|user| !set.users.contains(user))
            .cloned()
            .collect();
        for user in &lacking {
            set.users.insert(user);
        }
        if !lacking.is_empty() {
            self.compare_sizes(None, now);
            self.move_on(now);
        }
        PutBackPage {
            put_back: lacking.len() as u64,
            next,
            size: self.size(),
        }
    }

    /// Ends the doubt about the slice; see [`super::Slices::settle`].
    pub fn settle(&mut self, epoch: Epoch, surplus: Surplus, now: UnixMillis) -> Settled {
        if !self.is_open_in(epoch) {
            return Settled::Over;
        }
        let Some(not_before) = self.doubt else {
            return Settled::Settled(self.size());
        };
        if now < not_before {
            return Settled::Early;
        }
        if self.surplus() != surplus {
            return Settled::Changed;
        }
        self.arrived.joins += surplus.members.max(0).unsigned_abs();
        self.arrived.leaves += surplus.members.min(0).unsigned_abs();
        self.counted_fans = self.fans.users.len();
        self.doubt = None;
        self.move_on(now);
        Settled::Settled(self.size())
    }

    /// Reads the slice, as one gateway sees it.
    pub fn read(&self, gateway: &GatewayId) -> SliceReading {
        SliceReading {
            size: SliceSize {
                in_doubt: self.may_be_in_doubt(),
                ..self.size()
            },
            fence: self.fence,
            entry: self.entries.get(gateway).copied(),
            held: self.members.held_by(gateway),
            held_fans: self.fans.held_by(gateway),
            noted: None,
            gateways: self
                .entries
                .keys()
                .filter(|other| *other != gateway)
                .cloned()
                .collect(),
        }
    }

    /// Reads what the slice holds for all gateways.
    pub fn survey(&self) -> SliceSurvey {
        let mut parts = Vec::with_capacity(self.entries.len());
        for (gateway, entry) in &self.entries {
            parts.push(SlicePart {
                gateway: gateway.clone(),
                entry: *entry,
                held: self.members.held_by(gateway),
                held_fans: self.fans.held_by(gateway),
            });
        }
        SliceSurvey {
            fence: self.fence,
            card: self.members.users.len(),
            fans: self.fans.users.len(),
            leaves: self.arrived.leaves,
            noted: None,
            may_be_in_doubt: self.may_be_in_doubt(),
            parts,
        }
    }

    /// Whether the slice is in doubt, or will be with the next call.
    fn may_be_in_doubt(&self) -> bool {
        self.doubt.is_some() || !self.has_counted_sizes()
    }

    /// The number of users of a group.
    pub fn card(&self, group: Group) -> u64 {
        self.group(group).users.len()
    }

    /// Takes out up to `most` members of a gateway that was buried; drops its entry when none is
    /// left. Their sessions end at `last_heard`.
    pub fn sweep(
        &mut self,
        gateway: &GatewayId,
        most: usize,
        last_heard: UnixMillis,
        now: UnixMillis,
    ) -> Swept {
        let taken = match self.members.held.get_mut(gateway) {
            Some(held) => held.take(most),
            None => Vec::new(),
        };
        let before = self.there();
        if !taken.is_empty() {
            self.compare_sizes(None, now);
        }
        self.drop_words(&taken);
        let left = Moved {
            fans: self.drop_fans(gateway, &taken),
            members: self.drop_unheld(&taken, |_| last_heard),
        };
        let done = self.members.held_by(gateway) == 0;
        if done {
            self.members.held.remove(gateway);
            self.fans.held.remove(gateway);
            self.entries.remove(gateway);
        }
        if !taken.is_empty() {
            self.count_change(before, Moved::default(), left);
            self.move_on(now);
        }
        Swept {
            released: taken.len() as u64,
            done,
            size: self.size(),
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
                arrived: self.arrived,
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

    /// The epoch to which the slice belongs, if it was ever used.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// A page of the users of a group whom a gateway holds.
    pub fn held_page(&self, group: Group, gateway: &GatewayId, cursor: u64) -> HeldPage {
        let set = self.group(group);
        let MemberPage { users, next } = set.held_page(gateway, cursor, MAX_BATCH);
        let mut missing = Vec::new();
        let mut lives = Vec::new();
        for user in &users {
            if !set.users.contains(user) || self.has_foreign_word(set, user) {
                missing.push(user.clone());
            }
            if let Some(words) = self.lives.get(user) {
                let said_here: Vec<LiveId> = words
                    .iter()
                    .filter(|(from, _)| from == gateway)
                    .map(|(_, live)| live.clone())
                    .collect();
                lives.push((user.clone(), said_here));
            }
        }
        HeldPage {
            users,
            missing,
            lives,
            next,
        }
    }

    /// Whether the slice has a note on a live of the user from a gateway that does not hold the user
    /// in `set`.
    fn has_foreign_word(&self, set: &GroupSet, user: &UserId) -> bool {
        match self.lives.get(user) {
            Some(words) => words.iter().any(|(from, _)| !set.is_held_by(from, user)),
            None => false,
        }
    }

    /// Whether the slice has members or fans whom none of these gateways holds, or lacks some whom
    /// one of them holds.
    pub fn differs_from_held(&self, gateways: &[GatewayId]) -> bool {
        self.members.differs_from_held(gateways) || self.fans.differs_from_held(gateways)
    }

    /// Looks through a page of about `most` users of a group for strays, whom no gateway holds.
    pub fn strays(
        &mut self,
        group: Group,
        cursor: u64,
        most: usize,
        strays: Strays,
        now: UnixMillis,
    ) -> StraysPage {
        let set = self.group(group);
        let held = set.held.values().map(Members::len).sum();
        let MemberPage { users, next } = set.users.page(cursor, most);
        let found: Vec<UserId> = users
            .into_iter()
            .filter(|user| !set.is_held(user))
            .collect();
        if strays == Strays::Drop && !found.is_empty() {
            for user in &found {
                match group {
                    Group::All => self.drop_member(user, now),
                    Group::Fans => self.fans.users.remove(user),
                }
            }
            self.compare_sizes(None, now);
            self.move_on(now);
        }
        StraysPage {
            strays: found.len() as u64,
            names: found.into_iter().take(MAX_NAMES).collect(),
            next,
            size: self.size(),
            card: self.card(group),
            held,
        }
    }

    /// A page of a group.
    pub fn members_page(&self, group: Group, cursor: u64) -> MemberPage {
        self.group(group).users.page(cursor, MAX_BATCH)
    }

    /// The users of a group.
    pub fn members(&self, group: Group) -> impl Iterator<Item = &UserId> {
        self.group(group).users.users()
    }

    /// The users of a group whom a gateway holds.
    pub fn held(&self, group: Group, gateway: &GatewayId) -> impl Iterator<Item = &UserId> {
        self.group(group)
            .held
            .get(gateway)
            .into_iter()
            .flat_map(Members::users)
    }

    /// How many members have notes in the slice, which belongs to `set`; `None` if such a set keeps
    /// no notes.
    pub fn noted(&self, set: &OnlineSet) -> Option<u64> {
        match set {
            OnlineSet::Live(_) => Some(self.since.len() as u64),
            OnlineSet::Users => Some(self.lives.len() as u64),
            OnlineSet::Streamers => None,
        }
    }

    /// The lives in which each user of the platform is, by the word of the gateways.
    pub fn whereabouts(&self) -> impl Iterator<Item = (&UserId, &Whereabouts)> {
        self.lives.iter()
    }

    /// The lives in which a user of the platform is, by the word of the gateways.
    pub fn whereabouts_of(&self, user: &UserId) -> Whereabouts {
        self.lives.get(user).cloned().unwrap_or_default()
    }

    /// When a user came to the slice, if the slice keeps that.
    pub fn since(&self, user: &UserId) -> Option<UnixMillis> {
        self.since.get(user).copied()
    }

    /// Whether a user is in a group of the slice.
    pub fn contains(&self, group: Group, user: &UserId) -> bool {
        self.group(group).users.contains(user)
    }

    /// Another program adds a user to a group. Only tests do this.
    pub fn add_stranger(&mut self, group: Group, user: &UserId) {
        self.group_mut(group).users.insert(user);
    }

    /// Another program removes a user from a group. Only tests do this.
    pub fn take_out(&mut self, group: Group, user: &UserId) {
        self.group_mut(group).users.remove(user);
    }

    /// Loses the set of a group but not the held sets, as if the set was evicted or deleted. Only
    /// tests do this.
    pub fn lose_set(&mut self, group: Group) {
        self.group_mut(group).users = Members::default();
    }

    fn group_mut(&mut self, group: Group) -> &mut GroupSet {
        match group {
            Group::All => &mut self.members,
            Group::Fans => &mut self.fans,
        }
    }

    /// Takes users out whom a gateway holds no longer. Returns how many left the slice.
    fn leave(
        &mut self,
        gateway: &GatewayId,
        users: &[UserId],
        at: impl Fn(&UserId) -> UnixMillis,
    ) -> u64 {
        self.members.let_go(gateway, users);
        self.drop_words(users);
        self.drop_unheld(users, at)
    }

    /// Takes users out of the fans whom a gateway holds, and out of the fans of the slice if no
    /// other gateway says that they are fans. Returns how many fans the slice lost.
    fn drop_fans(&mut self, gateway: &GatewayId, users: &[UserId]) -> u64 {
        let gone = self.fans.let_go(gateway, users);
        let before = self.fans.users.len();
        for user in &gone {
            if !self.fans.is_held(user) {
                self.fans.users.remove(user);
            }
        }
        before - self.fans.users.len()
    }

    /// Removes the users from the members whom no gateway holds; `at` tells when each was
    /// here last. Returns how many members the slice lost.
    fn drop_unheld(&mut self, users: &[UserId], at: impl Fn(&UserId) -> UnixMillis) -> u64 {
        let before = self.members.users.len();
        for user in users {
            if !self.members.is_held(user) {
                self.drop_member(user, at(user));
            }
        }
        before - self.members.users.len()
    }

    fn drop_member(&mut self, user: &UserId, at: UnixMillis) {
        self.members.users.remove(user);
        self.since.remove(user);
        self.lives.remove(user);
        if let Some(fence) = self.fence
            && let Some(stays) = self.stays.get_mut(&fence.epoch())
        {
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

    /// Forgets a user's sessions in all epochs. Answers how many there were.
    pub fn erase_stays(&mut self, user: &UserId) -> u64 {
        self.stays.values_mut().map(|stays| stays.erase(user)).sum()
    }

    /// Notes when users came. If a user is in the slice already, the earlier time stays.
    fn note_since(&mut self, joins: &[UserId], since: &[UnixMillis]) {
        for (user, at) in joins.iter().zip(since) {
            let mut earliest = *at;
            if let Some(before) = self.since.get(user)
                && self.members.users.contains(user)
            {
                earliest = earliest.min(*before);
            }
            self.since.insert(user.clone(), earliest);
        }
    }

    /// Notes the lives in which users are on a gateway. The gateway's words about a user come after
    /// those of other gateways. Words of gateways that do not hold the user are dropped.
    fn note_lives(&mut self, gateway: &GatewayId, joins: &[UserId], lives: &[Vec<LiveId>]) {
        for (user, lives) in joins.iter().zip(lives) {
            let words = self.lives.entry(user.clone()).or_default();
            words.retain(|(from, _)| from != gateway && self.members.is_held_by(from, user));
            words.extend(lives.iter().map(|live| (gateway.clone(), live.clone())));
        }
    }

    /// Drops the words about users, and the lives in which they are, of gateways that hold them no
    /// longer.
    fn drop_words(&mut self, users: &[UserId]) {
        for user in users {
            if let Some(words) = self.lives.get_mut(user) {
                words.retain(|(from, _)| self.members.is_held_by(from, user));
            }
        }
    }

    /// Moves to the next version after a change. Versions follow the store's clock, so that they
    /// keep growing after the slice's data was lost, and they grow even if the clock goes back.
    fn move_on(&mut self, now: UnixMillis) -> u64 {
        self.version = (self.version + 1).max(now * 1_000);
        self.version
    }

    fn wipe(&mut self) {
        self.members = GroupSet::default();
        self.fans = GroupSet::default();
        self.since.clear();
        self.lives.clear();
        self.entries.clear();
        self.arrived = Arrived::default();
        self.counted_fans = 0;
        self.users.clear();
        self.different_fans.clear();
        self.closed = SliceTotals::default();
        self.doubt = None;
    }
}

/// The users of a group: all of them, and the held set of each gateway. There are no empty held
/// sets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct GroupSet {
    users: Members,
    held: BTreeMap<GatewayId, Members>,
}

impl GroupSet {
    /// A gateway holds these users. Returns how many were not in the set before.
    fn join(&mut self, gateway: &GatewayId, users: &[UserId]) -> u64 {
        if users.is_empty() {
            return 0;
        }
        let before = self.users.len();
        let held = self.held.entry(gateway.clone()).or_default();
        for user in users {
            held.insert(user);
            self.users.insert(user);
        }
        self.users.len() - before
    }

    /// A gateway holds these users no longer. Returns the users among them whom it held.
    fn let_go(&mut self, gateway: &GatewayId, users: &[UserId]) -> Vec<UserId> {
        let Some(held) = self.held.get_mut(gateway) else {
            return Vec::new();
        };
        let gone: Vec<UserId> = users
            .iter()
            .filter(|user| held.contains(user))
            .cloned()
            .collect();
        for user in &gone {
            held.remove(user);
        }
        if held.is_empty() {
            self.held.remove(gateway);
        }
        gone
    }

    fn is_held(&self, user: &UserId) -> bool {
        self.held.values().any(|held| held.contains(user))
    }

    fn is_held_by(&self, gateway: &GatewayId, user: &UserId) -> bool {
        self.held
            .get(gateway)
            .is_some_and(|held| held.contains(user))
    }

    fn held_by(&self, gateway: &GatewayId) -> u64 {
        self.held.get(gateway).map_or(0, Members::len)
    }

    /// A page of the users whom a gateway holds.
    fn held_page(&self, gateway: &GatewayId, cursor: u64, most: usize) -> MemberPage {
        match self.held.get(gateway) {
            Some(held) => held.page(cursor, most),
            None => MemberPage::end(),
        }
    }

    fn differs_from_held(&self, gateways: &[GatewayId]) -> bool {
        let mut held: BTreeSet<&UserId> = BTreeSet::new();
        for gateway in gateways {
            if let Some(members) = self.held.get(gateway) {
                held.extend(members.users());
            }
        }
        held != self.users.users().collect()
    }
}

/// A set of users in the order of a hash, so that a page can go on where the last one ended,
/// whatever came and went in between: a user who is in the set all along is in exactly one page.
/// Every entry names a user. `None` only says where a page begins, because it comes before every
/// user of the same hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Members(BTreeSet<(u64, Option<UserId>)>);

impl Members {
    fn key(user: &UserId) -> (u64, Option<UserId>) {
        (
            xxhash_rust::xxh3::xxh3_64(user.as_str().as_bytes()),
            Some(user.clone()),
        )
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
        let mut taken = Vec::new();
        for _ in 0..most {
            let Some((_, user)) = self.0.pop_first() else {
                break;
            };
            taken.extend(user);
        }
        taken
    }

    /// About `most` members. The cursor is the first hash that is not on an earlier page; users of
    /// one hash share a page.
    fn page(&self, cursor: u64, most: usize) -> MemberPage {
        let mut users = Vec::new();
        let mut last = cursor;
        for (hash, user) in self.0.range((cursor, None)..) {
            if users.len() >= most && *hash != last {
                return MemberPage {
                    users,
                    next: Some(*hash),
                };
            }
            last = *hash;
            users.extend(user.clone());
        }
        MemberPage { users, next: None }
    }
}

impl MemberPage {
    /// The page of a set that does not exist.
    fn end() -> Self {
        Self {
            users: Vec::new(),
            next: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{LiveId, SliceId};

    fn user(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    /// A slice in which gateway `g` holds `u1` and `u2`; then `stray` is put in and `u2` taken out,
    /// past every call.
    fn meddled_with() -> (Slice, GatewayId) {
        let gateway = GatewayId::parse("g").unwrap();
        let mut slice = Slice::default();
        let call = Apply {
            slice: SliceId::of_live(LiveId::parse("42").unwrap(), 1, 1),
            epoch: Epoch(1),
            gateway: gateway.clone(),
            number: 1,
            follows: None,
            known: SliceSize::default(),
            joins: vec![user("u1"), user("u2")],
            fans: Vec::new(),
            since: Vec::new(),
            lives: Vec::new(),
            leaves: Vec::new(),
            left: None,
            uniques: false,
        };
        assert!(matches!(slice.apply(&call, 0, 0), ApplyReply::Done(_)));
        slice.add_stranger(Group::All, &user("stray"));
        slice.take_out(Group::All, &user("u2"));
        (slice, gateway)
    }

    #[test]
    fn strays_are_found_and_nobody_else_is_removed() {
        let (mut slice, _) = meddled_with();
        for strays in [Strays::Count, Strays::Drop] {
            let page = slice.strays(Group::All, 0, MAX_BATCH, strays, 5);
            assert_eq!(
                (page.strays, page.names, page.held),
                (1, vec![user("stray")], 2)
            );
        }
        assert!(
            slice.contains(Group::All, &user("u1")) && !slice.contains(Group::All, &user("stray"))
        );
        assert_eq!(
            slice
                .strays(Group::All, 0, MAX_BATCH, Strays::Count, 5)
                .strays,
            0
        );
    }

    #[test]
    fn a_page_of_held_members_names_those_that_the_slice_lacks() {
        let (slice, gateway) = meddled_with();
        let page = slice.held_page(Group::All, &gateway, 0);
        assert_eq!((page.users.len(), page.missing), (2, vec![user("u2")]));
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_doubt_longer() {
        let (mut slice, _) = meddled_with();
        let known = SliceSize {
            version: u64::MAX / 2,
            ..slice.size()
        };
        let longest = millis(DOUBT_AFTER_LOSS);
        let wait = |slice: &mut Slice, known, now| {
            slice
                .compare(Epoch(1), known, now)
                .map(|compared| compared.wait)
        };
        assert_eq!(wait(&mut slice, known, 1_000_000), Some(longest));
        assert_eq!(wait(&mut slice, SliceSize::default(), 1_000), Some(longest));
        assert_eq!(
            wait(&mut slice, SliceSize::default(), 2_000),
            Some(longest - 1_000)
        );
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
