//! The order of steps in one slice's turn: the record before the entry is made, a reading where the chain of calls is
//! broken, the record again before anything is asserted anew. Pure: [`Turn::next`] says what to do, the flusher does it
//! and tells the verdict. It knows of no store; the model check walks through it as the flusher does.

use crate::presence::desired_state::{DesiredState, Draft, Verdict};

/// How often a turn reads back what the store holds before it gives up until later.
const MAX_MISMATCHES: u32 = 2;

/// Why a turn is taken, and what is known at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Occasion {
    /// The record was seen to be open not long ago.
    pub knows_open: bool,
    /// The most users that one call takes out.
    pub leaves: usize,
}

/// What the flusher does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Look at the live's record.
    Touch,
    /// Make this call, then tell [`Turn::heard`].
    Call(Draft),
    /// Look at the live's record and, if the epoch is open, [`DesiredState::assert_again`].
    Confirm,
    /// Read what the store holds for this gateway, for [`DesiredState::reconcile`].
    ReadBack,
    /// The fence says that the epoch is over: see that the live is.
    Over,
    /// Try again later: the counts stay wrong.
    GiveUp,
    /// Nothing is left to do.
    Done,
}

/// One turn. A step that fails ends it; what was due is due again then.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Turn {
    touch: bool,
    leaves: usize,
    calls: Calls,
    mismatches: u32,
    over: bool,
}

/// How many calls the turn may make yet: as many as settle what was unsettled when it was counted. What comes up
/// meanwhile has a turn of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Calls {
    /// So many, and what is unsettled now.
    Count(usize),
    /// So many.
    Left(usize),
}

impl Turn {
    /// The beginning of a turn. Who makes an entry must know the epoch to be open.
    pub fn new(occasion: Occasion, desired: &DesiredState) -> Self {
        let Occasion { knows_open, leaves } = occasion;
        let touch = desired.is_dirty() && desired.registers() && !knows_open;
        Self { touch, leaves, calls: Calls::Count(1), mismatches: 0, over: false }
    }

    /// The next step. Not asked any more once the epoch has ended here.
    pub fn next(&mut self, desired: &mut DesiredState) -> Step {
        if std::mem::take(&mut self.touch) {
            return Step::Touch;
        }
        if std::mem::take(&mut self.over) {
            return Step::Over;
        }
        if desired.is_lost() {
            return self.and_count_again(Step::Confirm);
        }
        if desired.is_astray() {
            if self.mismatches == MAX_MISMATCHES {
                return Step::GiveUp;
            }
            self.mismatches += 1;
            return self.and_count_again(Step::ReadBack);
        }
        if self.may_call(desired)
            && let Some(draft) = desired.next(self.leaves)
        {
            return Step::Call(draft);
        }
        Step::Done
    }

    /// What the answer to a call meant.
    pub fn heard(&mut self, verdict: Verdict) {
        self.over = verdict == Verdict::Over;
    }

    fn may_call(&mut self, desired: &DesiredState) -> bool {
        let calls = match self.calls {
            Calls::Count(calls) => calls + desired.calls_due(self.leaves),
            Calls::Left(calls) => calls,
        };
        self.calls = Calls::Left(calls.saturating_sub(1));
        calls > 0
    }

    /// The step may make more of what is unsettled.
    fn and_count_again(&mut self, step: Step) -> Step {
        if let Calls::Left(calls) = self.calls {
            self.calls = Calls::Count(calls);
        }
        step
    }
}
