//! The order of the steps in one slice's turn: look at the record before a call creates the entry,
//! complain if somebody else changed the entry, make the calls. [`Turn::next`] names the next step;
//! the flusher does it and reports the verdict. Pure: it knows no store. The model check runs it as
//! the flusher does.

use crate::presence::desired_state::{ApplyVerdict, CallLimit, DesiredState, Draft};

/// The most refused calls in a turn before it gives up until later.
const MAX_REFUSALS: u32 = 2;

/// The flusher's knowledge at the beginning of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TurnContext {
    /// The store confirmed not long ago that the live is open.
    pub known_open: bool,
    /// The most users that one call may change.
    pub most_users: usize,
}

/// The flusher's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnStep {
    /// Look at the live's record.
    CheckRecord,
    /// Tell the store that somebody else changed this gateway's entry in this incarnation of the
    /// slice, then call [`DesiredState::complained`].
    Complain(u64),
    /// Make this call, then call [`Turn::note_verdict`].
    Call(Draft),
    /// The fence says that the epoch is over: make sure that the live is.
    Over,
    /// Try again later: the store refuses one call after the other.
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
    refusals: u32,
    over: bool,
}

impl Turn {
    /// Begins a turn. A gateway that creates an entry must know the epoch to be open.
    pub fn new(context: TurnContext, desired: &DesiredState) -> Self {
        let TurnContext {
            known_open,
            most_users,
        } = context;
        Self {
            check_record: desired.is_dirty() && desired.must_register() && !known_open,
            limit: CallLimit {
                users: most_users,
                may_say_again: false,
            },
            calls: 1,
            recount: true,
            refusals: 0,
            over: false,
        }
    }

    /// Whether the calls of this turn may name users who are said again.
    pub fn may_say_again(&self) -> bool {
        self.limit.may_say_again
    }

    /// From now on, calls may name users who are said again.
    pub fn allow_to_say_again(&mut self) {
        self.limit.may_say_again = true;
        self.recount = true;
    }

    /// The next step. The caller stops asking once the room has ended.
    pub fn next(&mut self, desired: &mut DesiredState) -> TurnStep {
        if std::mem::take(&mut self.over) {
            return TurnStep::Over;
        }
        if std::mem::take(&mut self.check_record) {
            return TurnStep::CheckRecord;
        }
        if self.refusals > MAX_REFUSALS {
            return TurnStep::GiveUp;
        }
        if let Some(incarnation) = desired.complaint() {
            return TurnStep::Complain(incarnation);
        }
        if self.may_call(desired)
            && let Some(draft) = desired.next(self.limit)
        {
            return TurnStep::Call(draft);
        }
        TurnStep::Done
    }

    /// Notes the verdict on the answer to a call.
    pub fn note_verdict(&mut self, verdict: ApplyVerdict, desired: &DesiredState) {
        match verdict {
            ApplyVerdict::Settled => {}
            ApplyVerdict::Refused => {
                self.refusals += 1;
                self.check_record = desired.must_register();
                self.recount = true;
            }
            ApplyVerdict::Over => self.over = true,
        }
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
