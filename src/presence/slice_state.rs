//! What lies behind a slice's lock: the seats, the [`DesiredState`] towards the store, and the slice's place in the
//! flusher's queue. Each change of a seat updates the desired state here. Joins, leaves, the flusher and the checker
//! take the lock; a heartbeat never does. Never awaits.

use std::sync::Arc;

use tokio::time::Instant;

use super::conn::Conn;
use super::desired_state::{DesiredState, Difference, Draft, Verdict};
use super::seats::{Member, SeatView, Seats};
use super::tally::SeatChange;
use super::turn::{Step, Turn, TurnContext};
use super::unconfirmed::Unconfirmed;
use crate::base::clock::Millis;
use crate::base::ids::{Epoch, UserId};
use crate::store::{ApplyReply, Fence, HeldMembers, SliceReading};

/// Where a slice is in the flusher's queue; the flusher runs one job per slice at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Idle,
    Queued,
    Running,
    RunningAgain,
}

/// Users whose fan checks expired together.
#[derive(Debug)]
pub struct ExpiredFans {
    pub users: Vec<UserId>,
    /// The flusher's last turn of fan checks before.
    turn: u64,
}

#[derive(Debug)]
pub struct SliceState {
    seats: Seats,
    desired: DesiredState,
    job: Job,
    unconfirmed: Unconfirmed,
    /// When the whole slice may be sent or read again, once the slice has asked for that.
    resync_at: Option<Millis>,
    /// How many users the store was found to hold wrongly, until that is repaired.
    drift: usize,
    /// The incarnation of this gateway that makes the calls; 0 before the first call.
    incarnation: u32,
    /// When a call last wrote the slice's keys, which renews their lifetimes.
    written: Millis,
}

impl SliceState {
    pub(super) fn new(now: Millis, by_token: Option<UserId>) -> Self {
        Self {
            seats: Seats::new(by_token),
            // Higher than every number of an earlier room: no slice makes a thousand calls in a millisecond.
            desired: DesiredState::numbered_from(now * 1_000),
            job: Job::Idle,
            unconfirmed: Unconfirmed::default(),
            resync_at: None,
            drift: 0,
            incarnation: 0,
            written: now,
        }
    }

    // -------------------------------------------------------------------------------------------------------- seats

    pub fn join(&mut self, conn: &Arc<Conn>) -> (Arc<Member>, SeatChange) {
        let (member, change) = self.seats.join(conn);
        self.settle(&member.user);
        (member, change)
    }

    pub fn hold(&mut self, conn: &Arc<Conn>) -> Option<SeatChange> {
        self.seats.hold(conn)
    }

    pub fn leave(&mut self, conn: &Arc<Conn>) -> Option<SeatChange> {
        let change = self.seats.leave(conn)?;
        if self.seats.shrink() {
            self.desired.shrink();
        }
        self.settle(&conn.identity.user);
        Some(change)
    }

    pub fn remove(&mut self, user: &UserId) -> Option<(Vec<Arc<Conn>>, SeatChange)> {
        let (conns, change) = self.seats.remove(user)?;
        self.settle(user);
        Some((conns, change))
    }

    /// Wants the user in the store, or not, as the seat of now says.
    fn settle(&mut self, user: &UserId) {
        if self.seats.has_fan(user) {
            self.desired.add(user);
        } else {
            self.desired.remove(user);
        }
    }

    pub fn seat(&self, user: &UserId) -> Option<SeatView> {
        self.seats.view(user)
    }

    /// Whether nobody is here and the store needs no call.
    pub fn is_idle(&self) -> bool {
        self.seats.is_empty() && self.desired.is_idle() && self.job == Job::Idle
    }

    /// Wants the store to hold nobody, for good: the gateway stops. True if a flush has something to do.
    pub fn want_nobody(&mut self) -> bool {
        self.desired.remove_all();
        self.seats.clear();
        self.is_dirty()
    }

    /// Forgets everybody and returns their sockets: the epoch is over.
    pub fn clear(&mut self) -> Vec<Arc<Conn>> {
        self.desired.clear();
        self.unconfirmed = Unconfirmed::default();
        self.drift = 0;
        self.seats.clear()
    }

    // --------------------------------------------------------------------------------------------------- fan checks

    pub fn fan_answered(&mut self, user: &UserId, is_fan: bool, now: Millis) {
        self.seats.fan_answered(user, is_fan, now);
        self.settle(user);
    }

    /// Asks the tokens of a user's sockets once more, if tokens say who is a fan.
    pub fn ask_tokens(&mut self, user: &UserId) {
        self.seats.ask_tokens(user);
        self.settle(user);
    }

    /// Makes a user's fan check due now. False if the user is not here, or tokens say who is a fan.
    pub fn check_again(&mut self, user: &UserId) -> bool {
        self.seats.check_again(user)
    }

    /// Makes due the fan checks that were answered by `then`. If all answers fit in one call and one of them is as old
    /// as `together`, returns all their users instead, for the caller to ask about; `None` if there are none.
    pub fn expire_checks(&mut self, then: Millis, together: Millis) -> Option<ExpiredFans> {
        // A job of the flusher may be asking now, and its answers must not be taken for newer than they are.
        let together = if self.job == Job::Idle { together } else { 0 };
        let users = self.seats.expire_checks(then, together);
        (!users.is_empty()).then(|| ExpiredFans { users, turn: self.seats.turns() })
    }

    /// Takes in the answers for expired users, in the same order. Has the flusher ask again if there are none, or if it
    /// has asked meanwhile: its answers may be the newer ones.
    pub fn renew_checks(&mut self, expired: &ExpiredFans, answers: Option<Vec<bool>>, now: Millis) {
        match answers.filter(|_| self.seats.turns() == expired.turn) {
            Some(answers) => {
                for (user, is_fan) in expired.users.iter().zip(answers) {
                    self.fan_answered(user, is_fan, now);
                }
            }
            None => self.seats.return_unchecked(&expired.users),
        }
    }

    /// Takes up to [`crate::store::MAX_BATCH`] users whose check is due and who are still here, each once, those who
    /// have waited longest first.
    pub fn take_unchecked(&mut self) -> Vec<UserId> {
        self.seats.take_unchecked()
    }

    pub fn return_unchecked(&mut self, users: &[UserId]) {
        self.seats.return_unchecked(users);
    }

    /// How many users wait for a fan check.
    pub fn unchecked(&self) -> usize {
        self.seats.unchecked()
    }

    // -------------------------------------------------------------------------------------------------- for a look

    pub fn desired(&self) -> &DesiredState {
        &self.desired
    }

    pub fn drift(&self) -> usize {
        self.drift
    }

    /// Whether a flush has something to do.
    pub fn is_dirty(&self) -> bool {
        self.desired.is_dirty() || self.seats.unchecked() > 0
    }

    pub fn unconfirmed_since(&self) -> Option<Instant> {
        self.unconfirmed.since()
    }

    // ---------------------------------------------------------------------------------------------- for the flusher

    /// Asks for a job. True if the caller must queue the slice.
    pub fn ask_job(&mut self, now: Instant) -> bool {
        if self.is_dirty() {
            self.unconfirmed.note(now);
        }
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
        self.desired.answered(draft, reply)
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

    /// Takes in what the store holds for this gateway; see [`DesiredState::reconcile`].
    pub fn reconcile(&mut self, entry: Option<u64>, held: &HeldMembers) -> Difference {
        let mut difference = self.desired.reconcile(entry, &held.users);
        difference.missing += self.desired.resend(&held.missing);
        self.drift = difference.total();
        difference
    }

    /// Ends a turn. True if something is left to do.
    pub fn end_turn(&mut self) -> bool {
        if !self.desired.is_dirty() {
            self.drift = 0;
        }
        self.is_dirty()
    }

    /// When the whole slice may be sent or read again; `None` is now. `book` reserves a time for that many users and
    /// returns how long it is until then. A slice that asks again keeps its time.
    pub fn resync_at(&mut self, now: Millis, book: impl FnOnce(u32) -> Millis) -> Option<Millis> {
        let users = u32::try_from(self.desired.wanted()).unwrap_or(u32::MAX);
        let at = match self.resync_at.take() {
            Some(at) => at,
            None if users == 0 => now,
            None => now + book(users),
        };
        (at > now).then(|| *self.resync_at.insert(at))
    }

    // ------------------------------------------------------------------------------------------------- for readings

    /// Takes in an entry that this incarnation made for an earlier room, as it was read when this room was made.
    pub fn found_entry(&mut self, number: u64, held: u64, incarnation: u32) {
        self.incarnation = incarnation;
        self.desired.found_entry(number, held);
    }

    /// See [`super::slice::Slice::expect`]: the entry and how many users are held.
    pub fn expect(&mut self, incarnation: u32) -> Option<(Option<u64>, u64)> {
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
            (None, _) => {}
        }
        true
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
