//! The gateway's side of the slice protocol: what this gateway wants one slice of the store to hold, and what it knows
//! the slice to hold. Pure: no clock, no I/O; calls go out as values and answers come in.
//!
//! State is level-triggered. What the slice should hold is always here, so a failed call is made good from the present
//! state, never from a queue. A user is *unsettled* while the store may hold something else than is wanted. One call
//! is under way at a time; what it carries is unsettled until its answer, and *unsure* when there is none.
//!
//! Calls form a chain: each names the number of the one that it follows, so a call that was delayed or doubled does
//! nothing. Where the chain is broken the state is *astray*: it reads back what the store holds, and then makes a call
//! even if nothing differs, so that the number moves on and whatever is still under way is refused.
//!
//! Bounded: besides the users wanted now, at most [`MAX_BATCH`] users are remembered whose calls had no answer, and
//! those that left after the store had them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use crate::base::ids::UserId;
use crate::store::{ApplyReply, MAX_BATCH};

/// What the store last held of an unsettled user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Was {
    /// Surely not in the store.
    Absent,
    /// Surely in the store.
    Present,
    /// A call about this user had no answer; it may have been carried out, or be yet.
    Unsure,
    /// The call under way tells; its answer decides.
    Sent,
}

/// What is known of this gateway's entry in the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Entry {
    /// There is none; the next call makes it.
    None,
    /// A call that makes it had no answer.
    Unsure,
    /// It has this number.
    At(u64),
    /// It has another number than this gateway knows of: what the store holds must be read.
    Astray,
    /// It was there and is gone: this gateway was buried, or the store lost its data. Nothing is sent until the live is
    /// known to be open still.
    Lost,
}

/// The next call to make.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Draft {
    /// Number of the call; grows by each.
    pub number: u64,
    /// The number of the entry that it follows; `None` if it makes the entry.
    pub follows: Option<u64>,
    /// Users to add.
    pub joins: Vec<UserId>,
    /// Users to take out.
    pub leaves: Vec<UserId>,
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The store holds what the call said.
    Settled,
    /// The store holds another number of users than it should, or the entry has another number: read what it holds and
    /// [`DesiredState::reconcile`].
    Mismatch,
    /// The entry is gone: make sure that the live is open, then [`DesiredState::assert_again`].
    Lost,
    /// The epoch is over.
    Over,
}

/// How the store was found to differ, in users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Difference {
    /// Wanted, and not there.
    pub missing: usize,
    /// There, and not wanted.
    pub extra: usize,
}

impl Difference {
    /// All of them.
    pub fn total(self) -> usize {
        self.missing + self.extra
    }
}

/// What the store must hold for this gateway, if every call was answered and did what it said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// How many users.
    pub members: u64,
    /// The wrapping sum of their [`UserId::xxh3`].
    pub digest: u64,
    /// The number of the last call.
    pub number: u64,
}

/// What this gateway wants one slice of the store to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredState {
    wanted: HashSet<UserId>,
    /// The wrapping sum of the wanted users' hashes: kept up with each of them, so that nobody counts under the lock.
    digest: u64,
    unsettled: HashMap<UserId, Was>,
    entry: Entry,
    number: u64,
    in_flight: bool,
    /// One more call is to be made even if nothing is unsettled: what was read back must not be changed by what is
    /// under way, and where there is doubt the answer to a call tells whether the chain holds.
    must_move: bool,
}

impl Default for DesiredState {
    fn default() -> Self {
        Self {
            wanted: HashSet::new(),
            digest: 0,
            unsettled: HashMap::new(),
            entry: Entry::None,
            number: 0,
            in_flight: false,
            must_move: false,
        }
    }
}

/// Only a model check hashes desired states, to tell its states apart; the sets are looked up on every join, so they
/// stay without order and are put in order here.
impl Hash for DesiredState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        BTreeSet::from_iter(&self.wanted).hash(state);
        BTreeMap::from_iter(&self.unsettled).hash(state);
        (self.entry, self.number, self.in_flight, self.must_move).hash(state);
    }
}

impl DesiredState {
    /// A state whose first call has the number after `number`. It must be above that of any earlier state of this
    /// gateway for the same slice and epoch: a call of that one may still arrive.
    pub fn numbered_from(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    /// The slice was read when it had been told nothing: it has an entry of this gateway's, from an earlier room.
    pub fn found(&mut self, number: u64, held: u64) {
        if self.entry == Entry::None {
            // Whom an earlier room left there, if anybody, must be read.
            self.entry = if held == 0 { Entry::At(number) } else { Entry::Astray };
            self.number = self.number.max(number);
        }
    }

    /// The store shall hold this user. True if that is news.
    pub fn want(&mut self, user: &UserId) -> bool {
        if !self.wanted.insert(user.clone()) {
            return false;
        }
        self.digest = self.digest.wrapping_add(user.xxh3());
        match self.unsettled.get(user) {
            Some(Was::Present) => {
                self.unsettled.remove(user);
            }
            Some(_) => {}
            None => {
                self.unsettled.insert(user.clone(), Was::Absent);
            }
        }
        true
    }

    /// The store shall not hold this user. True if that is news.
    pub fn unwant(&mut self, user: &UserId) -> bool {
        if !self.wanted.remove(user) {
            return false;
        }
        self.digest = self.digest.wrapping_sub(user.xxh3());
        match self.unsettled.get(user) {
            Some(Was::Absent) => {
                self.unsettled.remove(user);
            }
            Some(_) => {}
            None => {
                self.unsettled.insert(user.clone(), Was::Present);
            }
        }
        true
    }

    /// The store shall hold nobody.
    pub fn unwant_all(&mut self) {
        for user in self.wanted.iter().cloned().collect::<Vec<_>>() {
            self.unwant(&user);
        }
    }

    /// How many users the store shall hold for this gateway.
    pub fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// Whether the store shall hold this user.
    pub fn wants(&self, user: &UserId) -> bool {
        self.wanted.contains(user)
    }

    /// What the store must hold for this gateway by now; `None` while a call is under way or had no answer. Costs as
    /// much as there is unsettled.
    pub fn held(&self) -> Option<Held> {
        if self.in_flight {
            return None;
        }
        let members = self.expected_held()?;
        let digest = self.unsettled.iter().fold(self.digest, |sum, (user, was)| match was {
            Was::Absent => sum.wrapping_sub(user.xxh3()),
            _ => sum.wrapping_add(user.xxh3()),
        });
        Some(Held { members, digest, number: self.number })
    }

    /// How many users are remembered that are not settled.
    pub fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// The number of the entry, as far as it is known; `None` also if there is none.
    pub fn entry(&self) -> Option<u64> {
        match self.entry {
            Entry::At(number) => Some(number),
            _ => None,
        }
    }

    /// Whether there is, or may be, an entry of this gateway's in the store.
    pub fn is_registered(&self) -> bool {
        self.entry != Entry::None
    }

    /// Whether the next call makes the entry.
    pub fn registers(&self) -> bool {
        matches!(self.entry, Entry::None | Entry::Unsure)
    }

    /// Whether the store surely holds nobody for this gateway, and nobody is wanted.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && !self.is_dirty() && !self.in_flight
    }

    /// Whether [`DesiredState::next`] has something to say, or would have but for what must be done before.
    pub fn is_dirty(&self) -> bool {
        !self.unsettled.is_empty() || self.must_move || matches!(self.entry, Entry::Lost | Entry::Astray)
    }

    /// Whether the entry was lost: nothing is said until [`DesiredState::assert_again`].
    pub fn is_lost(&self) -> bool {
        self.entry == Entry::Lost
    }

    /// Whether what the store holds must be read: nothing is said until [`DesiredState::reconcile`].
    pub fn is_astray(&self) -> bool {
        self.entry == Entry::Astray
    }

    /// The store was seen to hold something else than was told, or may do: it is to be read.
    pub fn doubt(&mut self) {
        if matches!(self.entry, Entry::At(_)) {
            self.entry = Entry::Astray;
        }
    }

    /// A call is to be made, besides the one under way, even if there is nothing to say.
    pub fn move_on(&mut self) {
        self.must_move |= matches!(self.entry, Entry::At(_) | Entry::Unsure);
    }

    /// The store was seen to have no entry of this gateway's, or the gateway has a new id, under which it has none.
    pub fn lose(&mut self) {
        if self.entry != Entry::None {
            self.entry = Entry::Lost;
        }
    }

    /// How many calls it takes at most to settle what is unsettled now, where each takes at most `leaves` users out.
    pub fn calls_due(&self, leaves: usize) -> usize {
        self.unsettled.len().div_ceil(leaves.min(MAX_BATCH))
    }

    /// The next call, or `None` if there is nothing to say. It takes at most `leaves` users out, as each of them costs
    /// the store a look at every gateway of the slice.
    pub fn next(&mut self, leaves: usize) -> Option<Draft> {
        if self.in_flight || self.is_lost() || self.is_astray() || !self.is_dirty() {
            return None;
        }
        let (joins, leaves) = self.batch(leaves);
        let follows = self.entry();
        if follows.is_none() {
            self.entry = Entry::Unsure;
        }
        for user in joins.iter().chain(&leaves) {
            self.unsettled.insert(user.clone(), Was::Sent);
        }
        self.number += 1;
        self.in_flight = true;
        self.must_move = false;
        Some(Draft { number: self.number, follows, joins, leaves })
    }

    /// Up to [`MAX_BATCH`] unsettled users, the unsure ones first, so that no more than one batch is ever unsure.
    fn batch(&self, most_leaves: usize) -> (Vec<UserId>, Vec<UserId>) {
        let unsure = self.unsettled.iter().filter(|(_, was)| **was == Was::Unsure);
        let others = self.unsettled.iter().filter(|(_, was)| **was != Was::Unsure);
        let (mut joins, mut leaves) = (Vec::new(), Vec::new());
        for (user, _) in unsure.chain(others) {
            if joins.len() + leaves.len() == MAX_BATCH {
                break;
            }
            if self.wanted.contains(user) {
                joins.push(user.clone());
            } else if leaves.len() < most_leaves {
                leaves.push(user.clone());
            }
        }
        (joins, leaves)
    }

    /// Takes in the answer to the call under way.
    pub fn answered(&mut self, draft: &Draft, reply: &ApplyReply) -> Verdict {
        self.in_flight = false;
        let view = match reply {
            ApplyReply::Done(view) => view,
            ApplyReply::Closed | ApplyReply::Newer(_) => return Verdict::Over,
            ApplyReply::Unknown => {
                self.entry = Entry::Lost;
                return Verdict::Lost;
            }
            // An earlier call was applied and its answer lost, or the store came back as it was.
            ApplyReply::Old => {
                self.unsure(draft);
                self.entry = Entry::Astray;
                return Verdict::Mismatch;
            }
            // Nothing was done; the store has tried more than once.
            ApplyReply::Late(_) => {
                self.unsure(draft);
                return Verdict::Settled;
            }
        };
        for (users, present) in [(&draft.joins, true), (&draft.leaves, false)] {
            for user in users {
                if self.wanted.contains(user) == present {
                    self.unsettled.remove(user);
                } else {
                    self.unsettled.insert(user.clone(), if present { Was::Present } else { Was::Absent });
                }
            }
        }
        self.entry = Entry::At(draft.number);
        if self.expected_held().is_some_and(|expected| expected != view.held) {
            self.entry = Entry::Astray;
            Verdict::Mismatch
        } else {
            Verdict::Settled
        }
    }

    /// The call under way had no answer: it may have been carried out, or be later.
    pub fn failed(&mut self, draft: &Draft) {
        self.in_flight = false;
        self.unsure(draft);
    }

    fn unsure(&mut self, draft: &Draft) {
        // Perhaps it said nothing and was to be made all the same.
        self.move_on();
        for user in draft.joins.iter().chain(&draft.leaves) {
            self.unsettled.insert(user.clone(), Was::Unsure);
        }
    }

    /// How many users the store must hold for this gateway if all answers were true; `None` while any is unsure.
    fn expected_held(&self) -> Option<u64> {
        let mut held = self.wanted.len();
        for was in self.unsettled.values() {
            match was {
                Was::Absent => held -= 1,
                Was::Present => held += 1,
                Was::Unsure | Was::Sent => return None,
            }
        }
        Some(held as u64)
    }

    /// The entry was lost and the live is open: everybody wanted is sent anew.
    pub fn assert_again(&mut self) {
        self.entry = Entry::None;
        self.must_move = false;
        self.unsettled = self.wanted.iter().map(|user| (user.clone(), Was::Absent)).collect();
    }

    /// Sends users again whom the store holds for this gateway and yet shows to nobody. Answers how many were wanted.
    pub fn send_again(&mut self, users: &[UserId]) -> usize {
        let mut again = 0;
        for user in users.iter().filter(|user| self.wanted.contains(*user)) {
            // Not absent: they are in the count of what is held.
            if !self.unsettled.contains_key(user) {
                self.unsettled.insert(user.clone(), Was::Unsure);
                again += 1;
            }
        }
        again
    }

    /// Compares with what the store was read to hold for this gateway while no call was under way, and its
    /// entry, before that. They are sent with the next calls, of which there is one in any case: whatever is still
    /// under way follows another number than that call makes. Answers how many users differed who were not to be sent
    /// anyway.
    pub fn reconcile(&mut self, entry: Option<u64>, held: &HashSet<UserId>) -> Difference {
        let Some(number) = entry else {
            self.lose();
            return Difference::default();
        };
        self.entry = Entry::At(number);
        self.number = self.number.max(number);
        self.must_move = true;
        let known = std::mem::take(&mut self.unsettled);
        let mut difference = Difference::default();
        for user in self.wanted.iter().filter(|user| !held.contains(*user)) {
            difference.missing += usize::from(!known.contains_key(user));
            self.unsettled.insert(user.clone(), Was::Absent);
        }
        for user in held.iter().filter(|user| !self.wanted.contains(*user)) {
            difference.extra += usize::from(!known.contains_key(user));
            self.unsettled.insert(user.clone(), Was::Present);
        }
        difference
    }

    /// Maps keep the room of their peak; gives most of it back.
    pub fn give_back_room(&mut self) {
        self.wanted.shrink_to(self.wanted.len() * 2);
        self.unsettled.shrink_to(self.unsettled.len() * 2);
    }

    /// Forgets everything: the epoch is over.
    pub fn clear(&mut self) {
        *self = Self::numbered_from(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::SliceView;

    fn user(n: usize) -> UserId {
        UserId::parse(&format!("u{n}")).unwrap()
    }

    fn done(held: u64) -> ApplyReply {
        ApplyReply::Done(SliceView { card: held, held, version: 0 })
    }

    fn next(desired: &mut DesiredState) -> Option<Draft> {
        desired.next(MAX_BATCH)
    }

    /// A state that holds these users, after one call.
    fn holding(users: &[usize]) -> DesiredState {
        let mut desired = DesiredState::default();
        for n in users {
            desired.want(&user(*n));
        }
        let call = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&call, &done(users.len() as u64)), Verdict::Settled);
        desired
    }

    #[test]
    fn a_user_who_leaves_before_the_flush_is_never_sent() {
        let mut desired = DesiredState::default();
        desired.want(&user(1));
        desired.unwant(&user(1));
        assert!(!desired.is_dirty());
        assert_eq!(next(&mut desired), None);
    }

    #[test]
    fn the_first_call_makes_the_entry_and_each_later_one_follows_the_last() {
        let mut desired = DesiredState::default();
        desired.want(&user(1));
        let first = next(&mut desired).unwrap();
        assert_eq!((first.follows, first.joins.len()), (None, 1));
        assert_eq!(desired.answered(&first, &done(1)), Verdict::Settled);
        desired.unwant(&user(1));
        let last = next(&mut desired).unwrap();
        assert_eq!((last.follows, last.leaves.len()), (Some(first.number), 1));
        assert_eq!(desired.answered(&last, &done(0)), Verdict::Settled);
        assert_eq!((desired.entry(), desired.is_empty()), (Some(last.number), true), "the entry stays");
        assert_eq!(next(&mut desired), None);
    }

    #[test]
    fn a_change_during_the_call_is_sent_with_the_next() {
        let mut desired = DesiredState::default();
        desired.want(&user(1));
        let call = next(&mut desired).unwrap();
        desired.unwant(&user(1));
        assert_eq!(next(&mut desired), None, "one call at a time");
        assert_eq!(desired.answered(&call, &done(1)), Verdict::Settled);
        assert_eq!(next(&mut desired).unwrap().leaves, vec![user(1)]);
    }

    #[test]
    fn a_call_without_an_answer_sends_the_present_state_again_and_follows_what_was_answered() {
        let mut desired = holding(&[1]);
        desired.want(&user(2));
        let call = next(&mut desired).unwrap();
        desired.failed(&call);
        desired.unwant(&user(2));
        let again = next(&mut desired).unwrap();
        assert_eq!((again.leaves.len(), again.joins.len(), again.follows), (1, 0, call.follows));
        assert!(again.number > call.number);
    }

    #[test]
    fn where_the_chain_is_broken_it_is_read_back_and_moved_on() {
        let mut desired = holding(&[1]);
        desired.want(&user(2));
        let lost = next(&mut desired).unwrap();
        desired.failed(&lost);
        let again = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&again, &ApplyReply::Old), Verdict::Mismatch);
        assert!(desired.is_astray());
        assert_eq!(next(&mut desired), None, "nothing is sent before the store was read");
        let held = HashSet::from([user(1), user(2)]);
        assert_eq!(desired.reconcile(Some(lost.number), &held), Difference::default());
        let move_on = next(&mut desired).unwrap();
        assert_eq!((move_on.follows, move_on.joins.len(), move_on.leaves.len()), (Some(lost.number), 0, 0));
        assert_eq!(desired.answered(&move_on, &done(2)), Verdict::Settled);
        assert!(!desired.is_dirty());
    }

    #[test]
    fn who_must_move_on_makes_another_call_than_the_one_under_way_and_until_one_is_answered() {
        let mut desired = holding(&[1]);
        desired.want(&user(2));
        let under_way = next(&mut desired).unwrap();
        desired.move_on();
        assert_eq!(desired.answered(&under_way, &done(2)), Verdict::Settled);
        assert!(desired.is_dirty());
        let empty = next(&mut desired).unwrap();
        assert_eq!((empty.follows, empty.joins.len() + empty.leaves.len()), (Some(under_way.number), 0));
        desired.failed(&empty);
        let again = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&again, &done(2)), Verdict::Settled);
        assert!(!desired.is_dirty());
    }

    #[test]
    fn an_entry_of_an_earlier_room_is_followed_and_whom_it_left_is_taken_out() {
        let mut desired = DesiredState::numbered_from(10);
        desired.found(7, 0);
        desired.want(&user(1));
        assert_eq!(next(&mut desired).unwrap().follows, Some(7));
        let mut desired = DesiredState::numbered_from(10);
        desired.found(7, 1);
        assert!(desired.is_astray());
        desired.reconcile(Some(7), &HashSet::from([user(5)]));
        assert_eq!(next(&mut desired).unwrap().leaves, [user(5)]);
    }

    #[test]
    fn no_more_are_taken_out_in_a_call_than_is_said() {
        let mut desired = holding(&(0..300).collect::<Vec<_>>());
        desired.unwant_all();
        desired.want(&user(1_000));
        let call = desired.next(100).unwrap();
        assert_eq!((call.joins.len(), call.leaves.len()), (1, 100));
        desired.answered(&call, &done(201));
        assert_eq!(desired.next(1_000).unwrap().leaves.len(), 200);
    }

    #[test]
    fn while_the_store_is_away_comers_and_goers_leave_no_trace() {
        let mut desired = DesiredState::default();
        for round in 0..50 {
            for n in 0..500 {
                desired.want(&user(round * 500 + n));
            }
            let call = next(&mut desired).unwrap();
            desired.failed(&call);
            for n in 0..500 {
                desired.unwant(&user(round * 500 + n));
            }
        }
        assert!(desired.unsettled.len() <= MAX_BATCH, "{} remembered", desired.unsettled.len());
    }

    #[test]
    fn a_lost_entry_is_asserted_again_only_when_told_so() {
        let mut desired = DesiredState::default();
        for n in 0..1_500 {
            desired.want(&user(n));
        }
        let mut held = 0;
        while let Some(call) = next(&mut desired) {
            held += call.joins.len() as u64;
            assert_eq!(desired.answered(&call, &done(held)), Verdict::Settled);
        }
        assert_eq!(held, 1_500);
        desired.want(&user(1_500));
        let call = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&call, &ApplyReply::Unknown), Verdict::Lost);
        assert_eq!(next(&mut desired), None);
        desired.assert_again();
        let first = next(&mut desired).unwrap();
        assert_eq!((first.follows, first.joins.len()), (None, MAX_BATCH));
    }

    fn digest(users: &[UserId]) -> u64 {
        users.iter().fold(0, |sum, user| sum.wrapping_add(user.xxh3()))
    }

    #[test]
    fn what_must_be_held_follows_the_answers_and_not_the_wishes() {
        let mut desired = DesiredState::default();
        desired.want(&user(1));
        desired.want(&user(2));
        assert_eq!(desired.held(), Some(Held { members: 0, digest: 0, number: 0 }));
        let call = next(&mut desired).unwrap();
        assert_eq!(desired.held(), None, "the call under way may be carried out or not");
        desired.answered(&call, &done(2));
        desired.unwant(&user(1));
        desired.want(&user(3));
        let held = Held { members: 2, digest: digest(&[user(2), user(1)]), number: 1 };
        assert_eq!(desired.held(), Some(held));
        let call = next(&mut desired).unwrap();
        desired.failed(&call);
        assert_eq!(desired.held(), None);
    }

    #[test]
    fn whom_the_store_holds_and_shows_to_nobody_is_sent_again() {
        let mut desired = holding(&[1, 2]);
        desired.doubt();
        desired.reconcile(Some(1), &HashSet::from([user(1), user(2)]));
        assert_eq!(desired.send_again(&[user(2), user(9)]), 1, "who is not wanted is not sent");
        let again = next(&mut desired).unwrap();
        assert_eq!((again.joins.clone(), again.leaves.len()), (vec![user(2)], 0));
        assert_eq!(desired.answered(&again, &done(2)), Verdict::Settled);
        assert!(!desired.is_dirty());
    }

    #[test]
    fn a_wrong_count_is_noticed_and_put_right() {
        let mut desired = DesiredState::default();
        desired.want(&user(1));
        desired.want(&user(2));
        let call = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&call, &done(3)), Verdict::Mismatch);
        let held = HashSet::from([user(1), user(3)]);
        assert_eq!(desired.reconcile(Some(call.number), &held), Difference { missing: 1, extra: 1 });
        let mend = next(&mut desired).unwrap();
        assert_eq!((mend.joins, mend.leaves), (vec![user(2)], vec![user(3)]));
    }
}
