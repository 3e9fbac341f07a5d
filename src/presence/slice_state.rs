//! The state behind a slice's lock: the [`DesiredState`] towards the store, and the slice's place
//! in the flusher's queue. A room and the platform update the desired state with each change of
//! their users. The flusher and the checker take the lock, too; a heartbeat never does. Never
//! awaits.

use tokio::time::Instant;

use super::desired_state::{ApplyVerdict, DesiredState, Draft, Standing};
use super::turn::{Turn, TurnContext, TurnStep};
use super::unconfirmed::Unconfirmed;
use crate::base::clock::{Millis, Moment, millis};
use crate::base::ids::UserId;
use crate::store::{ApplyReply, CALL_DEADLINE, LATEST_ENTRY, SliceEntry, SliceLook};

/// Where a slice is in the flusher's queue; the flusher runs one job per slice at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlushJob {
    Idle,
    Queued,
    Running,
    RunningAgain,
}

#[derive(Debug)]
pub struct SliceState {
    desired: DesiredState,
    job: FlushJob,
    unconfirmed: Unconfirmed,
    /// When the flusher may say users again, once it has asked for that.
    says_again_at: Option<Moment>,
    /// The incarnation of this gateway that makes the calls; 0 before the first call.
    incarnation: u32,
    /// When a call last wrote the slice's keys, which renews their lifetimes.
    written: Moment,
    /// When the last call that makes an entry was made.
    registered: Moment,
    /// When the store last refused a call; [`Moment::START`] is never.
    refused: Moment,
}

impl SliceState {
    pub(super) fn new(now: Moment) -> Self {
        Self {
            // Higher than every number of an earlier room: no slice makes a thousand calls in a
            // millisecond.
            desired: DesiredState::numbered_from(now.as_millis() * 1_000),
            job: FlushJob::Idle,
            unconfirmed: Unconfirmed::default(),
            says_again_at: None,
            incarnation: 0,
            written: now,
            registered: now,
            refused: Moment::START,
        }
    }

    // --------------------------------------------------------------------------------------- users

    /// Wants the store to hold a user with this standing.
    pub fn want(&mut self, user: &UserId, standing: Standing) {
        self.desired.want(user, standing);
    }

    /// Wants a guest and the user whom the guest became to have these standings from the same call
    /// on.
    pub(super) fn replace(&mut self, guest: (&UserId, Standing), user: (&UserId, Standing)) {
        self.desired.want(user.0, user.1);
        self.desired.want(guest.0, guest.1);
        self.desired.pair(guest.0, user.0);
    }

    /// Makes a call name a user again; see [`DesiredState::tell_again`].
    pub fn tell_again(&mut self, user: &UserId) {
        self.desired.tell_again(user);
    }

    /// Wants to claim no user any more, and lets go of the slice: the gateway stops.
    pub fn want_nobody(&mut self) {
        self.desired.remove_all();
        self.desired.let_go();
    }

    /// Lets go of the slice if nobody is wanted. False if it is too early: a late copy of the call
    /// that made the entry could make it again.
    pub fn let_go(&mut self, now: Moment) -> bool {
        let last_copy = self.registered + millis(LATEST_ENTRY + CALL_DEADLINE);
        if last_copy > now {
            return false;
        }
        self.desired.let_go();
        true
    }

    /// Forgets all users: the epoch is over.
    pub fn clear(&mut self) {
        self.desired.clear();
        self.unconfirmed = Unconfirmed::default();
    }

    /// Frees most of the memory that a peak left.
    pub fn shrink(&mut self) {
        self.desired.shrink();
    }

    // ---------------------------------------------------------------------------------- for a look

    pub fn desired(&self) -> &DesiredState {
        &self.desired
    }

    /// Whether the store needs a call.
    pub fn is_dirty(&self) -> bool {
        self.desired.is_dirty()
    }

    /// Whether the store certainly holds no user for this gateway and needs no call.
    pub fn is_idle(&self) -> bool {
        self.desired.is_idle() && self.has_no_job()
    }

    /// Whether the store certainly has no entry of this gateway, and needs no call.
    pub fn has_let_go(&self) -> bool {
        self.desired.has_let_go() && self.has_no_job()
    }

    /// Whether no job of the flusher is queued or under way.
    pub fn has_no_job(&self) -> bool {
        self.job == FlushJob::Idle
    }

    pub fn unconfirmed_since(&self) -> Option<Instant> {
        self.unconfirmed.since()
    }

    // ----------------------------------------------------------------------------- for the flusher

    /// Notes a change that the store has not confirmed.
    pub fn note_unconfirmed(&mut self, now: Instant) {
        self.unconfirmed.note(now);
    }

    /// Asks for a job. True if the caller must queue the slice.
    pub fn ask_job(&mut self) -> bool {
        match self.job {
            FlushJob::Idle => {
                self.job = FlushJob::Queued;
                true
            }
            FlushJob::Running => {
                self.job = FlushJob::RunningAgain;
                false
            }
            FlushJob::Queued | FlushJob::RunningAgain => false,
        }
    }

    pub fn start_job(&mut self) {
        self.job = FlushJob::Running;
        self.unconfirmed.start();
    }

    /// Notes that the job succeeded.
    pub fn confirm_job(&mut self) {
        self.unconfirmed.confirm();
    }

    /// Ends a job that was confirmed. True if the slice must be queued again.
    pub fn end_job(&mut self) -> bool {
        let again = self.job == FlushJob::RunningAgain;
        self.job = if again {
            FlushJob::Queued
        } else {
            FlushJob::Idle
        };
        again
    }

    /// Keeps the slice queued: the job failed or has to wait.
    pub fn postpone_job(&mut self) {
        self.unconfirmed.put_back();
        self.job = FlushJob::Queued;
    }

    /// Begins a turn of calls by this incarnation. For a new incarnation the store holds no user
    /// yet.
    pub fn begin_turn(&mut self, incarnation: u32, context: TurnContext) -> Turn {
        if std::mem::replace(&mut self.incarnation, incarnation) != incarnation {
            self.desired.begin_anew();
            self.refused = Moment::START;
        }
        Turn::new(context, &self.desired)
    }

    pub fn next_step(&mut self, turn: &mut Turn) -> TurnStep {
        turn.next(&mut self.desired)
    }

    /// Whether the next call creates this gateway's entry, or complains that somebody changed it.
    pub fn registers_next(&self) -> bool {
        self.desired.is_dirty() && self.desired.must_register()
    }

    /// When the store last refused a call of this gateway; [`Moment::START`] is never.
    pub fn refused_at(&self) -> Moment {
        self.refused
    }

    pub fn answered(&mut self, draft: &Draft, reply: &ApplyReply, now: Moment) -> ApplyVerdict {
        match reply {
            ApplyReply::Done(_) => {
                self.written = now;
                if draft.follows.is_none() {
                    self.registered = now;
                }
            }
            ApplyReply::Refused(_) => self.refused = now.max(Moment::START + 1),
            ApplyReply::Over | ApplyReply::Late(_) => {}
        }
        self.desired.answered(draft, reply)
    }

    pub fn failed(&mut self, draft: &Draft, now: Moment) {
        if draft.follows.is_none() {
            self.registered = now;
        }
        self.desired.failed(draft);
    }

    /// Notes that the store knows that somebody changed this gateway's entry.
    pub fn complained(&mut self) {
        self.desired.complained();
    }

    /// When the flusher may say users again; `None` is now. `book` reserves a time for a number of
    /// users and returns the wait until then, in ms. A slice that asks again keeps its time until
    /// that time has come.
    pub fn says_again_at(
        &mut self,
        now: Moment,
        book: impl FnOnce(u32) -> Millis,
    ) -> Option<Moment> {
        let users = u32::try_from(self.desired.to_say_again()).unwrap_or(u32::MAX);
        let at = match self.says_again_at.take() {
            Some(at) => at,
            None if users == 0 => now,
            None => now + book(users),
        };
        self.says_again_at = if at > now { Some(at) } else { None };
        self.says_again_at
    }

    // ----------------------------------------------------------------------------------- for looks

    /// The number of the entry that a look must find; see [`super::slice::Slice::expect`].
    pub fn expect(&mut self, incarnation: u32) -> Option<Option<u64>> {
        let is_settled = !self.desired.is_dirty()
            && self.desired.held().is_some()
            && (self.incarnation == incarnation || !self.desired.is_registered());
        if is_settled {
            return Some(self.desired.entry());
        }
        // The store may have applied the call in flight before the event that caused this look.
        self.desired.require_call();
        None
    }

    /// Notes what a look found instead of the entry `expected`. Another call tells more, unless one
    /// was made meanwhile.
    pub fn found_instead(&mut self, expected: Option<u64>, found: &SliceLook) {
        if self.desired.entry() != expected || self.desired.held().is_none() {
            return;
        }
        match (expected, found.entry) {
            (Some(_), _) => self.desired.require_call(),
            (None, Some(SliceEntry::At { .. })) => {
                self.desired.found_entry(found.size.incarnation);
            }
            (None, Some(SliceEntry::Dead) | None) => {}
        }
    }

    /// Notes the incarnation of the slice, which the store told this gateway or a peer. If the
    /// slice forgot since this gateway's last call, a call is due.
    pub fn note_incarnation(&mut self, incarnation: u64) {
        self.desired.note_incarnation(incarnation);
    }

    /// Requires a call if none has written the slice since `then`. True if it is due.
    pub fn write_again(&mut self, then: Moment) -> bool {
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
    use crate::base::clock::moment;
    use crate::presence::desired_state::CallLimit;
    use crate::store::SliceSize;

    #[test]
    fn a_slice_is_let_go_of_after_the_last_copy_of_the_call_that_made_the_entry() {
        let mut slice = SliceState::new(moment(1));
        slice.want(&UserId::parse("u1").unwrap(), Standing::Member);
        let draft = slice.desired.next(CallLimit::WHOLE_BATCH).expect("a call");
        slice.answered(
            &draft,
            &ApplyReply::Done(SliceSize::default()),
            moment(10_000),
        );
        assert!(!slice.let_go(moment(16_799)));
        assert!(slice.let_go(moment(16_800)));
    }
}
