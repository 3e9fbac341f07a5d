//! The state behind a slice's lock: the [`DesiredState`] towards the store, and the slice's place
//! in the flusher's queue. A room and the platform update the desired state with each change of
//! their users. The flusher and the checker take the lock, too; a heartbeat never does. Never
//! awaits.

use tokio::time::Instant;

use super::desired_state::{DesiredState, Difference, Draft, Held, Standing, Verdict};
use super::turn::{Step, Turn, TurnContext};
use super::unconfirmed::Unconfirmed;
use crate::base::clock::Millis;
use crate::base::ids::{Epoch, UserId};
use crate::store::{ApplyReply, Fence, HeldMembers, MAX_BATCH, SliceReading};

/// The delay before the next read-back of a slice that still lacks notes on members, in ms: the
/// notes may belong to members of another gateway, which writes them again meanwhile.
const NOTES_RETRY_DELAY_MS: Millis = 10_000;

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
    job: Job,
    unconfirmed: Unconfirmed,
    /// When the flusher may send or read the whole slice again, once the slice has asked for that.
    resync_at: Option<Millis>,
    /// The number of users whom the store held wrongly, until the flusher has repaired that.
    drift: usize,
    /// The incarnation of this gateway that makes the calls; 0 before the first call.
    incarnation: u32,
    /// When a call last wrote the slice's keys, which renews their lifetimes.
    written: Millis,
    /// When the flusher last read the slice back because it lacked notes.
    read_for_notes: Option<Millis>,
}

impl SliceState {
    pub(super) fn new(now: Millis) -> Self {
        Self {
            // Higher than every number of an earlier room: no slice makes a thousand calls in a
            // millisecond.
            desired: DesiredState::numbered_from(now * 1_000),
            job: Job::Idle,
            unconfirmed: Unconfirmed::default(),
            resync_at: None,
            drift: 0,
            incarnation: 0,
            written: now,
            read_for_notes: None,
        }
    }

    // --------------------------------------------------------------------------------------- users

    /// Wants the store to hold a user with this standing.
    pub fn want(&mut self, user: &UserId, standing: Standing) {
        self.desired.want(user, standing);
    }

    /// Makes a call name a user again; see [`DesiredState::tell_again`].
    pub fn tell_again(&mut self, user: &UserId) {
        self.desired.tell_again(user);
    }

    /// Wants the store to hold no user any more: the gateway stops.
    pub fn want_nobody(&mut self) {
        self.desired.remove_all();
    }

    /// Forgets all users: the epoch is over.
    pub fn clear(&mut self) {
        self.desired.clear();
        self.unconfirmed = Unconfirmed::default();
        self.drift = 0;
    }

    /// Frees most of the memory that a peak left.
    pub fn shrink(&mut self) {
        self.desired.shrink();
    }

    // ---------------------------------------------------------------------------------- for a look

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

    /// Whether the store certainly holds no user for this gateway and needs no call.
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

    // ----------------------------------------------------------------------------- for the flusher

    /// Notes a change that the store has not confirmed.
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

    /// Notes that the job succeeded.
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

    /// Begins a turn of calls by this incarnation. For a new incarnation the store holds no user
    /// yet.
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
        let verdict = self.desired.answered(draft, reply);
        if let ApplyReply::Done(view) = reply {
            self.written = now;
            let is_due = match self.read_for_notes {
                Some(at) => now >= at + NOTES_RETRY_DELAY_MS,
                None => true,
            };
            if is_due && view.held > 0 && view.size.lacks_notes(view.noted) {
                self.read_for_notes = Some(now);
                self.desired.require_read_back();
            }
        }
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
        }
        lost
    }

    /// Compares the slice with the store; see [`DesiredState::reconcile`].
    pub fn reconcile(&mut self, entry: Option<u64>, held: &HeldMembers) -> Difference {
        let difference = self.desired.reconcile(entry, held);
        self.drift = difference.total();
        difference
    }

    /// Ends a turn.
    pub fn end_turn(&mut self) {
        if !self.desired.is_dirty() {
            self.drift = 0;
        }
    }

    /// When the flusher may send or read the whole slice again; `None` is now. `book` reserves a
    /// time for a number of users and returns the wait until then, in ms. A slice that asks again
    /// keeps its time until that time has come.
    pub fn resync_at(&mut self, now: Millis, book: impl FnOnce(u32) -> Millis) -> Option<Millis> {
        let users = u32::try_from(self.desired.wanted()).unwrap_or(u32::MAX);
        let at = match self.resync_at.take() {
            Some(at) => at,
            None if users == 0 => now,
            None => now + book(users),
        };
        self.resync_at = if at > now { Some(at) } else { None };
        self.resync_at
    }

    // -------------------------------------------------------------------------------- for readings

    /// Notes an entry that this incarnation made for an earlier room. The caller read it when it
    /// made this room.
    pub fn found_entry(&mut self, number: u64, held: u64, incarnation: u32) {
        self.incarnation = incarnation;
        self.desired.found_entry(number, held);
    }

    /// The entry and the number of held users; see [`super::slice::Slice::expect`].
    pub fn expect(&mut self, incarnation: u32) -> Option<(Option<u64>, Held)> {
        let is_settled = !self.desired.is_dirty()
            && (self.incarnation == incarnation || !self.desired.is_registered());
        if is_settled && let Some(held) = self.desired.held() {
            return Some((self.desired.entry(), held));
        }
        // The store may have applied the call in flight before the event that caused this check.
        self.desired.require_call();
        None
    }

    /// Notes what a check found instead of `expected`. Does nothing and returns false if the
    /// flusher made a call meanwhile.
    pub fn found_instead(
        &mut self,
        expected: Option<u64>,
        reading: &SliceReading,
        epoch: Epoch,
    ) -> bool {
        if self.desired.entry() != expected || self.desired.held().is_none() {
            return false;
        }
        match (expected, reading.entry) {
            (Some(_), None) => self.desired.lose_entry(),
            (Some(_), Some(_)) => self.desired.require_read_back(),
            (None, Some(number)) if reading.fence == Some(Fence::Open(epoch)) => {
                self.desired.found_entry(number, reading.held);
            }
            // Another program wrote there. The call that makes the entry discovers that.
            (None, None) if reading.held > 0 => self.desired.require_entry(),
            (None, _) => {}
        }
        true
    }

    /// Requires a read-back of all users of this gateway: a foreign write may have left all sizes
    /// as they were.
    pub fn read_back_all(&mut self) {
        self.desired.require_read_back();
    }

    /// Requires another look at the users of this gateway, since another program wrote to the
    /// slice: a read-back of a few users, or for many users a call, whose answer has their number.
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

    #[test]
    fn a_slice_that_lacks_notes_is_read_back_and_not_with_every_call() {
        let mut slice = SliceState::new(1);
        let mut here = HeldMembers::default();
        let mut needs_read_back = |user: &str, noted: u64, now: Millis| {
            let user = UserId::parse(user).unwrap();
            slice.want(&user, Standing::Member);
            here.users.insert(user);
            let draft = slice.desired.next(CallLimit::WHOLE_BATCH).expect("a call");
            let held = here.users.len() as u64;
            let size = SliceSize {
                card: held + 1,
                ..SliceSize::default()
            };
            let done = ApplyReply::Done(SliceView {
                size,
                held,
                held_fans: 0,
                noted: Some(noted),
            });
            slice.answered(&draft, &done, now);
            let needs_read_back = slice.desired.needs_read_back();
            if needs_read_back {
                slice.reconcile(Some(draft.number), &here);
            }
            needs_read_back
        };
        assert!(!needs_read_back("a", 2, 1_000), "all are noted");
        assert!(needs_read_back("b", 2, 1_001));
        assert!(
            !needs_read_back("c", 2, 1_001 + NOTES_RETRY_DELAY_MS - 1),
            "the missing one may be another gateway's"
        );
        assert!(needs_read_back("d", 2, 1_001 + NOTES_RETRY_DELAY_MS));
    }
}
