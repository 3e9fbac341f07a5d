//! The store of the model: the real [`Slice`], and the record of the live, whose few transitions mirror
//! `store/memory/lives.rs`. Every call is one step, as every script is. Time is left out: each call comes at the same
//! instant, and whose lease has run out is said by `late`, and by `own` for gateways' own leases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rollcall::ids::{Epoch, LiveId, SliceId, UserId};
use rollcall::rooms::ledger::Draft;
use rollcall::store::slice::{Fence, Slice};
use rollcall::store::{Apply, ApplyReply, LiveState, OwnLeases};

use super::world::{Mutation, gateway_id, user_number};

/// What is remembered of the live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record {
    pub epoch: u64,
    pub state: State,
}

/// [`LiveState`], which cannot be hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Open,
    Closing,
    Closed,
}

impl From<State> for LiveState {
    fn from(state: State) -> Self {
        match state {
            State::Open => Self::Open,
            State::Closing => Self::Closing,
            State::Closed => Self::Closed,
        }
    }
}

/// What the network carries to the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    /// `Slices::apply`.
    Apply { epoch: u64, draft: Draft },
    /// `Renewals::renew`.
    Renew(Expected),
    /// `Slices::held_page`, all pages.
    ReadHeld,
    /// `Lives::touch_live`.
    Touch { epoch: u64 },
    /// `Lives::begin_close`; without an epoch, whichever is open.
    BeginClose { epoch: Option<u64> },
    /// `Slices::close_slice`.
    CloseSlice { epoch: u64 },
    /// `Lives::finish_close`.
    FinishClose { epoch: u64 },
}

/// What a gateway expects of the store in a room where nothing is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Expected {
    pub epoch: u64,
    pub fans: u64,
    pub number: u64,
    pub glance: bool,
}

/// What the store says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    Applied(ApplyReply),
    Held(BTreeSet<usize>),
    /// A touch found it open, or wrote it again.
    IsOpen,
    /// A touch, or the beginning of a close, found it in this state.
    Is(Record),
    Absent,
    /// A renewal found all as expected.
    Still,
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Store {
    pub slice: Slice,
    pub record: Option<Record>,
    /// Gateways that have not refreshed their lease for too long.
    pub late: BTreeSet<usize>,
    /// The own leases that have not run out, each with a number in the place of the time of its beginning.
    pub own: BTreeMap<usize, u8>,
    own_begun: u8,
    /// Gateways whose entry stands under their own lease.
    covered: BTreeSet<usize>,
    /// The highest epoch whose record says closed: from then on a close may have answered.
    pub over: u64,
    /// The highest epoch whose closed fence was lost. The known limit: nothing but the record stands against calls of
    /// that epoch that are under way.
    pub unfenced: u64,
    /// The number of the last call that was carried out for each gateway that has an entry.
    numbers: BTreeMap<usize, u64>,
    /// A call did what no call may do.
    pub wrong: Option<&'static str>,
    /// Epochs whose close somebody asked for while they were open.
    pub asked: BTreeSet<u64>,
    /// Only a mutation looks at it.
    calls: u64,
}

/// Long enough for nobody's lease to have run out.
const FRESH: Duration = Duration::from_secs(1);

/// When a lease that was refreshed at 0 has run out.
const LATER: u64 = 1_000;

fn slice_id() -> SliceId {
    SliceId { live: LiveId::parse("1").unwrap(), index: 1, of: 1 }
}

impl Store {
    pub fn serve(&mut self, from: usize, call: &Call, mutation: Mutation) -> Answer {
        match call {
            Call::Apply { epoch, draft } => Answer::Applied(self.apply(from, *epoch, draft, mutation)),
            Call::Renew(expected) => match self.renew(from, *expected, mutation) {
                true => Answer::Still,
                false => Answer::Done,
            },
            Call::ReadHeld => Answer::Held(self.held(from)),
            Call::Touch { epoch } => self.touch(*epoch),
            Call::BeginClose { epoch } => self.begin_close(*epoch),
            Call::CloseSlice { epoch } => {
                if mutation == Mutation::NoFence {
                    self.slice = Slice::default();
                } else {
                    self.slice.close(Epoch(*epoch));
                }
                if self.slice.fence() == Some(Fence::Closed(Epoch(*epoch))) && self.unfenced <= *epoch {
                    self.unfenced = 0;
                }
                Answer::Done
            }
            Call::FinishClose { epoch } => self.finish_close(*epoch),
        }
    }

    fn apply(&mut self, from: usize, epoch: u64, draft: &Draft, mutation: Mutation) -> ApplyReply {
        self.calls += u64::from(mutation == Mutation::NoNumbers);
        let call = Apply {
            slice: slice_id(),
            epoch: Epoch(epoch),
            gateway: gateway_id(from),
            number: if mutation == Mutation::NoNumbers { self.calls } else { draft.number },
            entry: draft.entry,
            joins: draft.joins.clone(),
            leaves: draft.leaves.clone(),
            lease: FRESH,
        };
        let is_old = self.has_entry(from) && self.numbers.get(&from).is_some_and(|last| *last >= draft.number);
        let same_epoch = self.slice.fence() == Some(Fence::Open(Epoch(epoch)));
        let reply = self.slice.apply(&call, &OwnLeases::default(), 0);
        if matches!(reply, ApplyReply::Done(_)) {
            if is_old && same_epoch {
                self.wrong = Some("a call was carried out after a later one");
            }
            self.late.remove(&from);
            self.covered.remove(&from);
            self.numbers.insert(from, draft.number);
        }
        reply
    }

    /// `Renewals::renew`. True if all is as expected.
    pub fn renew(&mut self, from: usize, expected: Expected, mutation: Mutation) -> bool {
        let Expected { epoch, fans, number, glance } = expected;
        let same = if glance {
            self.slice.card() == fans
        } else if mutation == Mutation::RenewedBlindly {
            fans == 0 || self.has_entry(from)
        } else {
            self.slice.renew(&gateway_id(from), fans, number, 0)
        };
        if same && !glance && fans > 0 {
            self.late.remove(&from);
            if mutation != Mutation::RenewedBlindly {
                self.covered.insert(from);
            }
        }
        same && self.record == Some(Record { epoch, state: State::Open })
    }

    /// `Leases::renew_own_lease`. Answers which lease it is.
    pub fn renew_own(&mut self, from: usize) -> u8 {
        let begun = &mut self.own_begun;
        *self.own.entry(from).or_insert_with(|| {
            *begun += 1;
            *begun
        })
    }

    /// `Slices::sweep`.
    pub fn sweep(&mut self, gateway: usize) {
        let has_lease =
            !self.late.contains(&gateway) || (self.covered.contains(&gateway) && self.own.contains_key(&gateway));
        let now = if self.late.contains(&gateway) { LATER } else { 0 };
        let mut own = OwnLeases::default();
        for holder in self.own.keys() {
            own.renew(&gateway_id(*holder), FRESH, 0, now);
        }
        if self.slice.sweep(&gateway_id(gateway), FRESH, &own, now).released > 0 && has_lease {
            self.wrong = Some("a gateway was swept whose lease had not run out");
        }
        if !self.has_entry(gateway) {
            self.late.remove(&gateway);
            self.covered.remove(&gateway);
        }
    }

    /// So much time passes that nothing stands under an own lease any more.
    pub fn outlast_own_leases(&mut self) {
        self.own.clear();
    }

    /// Mirrors `Records::touch`.
    fn touch(&mut self, epoch: u64) -> Answer {
        match self.record.filter(|record| record.epoch >= epoch) {
            None => {
                self.record = Some(Record { epoch, state: State::Open });
                Answer::IsOpen
            }
            Some(record) if record.state != State::Open || record.epoch != epoch => Answer::Is(record),
            Some(_) => Answer::IsOpen,
        }
    }

    /// Mirrors `Records::open`, and `MemoryStore::open_live` for the floor.
    pub fn open(&mut self) -> Option<u64> {
        let last = match self.record {
            Some(record) if record.state != State::Closed => return None,
            Some(record) => record.epoch,
            None => 0,
        };
        let floor = self.slice.fence().map_or(0, |fence| fence.epoch().0);
        let epoch = last.max(floor) + 1;
        self.record = Some(Record { epoch, state: State::Open });
        // Where record and fence were lost together, the count begins anew: the known limit.
        if epoch <= self.over {
            self.over = epoch - 1;
        }
        Some(epoch)
    }

    /// Mirrors `Records::begin_close`.
    fn begin_close(&mut self, wish: Option<u64>) -> Answer {
        let Some(record) = &mut self.record else { return Answer::Absent };
        if wish.is_none_or(|epoch| epoch == record.epoch) && record.state == State::Open {
            record.state = State::Closing;
        }
        Answer::Is(*record)
    }

    /// Mirrors `Records::finish_close`.
    fn finish_close(&mut self, epoch: u64) -> Answer {
        if let Some(record) = &mut self.record
            && *record == (Record { epoch, state: State::Closing })
        {
            record.state = State::Closed;
            if self.over < epoch {
                self.over = epoch;
            }
        }
        Answer::Done
    }

    /// The slice's keys are gone.
    pub fn lose_slice(&mut self) {
        if let Some(Fence::Closed(epoch)) = self.slice.fence() {
            self.unfenced = self.unfenced.max(epoch.0);
        }
        self.slice = Slice::default();
        self.late.clear();
        self.covered.clear();
    }

    /// The record is gone.
    pub fn lose_record(&mut self) {
        self.record = None;
    }

    pub fn is(&self, state: State) -> bool {
        self.record.is_some_and(|record| record.state == state)
    }

    pub fn has_entry(&self, gateway: usize) -> bool {
        let id = gateway_id(gateway);
        self.slice.view(Duration::ZERO, &OwnLeases::default(), 0).silent.iter().any(|silent| silent.gateway == id)
    }

    pub fn has_entries(&self) -> bool {
        !self.slice.view(Duration::ZERO, &OwnLeases::default(), 0).silent.is_empty()
    }

    pub fn held(&self, gateway: usize) -> BTreeSet<usize> {
        numbers(&self.slice.held_page(&gateway_id(gateway), 0).users)
    }

    pub fn members(&self) -> BTreeSet<usize> {
        numbers(&self.slice.fans_page(0).users)
    }
}

fn numbers(users: &[UserId]) -> BTreeSet<usize> {
    users.iter().filter_map(user_number).collect()
}

impl Store {
    /// P3: nothing of an epoch that is over, unless its fence was lost since.
    pub fn resurrected(&self) -> Option<&'static str> {
        let occupied = !self.members().is_empty() || self.has_entries();
        match self.slice.fence() {
            Some(Fence::Open(epoch)) if epoch.0 <= self.over && epoch.0 > self.unfenced => Some("an epoch rose again"),
            Some(Fence::Closed(_)) if occupied => Some("somebody is in a closed slice"),
            None if occupied => Some("somebody is in a slice without a fence"),
            _ => None,
        }
    }
}
