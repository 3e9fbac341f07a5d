//! Owns the gateway's side of the slice protocol: what this gateway wants one slice of the store to hold, and what it
//! knows the slice to hold. Pure: no clock, no I/O; calls go out as values and answers come in.
//!
//! State is level-triggered. What the slice should hold is always here, so a failed call is made good from the present
//! state, never from a queue. A user is *unsettled* while the store may hold something else than is wanted. One call
//! is under way at a time; what it carries is unsettled until its answer, and *unsure* when there is none.
//!
//! Bounded: besides the users wanted now, at most [`MAX_BATCH`] users are remembered whose calls had no answer, and
//! those that left after the store had them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use crate::ids::UserId;
use crate::store::{ApplyReply, Entry, MAX_BATCH};

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

/// Whether the store has an entry (a lease) for this gateway in this slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Lease {
    /// None, and none is needed until somebody is wanted.
    None,
    /// A call that registers had no answer.
    Unsure,
    /// There is one.
    Held,
    /// It was there and is gone: this gateway was swept, or the store lost its data. Nothing is sent until the live is
    /// known to be open still.
    Lost,
}

/// The next call to make.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Draft {
    /// Number of the call; grows by each.
    pub number: u64,
    /// What becomes of the entry.
    pub entry: Entry,
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
    /// The store holds another number of users than it should: read what it holds and [`Ledger::reconcile`].
    Mismatch,
    /// The entry is gone: make sure that the live is open, then [`Ledger::assert_again`].
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

/// The ledger of one slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger {
    wanted: HashSet<UserId>,
    /// The wrapping sum of the wanted users' hashes: kept up with each of them, so that nobody counts under the lock.
    digest: u64,
    unsettled: HashMap<UserId, Was>,
    lease: Lease,
    number: u64,
    in_flight: bool,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            wanted: HashSet::new(),
            digest: 0,
            unsettled: HashMap::new(),
            lease: Lease::None,
            number: 0,
            in_flight: false,
        }
    }
}

/// Only a model check hashes ledgers, to tell its states apart; the sets are looked up on every join, so they stay
/// without order and are put in order here.
impl Hash for Ledger {
    fn hash<H: Hasher>(&self, state: &mut H) {
        BTreeSet::from_iter(&self.wanted).hash(state);
        BTreeMap::from_iter(&self.unsettled).hash(state);
        (self.lease, self.number, self.in_flight).hash(state);
    }
}

impl Ledger {
    /// A ledger whose first call has the number after `number`. It must be above that of any earlier ledger of this
    /// gateway for the same slice and epoch: a call of that one may still arrive.
    pub fn numbered_from(number: u64) -> Self {
        Self { number, ..Self::default() }
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

    /// What the store must hold for this gateway by now; `None` while a call is under way or had no answer. Costs as much
    /// as there is unsettled.
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

    /// Whether there is, or may be, an entry of this gateway's in the store.
    pub fn is_registered(&self) -> bool {
        self.lease != Lease::None
    }

    /// Whether [`Ledger::next`] has something to say, or would have but for a lost entry.
    pub fn is_dirty(&self) -> bool {
        !self.unsettled.is_empty() || self.is_lost()
    }

    /// Whether the entry was lost: nothing is said until [`Ledger::assert_again`].
    pub fn is_lost(&self) -> bool {
        self.lease == Lease::Lost
    }

    /// How many calls it takes to settle what is unsettled now.
    pub fn calls_due(&self) -> usize {
        self.unsettled.len().div_ceil(MAX_BATCH)
    }

    /// The next call, or `None` if there is nothing to say. With `refresh` the lease is renewed even so.
    pub fn next(&mut self, refresh: bool) -> Option<Draft> {
        if self.in_flight || self.is_lost() {
            return None;
        }
        let refresh = refresh && self.lease != Lease::None;
        if self.unsettled.is_empty() && !refresh {
            return None;
        }
        let (joins, leaves) = self.batch();
        let entry = match self.lease {
            Lease::Held if self.wanted.is_empty() && leaves.len() == self.unsettled.len() => Entry::Release,
            Lease::Held => Entry::Keep,
            _ => Entry::Register,
        };
        if entry == Entry::Register {
            self.lease = Lease::Unsure;
        }
        for user in joins.iter().chain(&leaves) {
            self.unsettled.insert(user.clone(), Was::Sent);
        }
        self.number += 1;
        self.in_flight = true;
        Some(Draft { number: self.number, entry, joins, leaves })
    }

    /// Up to [`MAX_BATCH`] unsettled users, the unsure ones first, so that no more than one batch is ever unsure.
    fn batch(&self) -> (Vec<UserId>, Vec<UserId>) {
        let unsure = self.unsettled.iter().filter(|(_, was)| **was == Was::Unsure);
        let others = self.unsettled.iter().filter(|(_, was)| **was != Was::Unsure);
        let batch = unsure.chain(others).map(|(user, _)| user.clone()).take(MAX_BATCH);
        batch.partition(|user| self.wanted.contains(user))
    }

    /// Takes in the answer to the call under way.
    pub fn answered(&mut self, draft: &Draft, reply: &ApplyReply) -> Verdict {
        self.in_flight = false;
        let view = match reply {
            ApplyReply::Done(view) => view,
            ApplyReply::Closed | ApplyReply::Newer(_) => return Verdict::Over,
            ApplyReply::Unknown => {
                self.lease = Lease::Lost;
                return Verdict::Lost;
            }
            // Only a later call of this ledger could have a higher number: its answer was lost, so nothing is sure.
            ApplyReply::Stale => {
                self.unsure(draft);
                return Verdict::Mismatch;
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
        self.lease = if draft.entry == Entry::Release && view.held == 0 { Lease::None } else { Lease::Held };
        if self.expected_held().is_some_and(|expected| expected != view.held) {
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
        self.lease = Lease::None;
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

    /// Compares with what the store was read to hold for this gateway while no call was under way. Answers how many
    /// users differed; they are sent with the next calls.
    pub fn reconcile(&mut self, held: &HashSet<UserId>) -> Difference {
        let missing = self.wanted.iter().filter(|user| !held.contains(*user));
        let extra = held.iter().filter(|user| !self.wanted.contains(*user));
        let wrong: Vec<UserId> =
            missing.chain(extra).filter(|user| !self.unsettled.contains_key(*user)).cloned().collect();
        // A difference found by reading is sure; `Present` and `Absent` are what was read.
        let mut difference = Difference::default();
        for user in &wrong {
            let was = if held.contains(user) {
                difference.extra += 1;
                Was::Present
            } else {
                difference.missing += 1;
                Was::Absent
            };
            self.unsettled.insert(user.clone(), was);
        }
        difference
    }

    /// Forgets everything: the epoch is over.
    pub fn clear(&mut self) {
        *self = Self { number: self.number, ..Self::default() };
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
        ApplyReply::Done(SliceView { card: held, held, at: 0, silent: vec![] })
    }

    #[test]
    fn a_user_who_leaves_before_the_flush_is_never_sent() {
        let mut ledger = Ledger::default();
        ledger.want(&user(1));
        ledger.unwant(&user(1));
        assert!(!ledger.is_dirty());
        assert_eq!(ledger.next(false), None);
    }

    #[test]
    fn the_first_call_registers_and_the_last_releases() {
        let mut ledger = Ledger::default();
        ledger.want(&user(1));
        let first = ledger.next(false).unwrap();
        assert_eq!((first.entry, first.joins.len()), (Entry::Register, 1));
        assert_eq!(ledger.answered(&first, &done(1)), Verdict::Settled);
        assert_eq!(ledger.next(true).map(|d| d.entry), Some(Entry::Keep));
        let mut ledger = Ledger { in_flight: false, ..ledger };
        ledger.unwant(&user(1));
        let last = ledger.next(false).unwrap();
        assert_eq!((last.entry, last.leaves.len()), (Entry::Release, 1));
        assert_eq!(ledger.answered(&last, &done(0)), Verdict::Settled);
        assert!(!ledger.is_registered());
        assert_eq!(ledger.next(true), None);
    }

    #[test]
    fn a_change_during_the_call_is_sent_with_the_next() {
        let mut ledger = Ledger::default();
        ledger.want(&user(1));
        let call = ledger.next(false).unwrap();
        ledger.unwant(&user(1));
        assert_eq!(ledger.next(false), None, "one call at a time");
        assert_eq!(ledger.answered(&call, &done(1)), Verdict::Settled);
        let next = ledger.next(false).unwrap();
        assert_eq!(next.leaves, vec![user(1)]);
    }

    #[test]
    fn a_call_without_an_answer_sends_the_present_state_again() {
        let mut ledger = Ledger::default();
        ledger.want(&user(1));
        let call = ledger.next(false).unwrap();
        ledger.failed(&call);
        ledger.unwant(&user(1));
        let next = ledger.next(false).unwrap();
        assert_eq!((next.leaves.len(), next.joins.len(), next.entry), (1, 0, Entry::Register));
        assert!(next.number > call.number);
    }

    #[test]
    fn while_the_store_is_away_comers_and_goers_leave_no_trace() {
        let mut ledger = Ledger::default();
        for round in 0..50 {
            for n in 0..500 {
                ledger.want(&user(round * 500 + n));
            }
            let call = ledger.next(false).unwrap();
            ledger.failed(&call);
            for n in 0..500 {
                ledger.unwant(&user(round * 500 + n));
            }
        }
        assert!(ledger.unsettled.len() <= MAX_BATCH, "{} remembered", ledger.unsettled.len());
    }

    #[test]
    fn a_lost_entry_is_asserted_again_only_when_told_so() {
        let mut ledger = Ledger::default();
        for n in 0..1_500 {
            ledger.want(&user(n));
        }
        let mut held = 0;
        while let Some(call) = ledger.next(false) {
            held += call.joins.len() as u64;
            assert_eq!(ledger.answered(&call, &done(held)), Verdict::Settled);
        }
        assert_eq!(held, 1_500);
        let refresh = ledger.next(true).unwrap();
        assert_eq!(ledger.answered(&refresh, &ApplyReply::Unknown), Verdict::Lost);
        assert_eq!(ledger.next(true), None);
        ledger.assert_again();
        let first = ledger.next(false).unwrap();
        assert_eq!((first.entry, first.joins.len()), (Entry::Register, MAX_BATCH));
    }

    fn digest(users: &[UserId]) -> u64 {
        users.iter().fold(0, |sum, user| sum.wrapping_add(user.xxh3()))
    }

    #[test]
    fn what_must_be_held_follows_the_answers_and_not_the_wishes() {
        let mut ledger = Ledger::default();
        ledger.want(&user(1));
        ledger.want(&user(2));
        assert_eq!(ledger.held(), Some(Held { members: 0, digest: 0, number: 0 }));
        let call = ledger.next(false).unwrap();
        assert_eq!(ledger.held(), None, "the call under way may be carried out or not");
        ledger.answered(&call, &done(2));
        ledger.unwant(&user(1));
        ledger.want(&user(3));
        let held = Held { members: 2, digest: digest(&[user(2), user(1)]), number: 1 };
        assert_eq!(ledger.held(), Some(held));
        let call = ledger.next(false).unwrap();
        ledger.failed(&call);
        assert_eq!(ledger.held(), None);
    }

    #[test]
    fn whom_the_store_holds_and_shows_to_nobody_is_sent_again() {
        let mut ledger = Ledger::default();
        ledger.want(&user(1));
        ledger.want(&user(2));
        let call = ledger.next(false).unwrap();
        ledger.answered(&call, &done(2));
        assert_eq!(ledger.send_again(&[user(2), user(9)]), 1, "who is not wanted is not sent");
        let again = ledger.next(false).unwrap();
        assert_eq!((again.joins.clone(), again.leaves.len()), (vec![user(2)], 0));
        assert_eq!(ledger.answered(&again, &done(2)), Verdict::Settled);
        assert!(!ledger.is_dirty());
    }

    #[test]
    fn a_wrong_count_is_noticed_and_put_right() {
        let mut ledger = Ledger::default();
        ledger.want(&user(1));
        ledger.want(&user(2));
        let call = ledger.next(false).unwrap();
        assert_eq!(ledger.answered(&call, &done(3)), Verdict::Mismatch);
        let held = HashSet::from([user(1), user(3)]);
        assert_eq!(ledger.reconcile(&held), Difference { missing: 1, extra: 1 });
        let mend = ledger.next(false).unwrap();
        assert_eq!((mend.joins, mend.leaves), (vec![user(2)], vec![user(3)]));
    }
}
