//! The order of the steps in one slice's turn: look at the record before a call creates the entry,
//! read back after a break in the chain of calls, look at the record again before a reassertion.
//! [`Turn::next`] names the next step; the flusher does it and reports the verdict. Pure: it knows
//! no store. The model check runs it as the flusher does.

use crate::presence::desired_state::{CallLimit, DesiredState, Draft, Verdict};

/// The most read-backs in a turn before it gives up until later.
const MAX_MISMATCHES: u32 = 2;

/// The flusher's knowledge at the beginning of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnContext {
    /// The store confirmed not long ago that the live is open.
    pub known_open: bool,
    /// The most users that one call may change.
    pub limit: CallLimit,
}

/// The flusher's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Look at the live's record.
    CheckRecord,
    /// Make this call, then call [`Turn::note_verdict`].
    Call(Draft),
    /// Look at the live's record and, if the epoch is open, call [`DesiredState::reassert`].
    Reassert,
    /// Read this gateway's users in the store, then call [`DesiredState::reconcile`].
    ReadBack,
    /// The fence says that the epoch is over: make sure that the live is.
    Over,
    /// Try again later: the counts stay wrong.
    GiveUp,
    /// Nothing is left to do.
    Done,
}

/// One turn. A failed step ends the turn; the next turn starts from the state at that time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Turn {
    check_record: bool,
    limit: CallLimit,
    /// The number of calls that the turn may still make: as many as settle the users who were
    /// unsettled at the count. Users who become unsettled later wait for the next turn.
    calls: usize,
    /// More users may be unsettled than at the count.
    recount: bool,
    mismatches: u32,
    over: bool,
}

impl Turn {
    /// Begins a turn. A gateway that creates an entry must know the epoch to be open.
    pub fn new(context: TurnContext, desired: &DesiredState) -> Self {
        let TurnContext { known_open, limit } = context;
        let check_record = desired.is_dirty() && desired.must_register() && !known_open;
        Self {
            check_record,
            limit,
            calls: 1,
            recount: true,
            mismatches: 0,
            over: false,
        }
    }

    /// The next step. The caller stops asking once the room has ended.
    pub fn next(&mut self, desired: &mut DesiredState) -> Step {
        if std::mem::take(&mut self.check_record) {
            return Step::CheckRecord;
        }
        if std::mem::take(&mut self.over) {
            return Step::Over;
        }
        if desired.is_lost() {
            self.recount = true;
            return Step::Reassert;
        }
        if desired.needs_read_back() {
            if self.mismatches == MAX_MISMATCHES {
                return Step::GiveUp;
            }
            self.mismatches += 1;
            self.recount = true;
            return Step::ReadBack;
        }
        if self.may_call(desired)
            && let Some(draft) = desired.next(self.limit)
        {
            return Step::Call(draft);
        }
        Step::Done
    }

    /// Notes the verdict on the answer to a call.
    pub fn note_verdict(&mut self, verdict: Verdict) {
        self.over = verdict == Verdict::Over;
    }

    fn may_call(&mut self, desired: &DesiredState) -> bool {
        if std::mem::take(&mut self.recount) {
            self.calls += desired.calls_due(self.limit);
        }
        let may_call = self.calls > 0;
        self.calls = self.calls.saturating_sub(1);
        may_call
    }
}
