//! What this gateway wants to claim of the users of one slice, and what it has claimed as far as it
//! knows. The flusher asks for the next call and hands back the answer. Pure: no clock, no I/O.
//!
//! State is level-triggered. The gateway repairs a failed call from the present state, never from a
//! queue. A user is *unsettled* while the store may have another claim on the user than is wanted.
//! One call is in flight at a time; a call without an answer leaves its users *unsure*.
//!
//! Calls form a chain: each names the number of the call that it follows, so the store ignores a
//! call that arrives late or twice. The store refuses a call whose number does not fit. If it names
//! the number of a call that had no answer, the next call follows that one. Otherwise the claims
//! are lost: the gateway makes a new entry and says everybody again.
//!
//! Memory is bounded by the users who are wanted now, those of one call that had no answer, and the
//! users who left after the store had added them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{Hash, Hasher};

use crate::base::ids::UserId;
use crate::store::{ApplyRefusal, ApplyReply};

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
    /// The store lost the claim on this user, who is said again. Calls name such users last: who
    /// comes or leaves meanwhile does not wait for them.
    Lost,
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
            Self::Lost => Standing::Gone,
        }
    }

    /// The standing in the store, if it is certain.
    fn certain(self) -> Option<Standing> {
        match self {
            Self::Known(standing) => Some(standing),
            Self::Lost => Some(Standing::Gone),
            Self::Unsure(_) | Self::InFlight(_) => None,
        }
    }

    /// When a call names the user, compared with others.
    fn rank(self) -> CallRank {
        match self {
            Self::Unsure(_) => CallRank::First,
            Self::Known(_) | Self::InFlight(_) => CallRank::Second,
            Self::Lost => CallRank::Again,
        }
    }
}

/// When a call names an unsettled user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallRank {
    /// A call about the user had no answer.
    First,
    Second,
    /// The user is said again.
    Again,
}

/// The limits of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallLimit {
    /// The most users that it may change, at most [`crate::store::MAX_BATCH`].
    pub users: usize,
    /// Whether it may name users who are said again.
    pub may_say_again: bool,
}

#[cfg(test)]
impl CallLimit {
    pub(crate) const WHOLE_BATCH: Self = Self {
        users: crate::store::MAX_BATCH,
        may_say_again: true,
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
    /// More users are unsettled than the call names.
    pub more: bool,
    /// The call takes the entry away.
    pub bye: bool,
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
pub enum ApplyVerdict {
    /// The store did what the call asked for, or it may be asked again at once.
    Settled,
    /// The store refused the call: the next one follows another number, or makes a new entry.
    Refused,
    /// The epoch is over.
    Over,
}

/// The content of the store for this gateway if every call had an answer and took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldClaims {
    /// The number of users.
    pub members: u64,
    /// The number of fans among them.
    pub fans: u64,
    /// The number of the last call.
    pub number: u64,
}

/// What this gateway wants to claim of the users of one slice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DesiredState {
    wanted: HashSet<UserId>,
    /// The fans among the wanted users.
    fans: HashSet<UserId>,
    unsettled: HashMap<UserId, InStore>,
    /// The number of the gateway's entry, if it has one.
    entry: Option<u64>,
    /// The incarnation of the slice in which the last answered call was made; 0 is none, or a call
    /// that takes the entry away had no answer since.
    incarnation: u64,
    /// The number of the last call.
    number: u64,
    /// The number of the last call that was done. Later ones had no answer, or another one.
    done: u64,
    in_flight: bool,
    /// One more call is due even if no user is unsettled.
    call_required: bool,
    /// The entry says that there is more to come, until a call says that there is not.
    incomplete: bool,
    /// In this incarnation of the slice, somebody else changed the gateway's entry. The store must
    /// hear of it before the next call.
    complaint: Option<u64>,
    /// The gateway lets go of the slice once nobody is wanted and the store knows it.
    leaving: bool,
    /// Unsettled users of whom one leaves and the other comes in the same step, each with the
    /// other: one call names both.
    partners: HashMap<UserId, UserId>,
}

/// Only the model check hashes desired states. The sets stay unordered because every join looks
/// users up in them, so this sorts them.
impl Hash for DesiredState {
    fn hash<H: Hasher>(&self, state: &mut H) {
        BTreeSet::from_iter(&self.wanted).hash(state);
        BTreeSet::from_iter(&self.fans).hash(state);
        BTreeMap::from_iter(&self.unsettled).hash(state);
        (self.entry, self.number, self.done, self.incarnation).hash(state);
        (self.in_flight, self.call_required, self.complaint).hash(state);
        (self.leaving, self.incomplete).hash(state);
        BTreeMap::from_iter(&self.partners).hash(state);
    }
}

impl DesiredState {
    /// A state whose first call has the number after `number`. That number must be higher than the
    /// numbers of any earlier state of this gateway for the same slice and epoch, because one of
    /// its calls may still arrive.
    pub fn numbered_from(number: u64) -> Self {
        Self {
            number,
            done: number,
            ..Self::default()
        }
    }

    /// Wants the store to hold a user with this standing. True if another standing was wanted
    /// before.
    pub fn want(&mut self, user: &UserId, standing: Standing) -> bool {
        let before = self.standing(user);
        if before == standing {
            return false;
        }
        self.leaving &= standing == Standing::Gone;
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
            Some(in_store) if in_store.certain() == Some(standing) => {
                self.unsettled.remove(user);
                self.part(user);
            }
            Some(_) => {}
        }
        true
    }

    /// Has one call name both users, who are unsettled: one leaves and becomes the other. So no size
    /// of the slice shows one change without the other.
    pub fn pair(&mut self, one: &UserId, other: &UserId) {
        for user in [one, other] {
            self.part(user);
        }
        if self.is_settled(one) || self.is_settled(other) {
            return;
        }
        self.partners.insert(one.clone(), other.clone());
        self.partners.insert(other.clone(), one.clone());
    }

    fn part(&mut self, user: &UserId) {
        if let Some(other) = self.partners.remove(user) {
            self.partners.remove(&other);
        }
    }

    /// The unsettled user whom a call must name together with this one.
    fn partner(&self, user: &UserId) -> Option<(&UserId, InStore)> {
        let (other, in_store) = self.unsettled.get_key_value(self.partners.get(user)?)?;
        Some((other, *in_store))
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
        if in_store.certain() != Some(Standing::Gone) {
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
    pub fn held(&self) -> Option<HeldClaims> {
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

    /// Whether a user is wanted whom the store does not certainly hold for this gateway yet.
    pub(crate) fn is_newcomer(&self, user: &UserId) -> bool {
        match self.unsettled.get(user) {
            None | Some(InStore::Known(Standing::Member | Standing::Fan)) => false,
            // A call that is under way, or had no answer, may have removed a user who came back.
            Some(_) => self.wanted.contains(user),
        }
    }

    /// The number of unsettled users.
    pub fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// The number of the entry; `None` if there is none as far as the gateway knows.
    pub fn entry(&self) -> Option<u64> {
        self.entry
    }

    /// Whether the store has, or may have, an entry of this gateway.
    pub fn is_registered(&self) -> bool {
        self.entry.is_some() || self.number > self.done
    }

    /// Whether the next call creates the entry.
    pub fn must_register(&self) -> bool {
        self.entry.is_none()
    }

    /// Whether no user is wanted and the store certainly has no claim of this gateway.
    pub fn is_idle(&self) -> bool {
        self.wanted.is_empty() && !self.is_dirty() && !self.in_flight
    }

    /// Whether the store certainly has no entry of this gateway, and needs no call.
    pub fn has_let_go(&self) -> bool {
        self.is_idle() && !self.is_registered()
    }

    /// Whether a call, or a complaint, is due.
    pub fn is_dirty(&self) -> bool {
        !self.unsettled.is_empty()
            || self.call_required
            || self.incomplete
            || self.complaint.is_some()
            || self.says_bye()
    }

    /// Whether users are said again.
    pub fn says_again(&self) -> bool {
        self.unsettled.values().any(|it| *it == InStore::Lost)
    }

    /// How many users are said again.
    pub fn to_say_again(&self) -> usize {
        let lost = self.unsettled.values().filter(|it| **it == InStore::Lost);
        lost.count()
    }

    /// Requires one more call after the one in flight, even if nothing is unsettled.
    pub fn require_call(&mut self) {
        self.call_required |= self.entry.is_some() || self.in_flight;
    }

    /// Notes the incarnation of the slice. If the slice forgot since the last call, the entry is
    /// gone, and another call is due.
    pub fn note_incarnation(&mut self, incarnation: u64) {
        if incarnation > self.incarnation {
            self.require_call();
        }
    }

    /// Lets go of the slice as soon as nobody is wanted.
    pub fn let_go(&mut self) {
        self.leaving = true;
    }

    /// Whether the gateway has let go, and its entry is still to be taken away.
    fn says_bye(&self) -> bool {
        self.leaving && self.entry.is_some() && self.wanted.is_empty() && self.unsettled.is_empty()
    }

    /// Notes that the slice has an entry of this gateway that this gateway did not make in this
    /// incarnation of the slice.
    pub fn found_entry(&mut self, incarnation: u64) {
        if self.entry.is_none() && self.number == self.done {
            self.complaint = Some(incarnation);
        }
    }

    /// The incarnation of the slice in which somebody else changed this gateway's entry, until the
    /// store knows.
    pub fn complaint(&self) -> Option<u64> {
        self.complaint
    }

    /// Notes that the store knows of the complaint.
    pub fn complained(&mut self) {
        self.complaint = None;
    }

    /// Begins under a new id, of which the store knows nothing.
    pub fn begin_anew(&mut self) {
        if self.is_registered() {
            self.say_again();
        }
        self.done = self.number;
        self.incarnation = 0;
        self.complaint = None;
    }

    /// The most calls that settle all users who are unsettled now.
    pub(crate) fn calls_due(&self, limit: CallLimit) -> usize {
        self.unsettled.len().div_ceil(limit.users)
    }

    /// The next call, or `None` if none is due.
    pub fn next(&mut self, limit: CallLimit) -> Option<Draft> {
        if self.in_flight || !self.is_dirty() {
            return None;
        }
        let draft = self.batch(limit);
        // An entry is made even if nobody may be named yet: it says that there is more to come.
        let completes = self.incomplete && !draft.more;
        let is_due = self.call_required || completes || draft.bye || self.entry.is_none();
        if draft.is_empty() && !is_due {
            return None;
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

    /// A call about some unsettled users: first the unsure ones, of whom there is at most one batch
    /// in a slice of a live, and last those who are said again.
    fn batch(&self, limit: CallLimit) -> Draft {
        let mut draft = Draft {
            number: self.number + 1,
            follows: self.entry,
            joins: Vec::new(),
            fans: Vec::new(),
            leaves: Vec::new(),
            former_fans: Vec::new(),
            more: false,
            bye: self.says_bye(),
        };
        let mut paired = HashSet::new();
        for turn in [CallRank::First, CallRank::Second, CallRank::Again] {
            if turn == CallRank::Again && !limit.may_say_again {
                break;
            }
            for (user, in_store) in &self.unsettled {
                if draft.len() == limit.users {
                    break;
                }
                if in_store.rank() != turn || paired.contains(user) {
                    continue;
                }
                let partner = self.partner(user).filter(|_| limit.users > 1);
                let Some((other, of_other)) = partner else {
                    self.name(&mut draft, user, *in_store);
                    continue;
                };
                // A call that has room for one of them only leaves both to the next one.
                if draft.len() + 2 <= limit.users {
                    self.name(&mut draft, user, *in_store);
                    self.name(&mut draft, other, of_other);
                    paired.extend([user, other]);
                }
            }
        }
        draft.more = draft.len() < self.unsettled.len();
        draft
    }

    fn name(&self, draft: &mut Draft, user: &UserId, in_store: InStore) {
        let standing = self.standing(user);
        if in_store.before() == Standing::Fan && standing != Standing::Fan {
            draft.former_fans.push(user.clone());
        }
        match standing {
            Standing::Gone => draft.leaves.push(user.clone()),
            Standing::Member => draft.joins.push(user.clone()),
            Standing::Fan => draft.fans.push(user.clone()),
        }
    }

    /// Applies the answer to the call in flight.
    pub fn answered(&mut self, draft: &Draft, reply: &ApplyReply) -> ApplyVerdict {
        self.in_flight = false;
        let size = match reply {
            ApplyReply::Done(size) => size,
            ApplyReply::Over => return ApplyVerdict::Over,
            ApplyReply::Refused(refusal) => {
                self.mark_unsure(draft);
                self.refused(draft, refusal);
                return ApplyVerdict::Refused;
            }
            ApplyReply::Late(_) => {
                self.mark_unsure(draft);
                return ApplyVerdict::Settled;
            }
        };
        for (user, standing) in draft.users() {
            self.settle(user, standing);
            if self.is_settled(user) {
                self.part(user);
            }
        }
        self.done = draft.number;
        self.incarnation = size.incarnation;
        self.entry = if draft.bye { None } else { Some(draft.number) };
        self.incomplete = draft.more;
        ApplyVerdict::Settled
    }

    /// Notes that the store has claimed a user with this standing.
    fn settle(&mut self, user: &UserId, standing: Standing) {
        if let Some(InStore::Unsure(_)) = self.unsettled.get(user) {
            self.unsettled
                .insert(user.clone(), InStore::Unsure(standing));
        } else if self.standing(user) == standing {
            self.unsettled.remove(user);
        } else {
            self.unsettled
                .insert(user.clone(), InStore::Known(standing));
        }
    }

    fn refused(&mut self, draft: &Draft, refusal: &ApplyRefusal) {
        let incarnation = refusal.size.map_or(0, |size| size.incarnation);
        if let Some(number) = refusal.entry
            && self.is_unanswered(number)
        {
            self.entry = Some(number);
            self.done = number;
            self.incarnation = incarnation;
            self.require_call();
            return;
        }
        if draft.bye && refusal.entry.is_none() {
            // An earlier call took the entry away.
            self.entry = None;
            self.call_required = false;
            self.done = draft.number;
            return;
        }
        let is_known_incarnation = self.incarnation != 0 && incarnation == self.incarnation;
        if refusal.entry.is_some() || is_known_incarnation {
            self.complaint = Some(incarnation);
        }
        self.incarnation = incarnation;
        self.done = draft.number;
        self.say_again();
    }

    /// Whether a number is that of a call of this gateway that had no answer.
    fn is_unanswered(&self, number: u64) -> bool {
        self.done < number && number <= self.number
    }

    /// Has every wanted user said again: the claims are lost.
    fn say_again(&mut self) {
        self.entry = None;
        self.call_required = false;
        self.incomplete = false;
        self.partners.clear();
        let lost = self.wanted.iter().map(|user| (user.clone(), InStore::Lost));
        self.unsettled = lost.collect();
    }

    /// Notes that the call in flight had no answer: the store may have applied it, or may apply it
    /// later.
    pub fn failed(&mut self, draft: &Draft) {
        self.in_flight = false;
        if draft.bye {
            self.incarnation = 0;
        }
        self.mark_unsure(draft);
    }

    fn mark_unsure(&mut self, draft: &Draft) {
        // The draft may have been an empty call that was required.
        self.call_required |= self.entry.is_some() || draft.is_empty();
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
    fn expected_held(&self) -> Option<HeldClaims> {
        let mut held = HeldClaims {
            members: self.wanted.len() as u64,
            fans: self.fans.len() as u64,
            number: self.number,
        };
        for (user, in_store) in &self.unsettled {
            let in_store = in_store.certain()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MAX_BATCH, SliceSize};

    fn user(n: usize) -> UserId {
        UserId::parse(&format!("u{n}")).unwrap()
    }

    fn size_in(incarnation: u64) -> SliceSize {
        SliceSize {
            incarnation,
            ..SliceSize::default()
        }
    }

    /// The answer to a call that was done, in the first incarnation of the slice.
    fn done() -> ApplyReply {
        ApplyReply::Done(size_in(1))
    }

    fn refused(entry: Option<u64>, incarnation: u64) -> ApplyReply {
        ApplyReply::Refused(ApplyRefusal {
            entry,
            size: Some(size_in(incarnation)),
        })
    }

    fn next(desired: &mut DesiredState) -> Option<Draft> {
        desired.next(CallLimit::WHOLE_BATCH)
    }

    fn settle(desired: &mut DesiredState) -> Vec<Draft> {
        let mut calls = Vec::new();
        while let Some(call) = next(desired) {
            assert_eq!(desired.answered(&call, &done()), ApplyVerdict::Settled);
            calls.push(call);
        }
        calls
    }

    /// A state that has claimed these users.
    fn holding(users: &[usize]) -> DesiredState {
        let mut desired = DesiredState::default();
        for n in users {
            desired.want(&user(*n), Standing::Member);
        }
        settle(&mut desired);
        desired
    }

    #[test]
    fn one_call_names_both_of_a_pair_however_many_wait() {
        let limit = CallLimit {
            users: 3,
            may_say_again: false,
        };
        for round in 0..20 {
            let mut state = DesiredState::default();
            let guest = UserId::guest("g").unwrap();
            state.want(&guest, Standing::Member);
            settle(&mut state);
            let became = user(100 + round);
            state.want(&became, Standing::Member);
            state.want(&guest, Standing::Gone);
            state.pair(&guest, &became);
            for n in 0..7 {
                state.want(&user(n), Standing::Member);
            }
            let mut together = 0;
            while let Some(draft) = state.next(limit) {
                let names = draft.joins.contains(&became);
                assert_eq!(names, draft.leaves.contains(&guest), "{draft:?}");
                together += u32::from(names);
                state.answered(&draft, &ApplyReply::Done(SliceSize::default()));
            }
            assert!(together == 1 && state.partners.is_empty());
        }
    }

    #[test]
    fn a_user_is_a_newcomer_until_the_store_certainly_holds_the_user() {
        let mut desired = DesiredState::default();
        assert!(!desired.is_newcomer(&user(1)));
        desired.want(&user(1), Standing::Member);
        assert!(desired.is_newcomer(&user(1)));
        let call = next(&mut desired).unwrap();
        assert!(desired.is_newcomer(&user(1)));
        desired.answered(&call, &done());
        assert!(!desired.is_newcomer(&user(1)));
        desired.want(&user(1), Standing::Gone);
        let call = next(&mut desired).unwrap();
        desired.want(&user(1), Standing::Member);
        assert!(
            desired.is_newcomer(&user(1)),
            "the call may remove the user"
        );
        desired.failed(&call);
        assert!(
            desired.is_newcomer(&user(1)),
            "the call may have removed the user"
        );
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
        assert_eq!(desired.answered(&first, &done()), ApplyVerdict::Settled);
        desired.want(&user(1), Standing::Gone);
        let last = next(&mut desired).unwrap();
        assert_eq!((last.follows, last.leaves.len()), (Some(first.number), 1));
        assert_eq!(desired.answered(&last, &done()), ApplyVerdict::Settled);
        assert_eq!(
            (desired.entry(), desired.is_idle()),
            (Some(last.number), true),
            "the entry stays"
        );
        assert_eq!(next(&mut desired), None);
    }

    #[test]
    fn who_lets_go_takes_the_entry_away_once_nobody_is_there() {
        let mut desired = holding(&[1]);
        desired.let_go();
        assert_eq!(next(&mut desired), None, "somebody is here");
        desired.want(&user(1), Standing::Gone);
        let calls = settle(&mut desired);
        assert_eq!(
            calls.iter().map(|call| call.bye).collect::<Vec<_>>(),
            [false, true]
        );
        assert!(desired.has_let_go());
        desired.want(&user(2), Standing::Member);
        assert_eq!(next(&mut desired).unwrap().follows, None);
    }

    #[test]
    fn a_farewell_without_an_answer_is_no_reason_for_a_complaint() {
        for comes_back in [false, true] {
            let mut desired = holding(&[]);
            desired.want(&user(1), Standing::Member);
            settle(&mut desired);
            desired.want(&user(1), Standing::Gone);
            settle(&mut desired);
            desired.let_go();
            let bye = next(&mut desired).unwrap();
            desired.failed(&bye);
            if comes_back {
                desired.want(&user(1), Standing::Member);
            }
            let again = next(&mut desired).unwrap();
            assert_eq!(again.bye, !comes_back);
            desired.answered(&again, &refused(None, 1));
            assert_eq!(desired.complaint(), None);
            let calls = settle(&mut desired);
            assert_eq!(calls.len(), usize::from(comes_back));
        }
    }

    #[test]
    fn a_change_during_the_call_is_sent_with_the_next() {
        let mut desired = DesiredState::default();
        desired.want(&user(1), Standing::Member);
        let call = next(&mut desired).unwrap();
        desired.want(&user(1), Standing::Gone);
        assert_eq!(next(&mut desired), None, "one call at a time");
        assert_eq!(desired.answered(&call, &done()), ApplyVerdict::Settled);
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
    fn a_refused_call_follows_the_one_without_an_answer_that_was_done() {
        let mut desired = holding(&[1]);
        desired.want(&user(2), Standing::Member);
        let lost = next(&mut desired).unwrap();
        desired.failed(&lost);
        let again = next(&mut desired).unwrap();
        assert_eq!(
            desired.answered(&again, &refused(Some(lost.number), 1)),
            ApplyVerdict::Refused
        );
        let follower = next(&mut desired).unwrap();
        assert_eq!(
            (follower.follows, follower.joins.as_slice()),
            (Some(lost.number), &[user(2)][..])
        );
        assert_eq!(desired.answered(&follower, &done()), ApplyVerdict::Settled);
        assert!(!desired.is_dirty());
    }

    #[test]
    fn everybody_is_said_again_after_the_slice_forgot() {
        let mut desired = holding(&[1, 2]);
        desired.want(&user(2), Standing::Gone);
        desired.want(&user(3), Standing::Fan);
        let call = next(&mut desired).unwrap();
        desired.answered(&call, &refused(None, 2));
        assert_eq!(desired.complaint(), None, "the slice forgot by itself");
        let again = next(&mut desired).unwrap();
        assert_eq!(
            (again.follows, &again.joins, &again.fans, again.leaves.len()),
            (None, &vec![user(1)], &vec![user(3)], 0)
        );
    }

    #[test]
    fn an_entry_that_somebody_changed_is_complained_of() {
        for (entry, incarnation) in [(Some(77), 1), (Some(77), 2), (None, 1)] {
            let mut desired = holding(&[1]);
            desired.require_call();
            let call = next(&mut desired).unwrap();
            desired.answered(&call, &refused(entry, incarnation));
            assert_eq!(desired.complaint(), Some(incarnation), "{entry:?}");
            desired.complained();
            assert_eq!(next(&mut desired).unwrap().follows, None);
        }
        let mut desired = DesiredState::default();
        desired.found_entry(5);
        assert_eq!(desired.complaint(), Some(5));
    }

    #[test]
    fn a_gateway_under_a_new_id_says_everybody_and_complains_of_nothing() {
        let mut desired = holding(&[1]);
        desired.require_call();
        let call = next(&mut desired).unwrap();
        desired.answered(&call, &refused(None, 1));
        desired.begin_anew();
        assert_eq!(desired.complaint(), None);
        let first = next(&mut desired).unwrap();
        assert_eq!((first.follows, first.joins.len()), (None, 1));
    }

    #[test]
    fn who_comes_or_leaves_goes_before_those_who_are_said_again() {
        let mut desired = holding(&(0..300).collect::<Vec<_>>());
        desired.require_call();
        let call = next(&mut desired).unwrap();
        desired.answered(&call, &refused(None, 2));
        let early = CallLimit {
            users: 100,
            may_say_again: false,
        };
        let entry = desired.next(early).unwrap();
        assert_eq!((entry.len(), entry.more), (0, true), "the entry is made");
        let second = ApplyReply::Done(size_in(2));
        desired.answered(&entry, &second);
        assert_eq!(desired.next(early), None, "until more may be said");
        desired.want(&user(1_000), Standing::Member);
        let call = desired.next(early).unwrap();
        assert_eq!((&call.joins, call.more), (&vec![user(1_000)], true));
        desired.answered(&call, &second);
        let limit = CallLimit {
            may_say_again: true,
            ..early
        };
        let mut said = Vec::new();
        while let Some(call) = desired.next(limit) {
            desired.answered(&call, &second);
            said.push((call.len(), call.more));
        }
        assert_eq!(said, [(100, true), (100, true), (100, false)]);
        assert!(!desired.says_again() && !desired.is_dirty());
    }

    #[test]
    fn an_entry_is_completed_though_those_to_come_have_left() {
        let mut desired = DesiredState::default();
        for n in 0..3 {
            desired.want(&user(n), Standing::Member);
        }
        let limit = CallLimit {
            users: 2,
            may_say_again: true,
        };
        let call = desired.next(limit).unwrap();
        assert!(call.more);
        desired.answered(&call, &done());
        for n in 0..3 {
            if !call.joins.contains(&user(n)) {
                desired.want(&user(n), Standing::Gone);
            }
        }
        let last = desired.next(limit).unwrap();
        assert_eq!((last.len(), last.more), (0, false));
        desired.answered(&last, &done());
        assert!(!desired.is_dirty());
    }

    #[test]
    fn a_required_call_comes_after_the_one_in_flight_and_is_repeated_until_it_is_answered() {
        let mut desired = holding(&[1]);
        desired.want(&user(2), Standing::Member);
        let in_flight = next(&mut desired).unwrap();
        desired.require_call();
        assert_eq!(desired.answered(&in_flight, &done()), ApplyVerdict::Settled);
        assert!(desired.is_dirty());
        let empty = next(&mut desired).unwrap();
        assert_eq!(
            (empty.follows, empty.joins.len() + empty.leaves.len()),
            (Some(in_flight.number), 0)
        );
        desired.failed(&empty);
        let again = next(&mut desired).unwrap();
        assert_eq!(desired.answered(&again, &done()), ApplyVerdict::Settled);
        assert!(!desired.is_dirty());
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
            may_say_again: true,
        };
        assert_eq!(desired.calls_due(limit), 3);
        for changed in [250, 250, 200] {
            let call = desired.next(limit).unwrap();
            assert_eq!(call.len(), changed);
            assert_eq!(desired.answered(&call, &done()), ApplyVerdict::Settled);
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
    fn what_is_claimed_follows_the_answers_and_not_what_is_wanted() {
        let mut desired = holding(&[1, 2]);
        desired.want(&user(1), Standing::Gone);
        desired.want(&user(3), Standing::Member);
        let held = HeldClaims {
            members: 2,
            fans: 0,
            number: 1,
        };
        assert_eq!(desired.held(), Some(held));
        let call = next(&mut desired).unwrap();
        assert_eq!(
            desired.held(),
            None,
            "the store may have done the call in flight or not"
        );
        desired.failed(&call);
        assert_eq!(desired.held(), None);
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
        assert_eq!(desired.answered(&again, &done()), ApplyVerdict::Settled);
        let again = next(&mut desired).unwrap();
        assert_eq!(again.joins, [user(1)]);
        assert_eq!(desired.answered(&again, &done()), ApplyVerdict::Settled);
        assert!(!desired.is_dirty());
        // The user goes and comes back before the store heard of it.
        desired.want(&user(1), Standing::Gone);
        desired.tell_again(&user(1));
        desired.want(&user(1), Standing::Member);
        assert_eq!(next(&mut desired).unwrap().joins, [user(1)]);
    }

    #[test]
    fn the_answer_of_a_fan_check_is_one_more_change_of_the_same_user() {
        let mut desired = holding(&[1, 2]);
        desired.want(&user(1), Standing::Fan);
        let call = next(&mut desired).unwrap();
        assert_eq!((&call.fans, call.len()), (&vec![user(1)], 1));
        assert_eq!(desired.answered(&call, &done()), ApplyVerdict::Settled);
        desired.want(&user(1), Standing::Member);
        let call = next(&mut desired).unwrap();
        assert_eq!(
            (&call.joins, &call.former_fans),
            (&vec![user(1)], &vec![user(1)])
        );
        assert_eq!(desired.answered(&call, &done()), ApplyVerdict::Settled);
        assert!(!desired.is_dirty());
    }

    #[test]
    fn a_fan_whose_leave_had_no_answer_is_told_as_a_former_fan_with_the_next_call() {
        let mut desired = DesiredState::default();
        desired.want(&user(1), Standing::Fan);
        settle(&mut desired);
        desired.want(&user(1), Standing::Gone);
        let lost = next(&mut desired).unwrap();
        desired.failed(&lost);
        let again = next(&mut desired).unwrap();
        assert_eq!(
            (&again.leaves, &again.former_fans),
            (&vec![user(1)], &vec![user(1)])
        );
    }
}
