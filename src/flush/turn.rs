//! Owns the order of steps in one slice's turn: the record before the lease, a reading after a wrong count, the record
//! again before anything is asserted anew. Pure: [`Turn::next`] says what to do, the flusher does it and tells the
//! verdict. It knows of no store; the model check walks through it as the flusher does.

use crate::rooms::ledger::{Draft, Ledger, Verdict};

/// How often a turn reads back what the store holds before it gives up until later.
const MAX_MISMATCHES: u32 = 2;

/// What a turn is for, besides what the ledger has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Due {
    /// The lease is to be renewed.
    pub refresh: bool,
    /// What the store holds is to be read and compared.
    pub reconcile: bool,
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
    due: Due,
    mismatches: u32,
    verdict: Verdict,
}

impl Turn {
    /// A turn of a slice. One slice of each live, the first, keeps its record in sight.
    pub fn new(due: Due, is_first: bool) -> Self {
        Self { touch: due.refresh && is_first, due, mismatches: 0, verdict: Verdict::Settled }
    }

    /// The next step. Not asked any more once the epoch has ended here.
    pub fn next(&mut self, ledger: &mut Ledger) -> Step {
        if std::mem::take(&mut self.touch) {
            return Step::Touch;
        }
        if self.due.refresh && !ledger.is_registered() {
            self.due.refresh = false;
            return Step::View;
        }
        match std::mem::replace(&mut self.verdict, Verdict::Settled) {
            Verdict::Settled => {}
            Verdict::Mismatch if self.mismatches == MAX_MISMATCHES => return Step::GiveUp,
            Verdict::Mismatch => {
                self.mismatches += 1;
                return Step::ReadBack;
            }
            Verdict::Lost => return Step::Confirm,
            Verdict::Over => return Step::Over,
        }
        if let Some(draft) = ledger.next(self.due.refresh) {
            self.due.refresh = false;
            return Step::Call(draft);
        }
        if ledger.is_dirty() {
            return Step::Confirm;
        }
        if std::mem::take(&mut self.due.reconcile) && ledger.is_registered() {
            return Step::ReadBack;
        }
        Step::Done
    }

    /// What the answer to a call meant.
    pub fn heard(&mut self, verdict: Verdict) {
        self.verdict = verdict;
    }
}
