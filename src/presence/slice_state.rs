//! What lies behind a slice's lock: the [`DesiredState`] towards the store, and the slice's place in the flusher's
//! queue. A room and the platform update the desired state with each change of their users. The flusher and the checker
//! take the lock, too; a heartbeat never does. Never awaits.

use std::collections::HashSet;

use tokio::time::Instant;

use super::desired_state::{DesiredState, Difference, Draft, Verdict};
use super::resync_at::ResyncAt;
use super::turn::{Step, Turn, TurnContext};
use super::unconfirmed::Unconfirmed;
use crate::base::clock::Millis;
use crate::base::ids::{Epoch, UserId};
use crate::store::{ApplyReply, Fence, HeldMembers, MAX_BATCH, SliceReading};

/// Where a slice is in the flusher's queue; the flusher runs one job per slice at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Idle,
    Queued,
    Running,
    RunningAgain,
}

#[derive(Debug)]
pub struct SliceState {
    desired: DesiredState,
    /// The users who are in no list, until the store knows that they left.
    invisible: HashSet<UserId>,
    /// Those of them who became so while a call about them was under way.
    not_hidden_yet: Vec<UserId>,
    job: Job,
    unconfirmed: Unconfirmed,
    /// When the whole slice may be sent or read again, once the slice has asked for that.
    resync_at: ResyncAt,
    /// How many users the store was found to hold wrongly, until that is repaired.
    drift: usize,
    /// The incarnation of this gateway that makes the calls; 0 before the first call.
    incarnation: u32,
    /// When a call last wrote the slice's keys, which renews their lifetimes.
    written: Millis,
}

impl SliceState {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            // Higher than every number of an earlier room: no slice makes a thousand calls in a millisecond.
            desired: DesiredState::numbered_from(now * 1_000),
            invisible: HashSet::new(),
            not_hidden_yet: Vec::new(),
            job: Job::Idle,
            unconfirmed: Unconfirmed::default(),
            resync_at: ResyncAt::default(),
            drift: 0,
            incarnation: 0,
            written: now,
        }
    }

    // -------------------------------------------------------------------------------------------------------- users

    /// Wants the store to hold this user.
    pub fn add(&mut self, user: &UserId) {
        self.desired.add(user);
    }

    /// As [`Self::add`], of a user who is in no list from now on, until the store holds the user no longer.
    pub fn add_invisible(&mut self, user: &UserId) {
        let (is_new, was_wanted) = (self.invisible.insert(user.clone()), self.desired.contains(user));
        self.desired.add(user);
        // The store may hold the user as one whom everybody may see, also if the user was about to leave.
        if is_new && self.desired.is_settled(user) {
            self.desired.resend(std::slice::from_ref(user));
        } else if is_new && was_wanted {
            self.not_hidden_yet.push(user.clone());
        }
    }

    /// Wants the store not to hold this user.
    pub fn remove(&mut self, user: &UserId) {
        self.desired.remove(user);
        self.forget_invisible(std::slice::from_ref(user));
    }

    /// Forgets that those of these users are invisible whom the store holds no longer.
    fn forget_invisible(&mut self, users: &[UserId]) {
        if self.invisible.is_empty() {
            return;
        }
        for user in users.iter().filter(|user| self.desired.is_rid_of(user)) {
            self.invisible.remove(user);
        }
    }

    /// As [`Self::forget_invisible`], of all users.
    fn forget_all_invisible(&mut self) {
        let desired = &self.desired;
        self.invisible.retain(|user| !desired.is_rid_of(user));
    }

    /// Tells the store again who is invisible.
    fn resend_invisible(&mut self) {
        self.desired.resend(&Vec::from_iter(self.invisible.iter().cloned()));
    }

    /// Whether a user is in no list, until the store knows that the user left.
    pub fn is_invisible(&self, user: &UserId) -> bool {
        self.invisible.contains(user)
    }

    /// Puts the invisible first; how many they are.
    pub fn sort_invisible(&self, users: &mut [UserId]) -> usize {
        if self.invisible.is_empty() {
            return 0;
        }
        users.sort_by_key(|user| !self.invisible.contains(user));
        users.partition_point(|user| self.invisible.contains(user))
    }

    /// Wants the store to hold nobody, for good: the gateway stops.
    pub fn want_nobody(&mut self) {
        self.desired.remove_all();
    }

    /// Forgets everybody: the epoch is over.
    pub fn clear(&mut self) {
        self.desired.clear();
        (self.invisible, self.not_hidden_yet) = (HashSet::new(), Vec::new());
        self.unconfirmed = Unconfirmed::default();
        self.drift = 0;
    }

    /// Frees most of the memory that a peak left.
    pub fn shrink(&mut self) {
        self.desired.shrink();
    }

    // -------------------------------------------------------------------------------------------------- for a look

    pub fn desired(&self) -> &DesiredState {
        &self.desired
    }

    pub fn drift(&self) -> usize {
        self.drift
    }

    /// Whether the store needs a call.
    pub fn is_dirty(&self) -> bool {
        self.desired.is_dirty()
    }

    /// Whether the store certainly holds nobody for this gateway and needs no call.
    pub fn is_idle(&self) -> bool {
        self.desired.is_idle() && self.has_no_job()
    }

    /// Whether no job of the flusher is queued or under way.
    pub fn has_no_job(&self) -> bool {
        self.job == Job::Idle
    }

    pub fn unconfirmed_since(&self) -> Option<Instant> {
        self.unconfirmed.since()
    }

    // ---------------------------------------------------------------------------------------------- for the flusher

    /// Notes that there is something to do that the store has not confirmed.
    pub fn note_unconfirmed(&mut self, now: Instant) {
        self.unconfirmed.note(now);
    }

    /// Asks for a job. True if the caller must queue the slice.
    pub fn ask_job(&mut self) -> bool {
        match self.job {
            Job::Idle => {
                self.job = Job::Queued;
                true
            }
            Job::Running => {
                self.job = Job::RunningAgain;
                false
            }
            Job::Queued | Job::RunningAgain => false,
        }
    }

    pub fn start_job(&mut self) {
        self.job = Job::Running;
        self.unconfirmed.start();
    }

    /// Notes that the job did all it could.
    pub fn confirm_job(&mut self) {
        self.unconfirmed.confirm();
    }

    /// Ends a job that was confirmed. True if the slice must be queued again.
    pub fn end_job(&mut self) -> bool {
        let again = self.job == Job::RunningAgain;
        self.job = if again { Job::Queued } else { Job::Idle };
        again
    }

    /// Keeps the slice queued: the job failed or has to wait.
    pub fn postpone_job(&mut self) {
        self.unconfirmed.put_back();
        self.job = Job::Queued;
    }

    /// Begins a turn of calls by this incarnation. Under a new incarnation the store holds nobody for this gateway.
    pub fn begin_turn(&mut self, incarnation: u32, context: TurnContext) -> Turn {
        if std::mem::replace(&mut self.incarnation, incarnation) != incarnation {
            self.desired.lose_entry();
        }
        Turn::new(context, &self.desired)
    }

    pub fn next_step(&mut self, turn: &mut Turn) -> Step {
        turn.next(&mut self.desired)
    }

    /// Whether the next call creates this gateway's entry.
    pub fn registers_next(&self) -> bool {
        self.desired.is_dirty() && (self.desired.must_register() || self.desired.is_lost())
    }

    pub fn answered(&mut self, draft: &Draft, reply: &ApplyReply, now: Millis) -> Verdict {
        if matches!(reply, ApplyReply::Done(_)) {
            self.written = now;
        }
        let verdict = self.desired.answered(draft, reply);
        self.forget_invisible(&draft.leaves);
        self.desired.resend(&std::mem::take(&mut self.not_hidden_yet));
        verdict
    }

    pub fn failed(&mut self, draft: &Draft) {
        self.desired.failed(draft);
    }

    /// Sends every wanted user again if the entry was lost. True if it was.
    pub fn reassert(&mut self) -> bool {
        let lost = self.desired.is_lost();
        if lost {
            self.desired.reassert();
            self.forget_all_invisible();
        }
        lost
    }

    /// Takes in what the store holds for this gateway; see [`DesiredState::reconcile`].
    pub fn reconcile(&mut self, entry: Option<u64>, held: &HeldMembers) -> Difference {
        let mut difference = self.desired.reconcile(entry, &held.users);
        difference.missing += self.desired.resend(&held.missing);
        self.drift = difference.total();
        self.forget_all_invisible();
        // A store that came back with older data may hold them as users whom everybody may see.
        self.resend_invisible();
        difference
    }

    /// Ends a turn.
    pub fn end_turn(&mut self) {
        if !self.desired.is_dirty() {
            self.drift = 0;
        }
    }

    /// When the whole slice may be sent or read again; see [`ResyncAt::take`].
    pub fn resync_at(&mut self, now: Millis, book: impl FnOnce(u32) -> Millis) -> Option<Millis> {
        self.resync_at.take(self.desired.wanted(), now, book)
    }

    // ------------------------------------------------------------------------------------------------- for readings

    /// Takes in an entry that this incarnation made for an earlier room, as it was read when this room was made.
    pub fn found_entry(&mut self, number: u64, held: u64, incarnation: u32) {
        self.incarnation = incarnation;
        self.desired.found_entry(number, held);
    }

    /// See [`super::slice::Slice::expect`]: the entry and how many users are held.
    pub fn expect(&mut self, incarnation: u32) -> Option<(Option<u64>, u64)> {
        // Only the gateways know who is invisible. So each says it again, in case another program removed somebody.
        self.resend_invisible();
        let is_settled = !self.desired.is_dirty() && (self.incarnation == incarnation || !self.desired.is_registered());
        let held = self.desired.held().filter(|_| is_settled);
        if held.is_none() {
            // The store may have applied the call in flight before the event that this check is made for.
            self.desired.require_call();
        }
        held.map(|held| (self.desired.entry(), held.members))
    }

    /// Takes in what a check found instead of `expected`. False if a call was made meanwhile: then nothing is taken in.
    pub fn found_instead(&mut self, expected: Option<u64>, reading: &SliceReading, epoch: Epoch) -> bool {
        if self.desired.entry() != expected || self.desired.held().is_none() {
            return false;
        }
        match (expected, reading.entry) {
            (Some(_), None) => self.desired.lose_entry(),
            (Some(_), Some(_)) => self.desired.require_read_back(),
            (None, Some(number)) if reading.fence == Some(Fence::Open(epoch)) => {
                self.desired.found_entry(number, reading.held);
            }
            // Another program wrote there. The call that makes the entry finds that out.
            (None, None) if reading.held > 0 => self.desired.require_entry(),
            (None, _) => {}
        }
        true
    }

    /// Has everything read back that this gateway holds: a foreign write may have left all sizes as they were.
    pub fn read_back_all(&mut self) {
        self.desired.require_read_back();
    }

    /// Has what this gateway holds looked at again, since another program wrote to the slice: a few users are read
    /// back, and of many the size is compared with the next call.
    pub fn look_again(&mut self) {
        if self.desired.wanted() <= MAX_BATCH {
            self.desired.require_read_back();
        } else {
            self.desired.require_call();
        }
    }

    /// Requires a call if none has written the slice since `then`. True if it is due.
    pub fn write_again(&mut self, then: Millis) -> bool {
        let due = self.written < then && self.desired.wanted() > 0;
        if due {
            self.desired.require_call();
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::desired_state::CallLimit;
    use crate::store::{SliceSize, SliceView};

    fn draft(state: &mut SliceState) -> Option<(Draft, usize)> {
        let mut turn = state.begin_turn(1, TurnContext { known_open: true, limit: CallLimit::WHOLE_BATCH });
        let Step::Call(draft) = state.next_step(&mut turn) else { return None };
        let invisible = state.sort_invisible(&mut draft.joins.clone());
        Some((draft, invisible))
    }

    fn done(state: &mut SliceState, draft: &Draft, held: u64) {
        state.answered(
            draft,
            &ApplyReply::Done(SliceView { size: SliceSize { card: held, ..SliceSize::default() }, held }),
            0,
        );
    }

    #[test]
    fn a_user_who_becomes_invisible_during_a_call_is_sent_again() {
        let (mut state, user) = (SliceState::new(0), UserId::parse("u1").unwrap());
        state.add(&user);
        let (first, invisible) = draft(&mut state).unwrap();
        assert_eq!((first.joins.len(), invisible), (1, 0));
        state.add_invisible(&user);
        done(&mut state, &first, 1);
        let (second, invisible) = draft(&mut state).unwrap();
        assert_eq!((&second.joins, invisible), (&vec![user.clone()], 1));
        done(&mut state, &second, 1);
        state.add_invisible(&user);
        assert!(draft(&mut state).is_none(), "the store knows");
        // A user who comes back by another socket is seen again.
        state.remove(&user);
        let (leave, _) = draft(&mut state).unwrap();
        done(&mut state, &leave, 0);
        state.add(&user);
        assert_eq!(draft(&mut state).unwrap().1, 0);
    }

    #[test]
    fn a_settled_user_who_becomes_invisible_is_sent_again_and_one_who_never_was_sent_is_forgotten() {
        let (mut state, user) = (SliceState::new(0), UserId::parse("u1").unwrap());
        state.add(&user);
        let (first, _) = draft(&mut state).unwrap();
        done(&mut state, &first, 1);
        state.add_invisible(&user);
        assert_eq!(draft(&mut state).unwrap().1, 1);
        let mut other = SliceState::new(0);
        other.add_invisible(&user);
        other.remove(&user);
        assert_eq!(other.sort_invisible(&mut [user]), 0);
    }

    #[test]
    fn a_user_who_comes_back_invisible_before_the_store_knows_of_the_leave_is_sent_again() {
        let (mut state, user) = (SliceState::new(0), UserId::parse("u1").unwrap());
        state.add(&user);
        let (first, _) = draft(&mut state).unwrap();
        done(&mut state, &first, 1);
        state.remove(&user);
        state.add_invisible(&user);
        let (again, invisible) = draft(&mut state).unwrap();
        assert_eq!((again.joins, invisible), (vec![user], 1));
    }

    fn held(users: &[&UserId]) -> HeldMembers {
        HeldMembers { users: users.iter().map(|&user| user.clone()).collect(), ..HeldMembers::default() }
    }

    #[test]
    fn an_invisible_user_is_sent_again_after_the_store_was_read() {
        let (mut state, user, other) = (SliceState::new(0), UserId::parse("u1").unwrap(), UserId::parse("u2").unwrap());
        [&user, &other].into_iter().for_each(|user| state.add(user));
        let (first, _) = draft(&mut state).unwrap();
        done(&mut state, &first, 2);
        state.add_invisible(&user);
        let (hidden, _) = draft(&mut state).unwrap();
        done(&mut state, &hidden, 2);
        // The store comes back as it was before that call.
        state.desired.require_read_back();
        assert_eq!(state.reconcile(Some(first.number), &held(&[&user, &other])).total(), 0, "this is no drift");
        let (again, invisible) = draft(&mut state).unwrap();
        assert_eq!((again.joins.clone(), invisible), (vec![user], 1));
        done(&mut state, &again, 2);
        assert!(draft(&mut state).is_none());
    }

    #[test]
    fn an_invisible_user_whom_the_store_has_lost_is_forgotten_with_the_last_visit() {
        let user = UserId::parse("u1").unwrap();
        let leaving = || {
            let mut state = SliceState::new(0);
            state.add_invisible(&user);
            let (first, _) = draft(&mut state).unwrap();
            done(&mut state, &first, 1);
            state.remove(&user);
            (state, first.number)
        };
        let is_forgotten = |mut state: SliceState| {
            assert!(!state.is_invisible(&user));
            state.add(&user);
            assert_eq!(draft(&mut state).unwrap().1, 0, "the next visit is another one");
        };
        let (mut state, number) = leaving();
        state.desired.require_read_back();
        state.reconcile(Some(number), &held(&[&user]));
        assert!(state.is_invisible(&user), "the store holds the user still");
        state.desired.require_read_back();
        state.reconcile(Some(number), &held(&[]));
        is_forgotten(state);
        let (mut state, _) = leaving();
        state.desired.lose_entry();
        assert!(state.is_invisible(&user) && state.reassert());
        is_forgotten(state);
    }
}
