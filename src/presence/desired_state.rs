//! The content that this gateway wants one slice of the store to have, and the content that the
//! slice has as far as the gateway knows. The flusher asks for the next call and hands back the
//! answer. Pure: no clock, no I/O.
//!
//! State is level-triggered. The gateway repairs a failed call from the present state, never from a
//! queue. A user is *unsettled* while the store may hold the user otherwise than wanted. One call
//! is in flight at a time; a call without an answer leaves its users *unsure*.
//!
//! Calls form a chain: each names the number of the call that it follows, so the store ignores a
//! call that arrives late or twice. When the chain breaks, the flusher reads back the content of
//! the store and then makes one more call even if nothing differs: its number makes the store
//! refuse every earlier call that may still arrive.
//!
//! Memory is bounded by the users who are wanted now, those of one call that had no answer, and the
//! users who left after the store had added them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use crate::base::ids::UserId;
use crate::store::{ApplyReply, HeldMembers};

/// The standing of a user in a slice for this gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standing {
    /// The user is not there.
    Gone,
    /// The user is there, and no fan as far as the gateway knows.
    Member,
    /// The user is there, and a fan.
    Fan,
}

/// The standing of an unsettled user in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum InStore {
    Known(Standing),
    /// The gateway must send this user again: a call about the user had no answer, or the store's
    /// note on the user is out of date. Holds the last known standing.
    Unsure(Standing),
    /// The answer to the call in flight decides. Holds the standing before the call.
    InFlight(Standing),
}

impl InStore {
    /// The last known standing.
    fn before(self) -> Standing {
        match self {
            Self::Known(standing) | Self::Unsure(standing) | Self::InFlight(standing) => standing,
        }
    }

    fn is_unsure(self) -> bool {
        matches!(self, Self::Unsure(_))
    }
}

/// The state of this gateway's entry in the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Entry {
    /// There is no entry; the next call creates it.
    #[default]
    None,
    /// The call that creates the entry has no answer yet, or had none.
    Unconfirmed,
    /// The entry has this number.
    At(u64),
    /// The entry, or the content of the slice, is not as this gateway thought: the flusher must
    /// read it back before the next call.
    MustReadBack,
    /// The entry existed and is gone: this gateway was buried, or the store lost its data. The
    /// flusher makes no call until the live's record says that the live is still open.
    Lost,
}

/// The most users that one call may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallLimit {
    /// All users of the call, at most [`crate::store::MAX_BATCH`].
    pub users: usize,
    /// The users among them who leave or are no longer fans: for each of these the store must look
    /// at every gateway of the slice.
    pub leaves: usize,
}

#[cfg(test)]
impl CallLimit {
    pub(crate) const WHOLE_BATCH: Self = Self {
        users: crate::store::MAX_BATCH,
        leaves: crate::store::MAX_BATCH,
    };
}

/// The next call to make.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Draft {
    /// The number of the call; it grows from call to call.
    pub number: u64,
    /// The number of the entry that the call follows; `None` if the call creates the entry.
    pub follows: Option<u64>,
    /// Users who are there and no fans.
    pub joins: Vec<UserId>,
    /// Users who are there and fans.
    pub fans: Vec<UserId>,
    /// Users to remove.
    pub leaves: Vec<UserId>,
    /// The users among `joins` and `leaves` whom the store held as fans.
    pub former_fans: Vec<UserId>,
}

impl Draft {
    /// The number of users that the call changes.
    pub fn len(&self) -> usize {
        self.joins.len() + self.fans.len() + self.leaves.len()
    }

    /// Whether the call changes no user.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All users that the call names, each with the standing that the call gives the user.
    fn users(&self) -> impl Iterator<Item = (&UserId, Standing)> {
        let joins = self.joins.iter().map(|user| (user, Standing::Member));
        let fans = self.fans.iter().map(|user| (user, Standing::Fan));
        let leaves = self.leaves.iter().map(|user| (user, Standing::Gone));
        joins.chain(fans).chain(leaves)
    }
}

/// The meaning of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The store holds what the call asked for.
    Settled,
    /// The store holds an unexpected number of users or fans, or the entry has an unexpected
    /// number. The flusher must read back the content of the store and call
    /// [`DesiredState::reconcile`].
    Mismatch,
    /// The entry is gone. The flusher must make sure that the live is open, then call
    /// [`DesiredState::reassert`].
    Lost,
    /// The epoch is over.
    Over,
}

/// The number of users whom the store held wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Difference {
    /// Wanted users whom the store lacked, or wanted fans who were no fans there.
    pub missing: usize,
    /// Users whom the store held, or held as fans, although they are not wanted so.
    pub extra: usize,
}

impl Difference {
    pub(crate) fn total(self) -> usize {
        self.missing + self.extra
    }
}

/// The content of the store for this gateway if every call had an answer and took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The number of users.
    pub members: u64,
    /// The number of fans among them.
    pub fans: u64,
    /// The number of the last call.
    pub number: u64,
}

/// The content that this gateway wants one slice of the store to have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DesiredState {
    wanted: HashSet<UserId>,
    /// The fans among the wanted users.
    fans: HashSet<UserId>,
    unsettled: HashMap<UserId, InStore>,
    entry: Entry,
    number: u64,
    in_flight: bool,
    /// One more call is due even if no user is unsettled. Its number makes the store refuse earlier
    /// calls that may still arrive, and its answer tells whether the chain holds.
    call_required: bool,
}

/// Only the model check hashes desired states. The sets stay unordered because every join looks
/// users up in them, so this sorts them.
impl Hash for DesiredState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        BTreeSet::from_iter(&self.wanted).hash(state);
        BTreeSet::from_iter(&self.fans).hash(state);
        BTreeMap::from_iter(&self.unsettled).hash(state);
        (self.entry, self.number, self.in_flight, self.call_required).hash(state);
    }
}

impl DesiredState {
    /// A state whose first call has the number after `number`. That number must be higher than the
    /// numbers of any earlier state of this gateway for the same slice and epoch, because one of
    /// its calls may still arrive.
    pub fn numbered_from(number: u64) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// Notes an entry of this gateway that an earlier room left in the slice. The caller found it
    /// before this state made its first call.
    pub fn found_entry(&mut self, number: u64, held: u64) {
        if self.entry == Entry::None {
            // The flusher must read back the users that the earlier room left there.
            self.entry = if held == 0 {
                Entry::At(number)
            } else {
                Entry::MustReadBack
            };
            self.number = self.number.max(number);
        }
    }

    /// Wants the store to hold a user with this standing. True if another standing was wanted
    /// before.
    pub fn want(&mut self, user: &UserId, standing: Standing) -> bool {
        let before = self.standing(user);
        if before == standing {
            return false;
        }
        match standing {
            Standing::Gone => {
                self.wanted.remove(user);
                self.fans.remove(user);
            }
            Standing::Member => {
                self.wanted.insert(user.clone());
                self.fans.remove(user);
            }
            Standing::Fan => {
                self.wanted.insert(user.clone());
                self.fans.insert(user.clone());
            }
        }
        match self.unsettled.get(user) {
            // The user was settled.
            None => {
                self.unsettled.insert(user.clone(), InStore::Known(before));
            }
            // The store still holds the user as wanted again.
            Some(InStore::Known(in_store)) if *in_store == standing => {
                self.unsettled.remove(user);
            }
            Some(_) => {}
        }
        true
    }

    /// Makes a call name a user again, because the store's note on the user must change. Does
    /// nothing for a user whom the store does not hold: the call that adds the user also writes the
    /// note.
    pub fn tell_again(&mut self, user: &UserId) {
        let standing = self.standing(user);
        let in_store = self
            .unsettled
            .get(user)
            .copied()
            .unwrap_or(InStore::Known(standing));
        if in_store != InStore::Known(Standing::Gone) {
            self.unsettled
                .insert(user.clone(), InStore::Unsure(in_store.before()));
        }
    }

    /// The standing that the store should hold a user with.
    pub fn standing(&self, user: &UserId) -> Standing {
        if self.fans.contains(user) {
            Standing::Fan
        } else if self.wanted.contains(user) {
            Standing::Member
        } else {
            Standing::Gone
        }
    }

    pub(crate) fn remove_all(&mut self) {
        for user in self.wanted.iter().cloned().collect::<Vec<_>>() {
            self.want(&user, Standing::Gone);
        }
    }

    /// The number of users whom the store should hold for this gateway.
    pub fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// The number of fans among them.
    pub fn wanted_fans(&self) -> usize {
        self.fans.len()
    }

    /// The content that the store must have for this gateway by now; `None` while a call is in
    /// flight or any user is unsure. The cost grows with the number of unsettled users.
    pub fn held(&self) -> Option<Held> {
        if self.in_flight {
            None
        } else {
            self.expected_held()
        }
    }

    /// The users who are members, or about whom the store is yet to be told.
    pub(crate) fn users(&self) -> Vec<UserId> {
        self.wanted
            .iter()
            .chain(self.unsettled.keys())
            .cloned()
            .collect()
    }

    /// Whether the store holds this user as wanted.
    pub(crate) fn is_settled(&self, user: &UserId) -> bool {
        !self.unsettled.contains_key(user)
    }

    /// Whether a user is wanted whom the store does not hold for this gateway yet.
    pub(crate) fn is_newcomer(&self, user: &UserId) -> bool {
        match self.unsettled.get(user) {
            Some(in_store) => in_store.before() == Standing::Gone && self.wanted.contains(user),
            None => false,
        }
    }

    /// The number of unsettled users.
    pub fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// The unsettled users.
    pub(crate) fn unsettled_users(&self) -> impl Iterator<Item = &UserId> {
        self.unsettled.keys()
    }

    /// The number of the entry; `None` if there is no entry or the gateway does not know its
    /// number.
    pub fn entry(&self) -> Option<u64> {
        match self.entry {
            Entry::At(number) => Some(number),
            _ => None,
        }
    }

    /// Whether the store has, or may have, an entry of this gateway.
    pub fn is_registered(&self) -> bool {
        self.entry != Entry::None
    }

    /// Whether the next call creates the entry.
    pub fn must_register(&self) -> bool {
        matches!(self.entry, Entry::None | Entry::Unconfirmed)
    }

    /// Whether no user is wanted and the store certainly holds no user for this gateway.
    pub fn is_idle(&self) -> bool {
        self.wanted.is_empty() && !self.is_dirty() && !self.in_flight
    }

    /// Whether [`DesiredState::next`] has a call to make, now or after a read-back or a
    /// reassertion.
    pub fn is_dirty(&self) -> bool {
        !self.unsettled.is_empty()
            || self.call_required
            || matches!(self.entry, Entry::Lost | Entry::MustReadBack)
    }

    /// True if [`DesiredState::reassert`] must come before the next call.
    pub fn is_lost(&self) -> bool {
        self.entry == Entry::Lost
    }

    /// True if [`DesiredState::reconcile`] must come before the next call.
    pub(crate) fn needs_read_back(&self) -> bool {
        self.entry == Entry::MustReadBack
    }

    /// Requires a read-back: the store holds, or may hold, something other than this gateway sent.
    pub fn require_read_back(&mut self) {
        if matches!(self.entry, Entry::At(_)) {
            self.entry = Entry::MustReadBack;
        }
    }

    /// Requires one more call after the one in flight, even if nothing is unsettled.
    pub fn require_call(&mut self) {
        self.call_required |= matches!(self.entry, Entry::At(_) | Entry::Unconfirmed);
    }

    /// Requires a call that makes an entry, even if nothing is unsettled: the store holds users
    /// without an entry, which is wrong.
    pub fn require_entry(&mut self) {
        if self.entry == Entry::None {
            self.entry = Entry::Unconfirmed;
            self.call_required = true;
        }
    }

    /// Notes that the store has no entry of this gateway, or that the gateway has a new id without
    /// an entry.
    pub fn lose_entry(&mut self) {
        if self.entry != Entry::None {
            self.entry = Entry::Lost;
        }
    }

    /// The most calls that settle all users who are unsettled now.
    pub(crate) fn calls_due(&self, limit: CallLimit) -> usize {
        self.unsettled.len().div_ceil(limit.leaves.min(limit.users))
    }

    /// The next call, or `None` if none is due.
    pub fn next(&mut self, limit: CallLimit) -> Option<Draft> {
        if self.in_flight || self.is_lost() || self.needs_read_back() || !self.is_dirty() {
            return None;
        }
        let draft = self.batch(limit);
        if draft.follows.is_none() {
            self.entry = Entry::Unconfirmed;
        }
        for (user, _) in draft.users() {
            if let Some(in_store) = self.unsettled.get_mut(user) {
                *in_store = InStore::InFlight(in_store.before());
            }
        }
        self.number = draft.number;
        self.in_flight = true;
        self.call_required = false;
        Some(draft)
    }

    /// A call about some unsettled users, the unsure ones first. In a slice of a live, at most one
    /// batch is ever unsure.
    fn batch(&self, limit: CallLimit) -> Draft {
        let mut draft = Draft {
            number: self.number + 1,
            follows: self.entry(),
            joins: Vec::new(),
            fans: Vec::new(),
            leaves: Vec::new(),
            former_fans: Vec::new(),
        };
        let mut losses = 0;
        let unknown = self
            .unsettled
            .iter()
            .filter(|(_, in_store)| in_store.is_unsure());
        let others = self
            .unsettled
            .iter()
            .filter(|(_, in_store)| !in_store.is_unsure());
        for (user, in_store) in unknown.chain(others) {
            if draft.len() == limit.users {
                break;
            }
            let standing = self.standing(user);
            if standing == Standing::Gone || standing < in_store.before() {
                if losses == limit.leaves {
                    continue;
                }
                losses += 1;
            }
            if in_store.before() == Standing::Fan && standing != Standing::Fan {
                draft.former_fans.push(user.clone());
            }
            match standing {
                Standing::Gone => draft.leaves.push(user.clone()),
                Standing::Member => draft.joins.push(user.clone()),
                Standing::Fan => draft.fans.push(user.clone()),
            }
        }
        draft
    }

    /// Applies the answer to the call in flight.
    pub fn answered(&mut self, draft: &Draft, reply: &ApplyReply) -> Verdict {
        self.in_flight = false;
        let view = match reply {
            ApplyReply::Done(view) => view,
            ApplyReply::Closed | ApplyReply::Newer(_) => return Verdict::Over,
            ApplyReply::Unknown => {
                self.entry = Entry::Lost;
                return Verdict::Lost;
            }
            // The store applied an earlier call whose answer was lost, or was rolled back to an
            // earlier state.
            ApplyReply::Old => {
                self.mark_unknown(draft);
                self.entry = Entry::MustReadBack;
                return Verdict::Mismatch;
            }
            // The store refused the call more than once.
            ApplyReply::Late(_) => {
                self.mark_unknown(draft);
                return Verdict::Settled;
            }
        };
        for (user, standing) in draft.users() {
            let must_tell_again = match self.unsettled.get(user) {
                Some(in_store) => in_store.is_unsure(),
                None => false,
            };
            if must_tell_again {
                self.unsettled
                    .insert(user.clone(), InStore::Unsure(standing));
            } else if self.standing(user) == standing {
                self.unsettled.remove(user);
            } else {
                self.unsettled
                    .insert(user.clone(), InStore::Known(standing));
            }
        }
        let differs = match self.expected_held() {
            Some(expected) => expected.members != view.held || expected.fans != view.held_fans,
            None => false,
        };
        // Somebody may have required the read-back while the call was under way.
        if differs || self.needs_read_back() {
            self.entry = Entry::MustReadBack;
            Verdict::Mismatch
        } else {
            self.entry = Entry::At(draft.number);
            Verdict::Settled
        }
    }

    /// Notes that the call in flight had no answer: the store may have applied it, or may apply it
    /// later.
    pub fn failed(&mut self, draft: &Draft) {
        self.in_flight = false;
        self.mark_unknown(draft);
    }

    fn mark_unknown(&mut self, draft: &Draft) {
        // The draft may have been an empty call that was required.
        self.require_call();
        for (user, _) in draft.users() {
            let before = match self.unsettled.get(user) {
                Some(in_store) => in_store.before(),
                None => self.standing(user),
            };
            self.unsettled.insert(user.clone(), InStore::Unsure(before));
        }
    }

    /// The content that the store must have for this gateway by its own answers; `None` while any
    /// user is unsure or in flight.
    fn expected_held(&self) -> Option<Held> {
        let mut held = Held {
            members: self.wanted.len() as u64,
            fans: self.fans.len() as u64,
            number: self.number,
        };
        for (user, in_store) in &self.unsettled {
            let InStore::Known(in_store) = *in_store else {
                return None;
            };
            if in_store != Standing::Gone {
                held.members += 1;
            }
            if in_store == Standing::Fan {
                held.fans += 1;
            }
            let wanted = self.standing(user);
            if wanted != Standing::Gone {
                held.members -= 1;
            }
            if wanted == Standing::Fan {
                held.fans -= 1;
            }
        }
        Some(held)
    }

    /// Sends every wanted user again: the entry was lost and the live is open.
    pub fn reassert(&mut self) {
        self.entry = Entry::None;
        self.call_required = false;
        self.unsettled = self
            .wanted
            .iter()
            .map(|user| (user.clone(), InStore::Known(Standing::Gone)))
            .collect();
    }

    /// Compares the wanted content with the content of the store for this gateway. The caller read
    /// `entry` first, then `held`, while no call was in flight. The next calls settle the users who
    /// differ. One call follows in any case, so that the store refuses every earlier call that may
    /// still arrive. Returns how many of the users who differ were not unsettled already.
    pub fn reconcile(&mut self, entry: Option<u64>, held: &HeldMembers) -> Difference {
        let Some(number) = entry else {
            self.lose_entry();
            return Difference::default();
        };
        self.entry = Entry::At(number);
        self.number = self.number.max(number);
        self.call_required = true;
        let known = std::mem::take(&mut self.unsettled);
        let mut difference = Difference::default();
        let concerned: HashSet<&UserId> = self
            .wanted
            .iter()
            .chain(&held.users)
            .chain(&held.fans)
            .collect();
        for user in concerned {
            let in_store = in_store(held, user);
            let wanted = self.standing(user);
            if in_store == InStore::Known(wanted) {
                continue;
            }
            if !known.contains_key(user) {
                if wanted > in_store.before() {
                    difference.missing += 1;
                } else {
                    difference.extra += 1;
                }
            }
            self.unsettled.insert(user.clone(), in_store);
        }
        for user in &held.missing {
            if self.unsettled.contains_key(user) {
                continue;
            }
            // Not known to be gone: the store counts the user as held.
            let standing = self.standing(user);
            self.unsettled
                .insert(user.clone(), InStore::Unsure(standing));
            if !known.contains_key(user) {
                match standing {
                    Standing::Gone => difference.extra += 1,
                    Standing::Member | Standing::Fan => difference.missing += 1,
                }
            }
        }
        difference
    }

    /// Frees most of the memory that the maps keep from their peak.
    pub(crate) fn shrink(&mut self) {
        self.wanted.shrink_to(self.wanted.len() * 2);
        self.fans.shrink_to(self.fans.len() * 2);
        self.unsettled.shrink_to(self.unsettled.len() * 2);
    }

    /// Forgets everything: the epoch is over.
    pub(crate) fn clear(&mut self) {
        *self = Self::numbered_from(self.number);
    }
}

/// The standing of a user in the store by a read-back.
fn in_store(held: &HeldMembers, user: &UserId) -> InStore {
    match (held.users.contains(user), held.fans.contains(user)) {
        (true, true) => InStore::Known(Standing::Fan),
        (true, false) => InStore::Known(Standing::Member),
        (false, false) => InStore::Known(Standing::Gone),
        // No call leaves such a user behind, so another program wrote there.
        (false, true) => InStore::Unsure(Standing::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MAX_BATCH, SliceSize, SliceView};

    fn user(n: usize) -> UserId {
        UserId::parse(&format!("u{n}")).unwrap()
    }

    fn done(held: u64) -> ApplyReply {
        done_with(held, 0)
    }

    fn done_with(held: u64, held_fans: u64) -> ApplyReply {
        let size = SliceSize {
            card: held,
            fans: held_fans,
            ..SliceSize::default()
        };
        ApplyReply::Done(SliceView {
            size,
            held,
            held_fans,
            noted: None,
        })
    }

    /// What is read back if these users are held, and none as a fan.
    fn held(users: &[usize]) -> HeldMembers {
        HeldMembers {
            users: users.iter().map(|n| user(*n)).collect(),
            ..HeldMembers::default()
        }
    }

    fn next(desired: &mut DesiredState) -> Option<Draft> {
        desired.next(CallLimit::WHOLE_BATCH)
    }

    /// A state that holds these users, after one call.
    fn holding(users: &[usize]) -> DesiredState {
        let mut desired = DesiredState::default();
        for n in users {
            desired.want(&user(*n), Standing::Member);
        }
        let call = next(&mut desired).unwrap();
        assert_eq!(
            desired.answered(&call, &done(users.len() as u64)),
            Verdict::Settled
        );
        desired
    }

    #[test]
    fn a_user_who_leaves_before_the_flush_is_never_sent() {
        let mut desired = DesiredState::default();
        desired.want(&user(1), Standing::Member);
        desired.want(&user(1), Standing::Gone);
        assert!(!desired.is_dirty());
        assert_eq!(next(&mut desired), None);
    }

    #[test]
    fn the_first_call_creates_the_entry_and_each_later_one_follows_the_last() {
        let mut desired = DesiredState::default();
        desired.want(&user(1), Standing::Member);
        let first = next(&mut desired).unwrap();
        assert_eq!((first.follows, first.joins.len()), (None, 1));
        assert_eq!(desired.answered(&first, &done(1)), Verdict::Settled);
        desired.want(&user(1), Standing::Gone);
        let last = next(&mut desired).unwrap();
        assert_eq!((last.follows, last.leaves.len()), (Some(first.number), 1));
        assert_eq!(desired.answered(&last, &done(0)), Verdict::Settled);
        assert_eq!(
            (desired.entry(), desired.is_idle()),
            (Some(last.number), true),
            "the entry stays"
        );
        assert_eq!(next(&mut desired), None);
    }

    #[test]
    fn a_change_during_the_call_is_sent_with_the_next() {
        let mut desired = DesiredState::default();
        desired.want(&user(1), Standing::Member);
        let call = next(&mut desired).unwrap();
        desired.want(&user(1), Standing::Gone);
        assert_eq!(next(&mut desired), None, "one call at a time");
        assert_eq!(desired.answered(&call, &done(1)), Verdict::Settled);
        assert_eq!(next(&mut desired).unwrap().leaves, vec![user(1)]);
    }

    #[test]
    fn a_call_without_an_answer_sends_the_present_state_again_and_follows_what_was_answered() {
        let mut desired = holding(&[1]);
        desired.want(&user(2), Standing::Member);
        let call = next(&mut desired).unwrap();
        desired.failed(&call);
        desired.want(&user(2), Standing::Gone);
        let again = next(&mut desired).unwrap();
        assert_eq!(
            (again.leaves.len(), again.joins.len(), again.follows),
            (1, 0, call.follows)
        );
        assert!(again.number > call.number);
    }

    #[test]
    fn a_broken_chain_is_read_back_and_followed_by_one_more_call() {
        let mut desired = holding(&[1]);
        desired.want(&user(2), Standing::Member);
        let lost = next(&mut desired).unwrap();
        desired.failed(&lost);
        let again = next(&mut desired).unwrap();
        assert_eq!(
            desired.answered(&again, &ApplyReply::Old),
            Verdict::Mismatch
        );
        assert!(desired.needs_read_back());
        assert_eq!(
            next(&mut desired),
            None,
            "nothing is sent before the store was read"
        );
        let held = held(&[1, 2]);
        assert_eq!(
            desired.reconcile(Some(lost.number), &held),
            Difference::default()
        );
        let empty = next(&mut desired).unwrap();
        assert_eq!(
            (empty.follows, empty.joins.len(), empty.leaves.len()),
            (Some(lost.number), 0, 0)
        );
        assert_eq!(desired.answered(&empty, &done(2)), Verdict::Settled);
        assert!(!desired.is_dirty());
    }

    #[test]
    fn a_read_back_that_is_required_during_a_call_comes_after_it() {
        let mut desired = holding(&[1]);
        desired.want(&user(2), Standing::Member);
        let in_flight = next(&mut desired).unwrap();
        desired.require_read_back();
        assert_eq!(desired.answered(&in_flight, &done(2)), Verdict::Mismatch);
        assert!(desired.needs_read_back());
        let held = held(&[1, 3]);
        assert_eq!(
            desired.reconcile(Some(in_flight.number), &held),
            Difference {
                missing: 1,
                extra: 1
            }
        );
    }

    #[test]
    fn a_required_call_comes_after_the_one_in_flight_and_is_repeated_until_it_is_answered() {
        let mut desired = holding(&[1]);
        desired.want(&user(2), Standing::Member);
        let in_flight = next(&mut desired).unwrap();
        desired.require_call();
        assert_eq!(desired.answered(&in_flight, &done(2)), Verdict::Settled);
        assert!(desired.is_dirty());
        let empty = next(&mut desired).unwrap();
        assert_eq!(
            (empty.follows, empty.joins.len() + empty.leaves.len()),
            (Some(in_flight.number), 0)
        );
        desired.failed(&empty);
        let again = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&again, &done(2)), Verdict::Settled);
        assert!(!desired.is_dirty());
    }

    #[test]
    fn an_entry_of_an_earlier_room_is_followed_and_the_users_it_left_are_removed() {
        let mut desired = DesiredState::numbered_from(10);
        desired.found_entry(7, 0);
        desired.want(&user(1), Standing::Member);
        assert_eq!(next(&mut desired).unwrap().follows, Some(7));
        let mut desired = DesiredState::numbered_from(10);
        desired.found_entry(7, 1);
        assert!(desired.needs_read_back());
        desired.reconcile(Some(7), &held(&[5]));
        assert_eq!(next(&mut desired).unwrap().leaves, [user(5)]);
    }

    #[test]
    fn a_call_removes_at_most_the_given_number_of_users() {
        let mut desired = holding(&(0..300).collect::<Vec<_>>());
        desired.remove_all();
        desired.want(&user(1_000), Standing::Member);
        let call = desired
            .next(CallLimit {
                users: MAX_BATCH,
                leaves: 100,
            })
            .unwrap();
        assert_eq!((call.joins.len(), call.leaves.len()), (1, 100));
        desired.answered(&call, &done(201));
        assert_eq!(next(&mut desired).unwrap().leaves.len(), 200);
    }

    #[test]
    fn a_call_changes_at_most_the_given_number_of_users_and_a_turn_has_time_for_all() {
        let mut desired = holding(&(0..300).collect::<Vec<_>>());
        desired.remove_all();
        for n in 300..700 {
            desired.want(&user(n), Standing::Member);
        }
        let limit = CallLimit {
            users: 250,
            leaves: MAX_BATCH,
        };
        assert_eq!(desired.calls_due(limit), 3);
        let mut held = 300;
        for changed in [250, 250, 200] {
            let call = desired.next(limit).unwrap();
            assert_eq!(call.len(), changed);
            held += call.joins.len() as u64;
            held -= call.leaves.len() as u64;
            assert_eq!(desired.answered(&call, &done(held)), Verdict::Settled);
        }
        assert_eq!(desired.next(limit), None);
    }

    #[test]
    fn users_who_come_and_go_while_the_store_is_away_are_not_remembered() {
        let mut desired = DesiredState::default();
        for round in 0..50 {
            for n in 0..500 {
                desired.want(&user(round * 500 + n), Standing::Member);
            }
            let call = next(&mut desired).unwrap();
            desired.failed(&call);
            for n in 0..500 {
                desired.want(&user(round * 500 + n), Standing::Gone);
            }
        }
        assert!(
            desired.unsettled.len() <= MAX_BATCH,
            "{} remembered",
            desired.unsettled.len()
        );
    }

    #[test]
    fn a_lost_entry_is_reasserted_only_on_request() {
        let mut desired = DesiredState::default();
        for n in 0..1_500 {
            desired.want(&user(n), Standing::Member);
        }
        let mut held = 0;
        while let Some(call) = next(&mut desired) {
            held += call.joins.len() as u64;
            assert_eq!(desired.answered(&call, &done(held)), Verdict::Settled);
        }
        assert_eq!(held, 1_500);
        desired.want(&user(1_500), Standing::Member);
        let call = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&call, &ApplyReply::Unknown), Verdict::Lost);
        assert_eq!(next(&mut desired), None);
        desired.reassert();
        let first = next(&mut desired).unwrap();
        assert_eq!((first.follows, first.joins.len()), (None, MAX_BATCH));
    }

    #[test]
    fn the_expected_held_set_follows_the_answers_and_not_what_is_wanted() {
        let mut desired = DesiredState::default();
        desired.want(&user(1), Standing::Member);
        desired.want(&user(2), Standing::Member);
        assert_eq!(
            desired.held(),
            Some(Held {
                members: 0,
                fans: 0,
                number: 0
            })
        );
        let call = next(&mut desired).unwrap();
        assert_eq!(
            desired.held(),
            None,
            "the store may have applied the call in flight or not"
        );
        desired.answered(&call, &done(2));
        desired.want(&user(1), Standing::Gone);
        desired.want(&user(3), Standing::Member);
        let held = Held {
            members: 2,
            fans: 0,
            number: 1,
        };
        assert_eq!(desired.held(), Some(held));
        let call = next(&mut desired).unwrap();
        desired.failed(&call);
        assert_eq!(desired.held(), None);
    }

    #[test]
    fn a_user_who_is_held_and_missing_in_the_slice_is_sent_again() {
        let mut desired = holding(&[1, 2]);
        desired.require_read_back();
        let held = HeldMembers {
            missing: vec![user(2), user(9)],
            ..held(&[1, 2])
        };
        assert_eq!(
            desired.reconcile(Some(1), &held),
            Difference {
                missing: 1,
                extra: 1
            }
        );
        let again = next(&mut desired).unwrap();
        assert_eq!(
            (again.joins.clone(), again.leaves.clone()),
            (vec![user(2)], vec![user(9)])
        );
        assert_eq!(desired.answered(&again, &done(2)), Verdict::Settled);
        assert!(!desired.is_dirty());
    }

    #[test]
    fn a_user_of_whom_something_else_is_to_be_noted_is_sent_again() {
        let mut desired = holding(&[1]);
        desired.tell_again(&user(2));
        assert!(!desired.is_dirty(), "the store does not hold that one");
        desired.tell_again(&user(1));
        let again = next(&mut desired).unwrap();
        assert_eq!(again.joins, [user(1)]);
        // It changes once more, while the call is under way.
        desired.tell_again(&user(1));
        assert_eq!(desired.answered(&again, &done(1)), Verdict::Settled);
        let again = next(&mut desired).unwrap();
        assert_eq!(again.joins, [user(1)]);
        assert_eq!(desired.answered(&again, &done(1)), Verdict::Settled);
        assert!(!desired.is_dirty());
        // The user goes and comes back before the store heard of it.
        desired.want(&user(1), Standing::Gone);
        desired.tell_again(&user(1));
        desired.want(&user(1), Standing::Member);
        assert_eq!(next(&mut desired).unwrap().joins, [user(1)]);
    }

    #[test]
    fn a_wrong_count_is_noticed_and_repaired() {
        let mut desired = DesiredState::default();
        desired.want(&user(1), Standing::Member);
        desired.want(&user(2), Standing::Member);
        let call = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&call, &done(3)), Verdict::Mismatch);
        let held = held(&[1, 3]);
        assert_eq!(
            desired.reconcile(Some(call.number), &held),
            Difference {
                missing: 1,
                extra: 1
            }
        );
        let repair = next(&mut desired).unwrap();
        assert_eq!(
            (repair.joins, repair.leaves),
            (vec![user(2)], vec![user(3)])
        );
    }

    #[test]
    fn the_answer_of_a_fan_check_is_one_more_change_of_the_same_user() {
        let mut desired = holding(&[1, 2]);
        desired.want(&user(1), Standing::Fan);
        let call = next(&mut desired).unwrap();
        assert_eq!((&call.fans, call.len()), (&vec![user(1)], 1));
        assert_eq!(
            desired.answered(&call, &done_with(2, 0)),
            Verdict::Mismatch,
            "the store lacks a fan"
        );
        desired.reconcile(Some(call.number), &held(&[1, 2]));
        let again = next(&mut desired).unwrap();
        assert_eq!(again.fans, [user(1)]);
        assert_eq!(desired.answered(&again, &done_with(2, 1)), Verdict::Settled);
        desired.want(&user(1), Standing::Member);
        let call = next(&mut desired).unwrap();
        assert_eq!(
            (&call.joins, &call.former_fans),
            (&vec![user(1)], &vec![user(1)])
        );
        assert_eq!(desired.answered(&call, &done_with(2, 0)), Verdict::Settled);
        assert!(!desired.is_dirty());
    }

    #[test]
    fn a_fan_whose_leave_had_no_answer_is_told_as_a_former_fan_with_the_next_call() {
        let mut desired = DesiredState::default();
        desired.want(&user(1), Standing::Fan);
        let call = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&call, &done_with(1, 1)), Verdict::Settled);
        desired.want(&user(1), Standing::Gone);
        let lost = next(&mut desired).unwrap();
        desired.failed(&lost);
        let again = next(&mut desired).unwrap();
        assert_eq!(
            (&again.leaves, &again.former_fans),
            (&vec![user(1)], &vec![user(1)])
        );
    }

    #[test]
    fn a_fan_of_another_program_is_taken_out() {
        let mut desired = holding(&[1]);
        desired.require_read_back();
        let strange = HeldMembers {
            fans: HashSet::from([user(1), user(9)]),
            ..held(&[1])
        };
        assert_eq!(desired.reconcile(Some(1), &strange).total(), 2);
        let repair = next(&mut desired).unwrap();
        assert_eq!(
            (repair.joins, repair.leaves),
            (vec![user(1)], vec![user(9)])
        );
    }
}
