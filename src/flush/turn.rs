//! Owns the order of steps in one slice's turn: the record before the lease, a reading after a wrong count, the record
//! again before anything is asserted anew. Pure: [`Turn::next`] says what to do, the flusher does it and tells the
//! verdict. It knows of no store; the model check walks through it as the flusher does.

use crate::rooms::ledger::{Draft, Ledger, Verdict};

/// How often a turn reads back what the store holds before it gives up until later.
const MAX_MISMATCHES: u32 = 2;

/// Why a turn is taken, and what is known at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Occasion {
    /// The lease is to be renewed.
    pub refresh: bool,
    /// What the store holds is to be read and compared.
    pub reconcile: bool,
    /// This slice keeps the live's record in sight, for all slices of its room.
    pub keeps_record: bool,
    /// The record was seen to be open within the last lease.
    pub knows_open: bool,
}

/// What the flusher does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Look at the live's record.
    Touch,
    /// Read the slice, in which this gateway holds nothing.
    View,
    /// Make this call, then tell [`Turn::heard`].
    Call(Draft),
    /// Look at the live's record and, if the epoch is open, [`Ledger::assert_again`].
    Confirm,
    /// Read what the store holds for this gateway, for [`Ledger::reconcile`].
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
    refresh: bool,
    /// The store has had no occasion to name silent peers: it does not while members come and go.
    view: bool,
    reconcile: bool,
    calls: Calls,
    mismatches: u32,
    verdict: Verdict,
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
    /// The beginning of a turn. Who registers must know the epoch to be open; a room that stood still for a lease does
    /// not.
    pub fn new(occasion: Occasion, ledger: &Ledger) -> Self {
        let Occasion { refresh, reconcile, keeps_record, knows_open } = occasion;
        Self {
            touch: (refresh && keeps_record) || !(ledger.is_registered() || knows_open),
            refresh,
            view: refresh,
            reconcile,
            calls: Calls::Count(1),
            mismatches: 0,
            verdict: Verdict::Settled,
        }
    }

    /// The next step. Not asked any more once the epoch has ended here.
    pub fn next(&mut self, ledger: &mut Ledger) -> Step {
        if std::mem::take(&mut self.touch) {
            return Step::Touch;
        }
        match std::mem::replace(&mut self.verdict, Verdict::Settled) {
            Verdict::Settled => {}
            Verdict::Mismatch if self.mismatches == MAX_MISMATCHES => return Step::GiveUp,
            Verdict::Mismatch => {
                self.mismatches += 1;
                return self.and_count_again(Step::ReadBack);
            }
            Verdict::Lost => return self.and_count_again(Step::Confirm),
            Verdict::Over => return Step::Over,
        }
        if self.may_call(ledger) {
            if let Some(draft) = ledger.next(self.refresh) {
                self.refresh = false;
                self.view &= !(draft.joins.is_empty() && draft.leaves.is_empty());
                return Step::Call(draft);
            }
            if ledger.is_lost() {
                return self.and_count_again(Step::Confirm);
            }
            self.calls = Calls::Left(0);
        }
        if std::mem::take(&mut self.view) {
            return Step::View;
        }
        if std::mem::take(&mut self.reconcile) && ledger.is_registered() {
            return Step::ReadBack;
        }
        Step::Done
    }

    /// What the answer to a call meant.
    pub fn heard(&mut self, verdict: Verdict) {
        self.verdict = verdict;
    }

    fn may_call(&mut self, ledger: &Ledger) -> bool {
        let calls = match self.calls {
            Calls::Count(calls) => calls + ledger.calls_due(),
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
