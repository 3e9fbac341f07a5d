//! The store of the model: the real [`Slice`] and [`LeaseTable`], and the record of the live, whose
//! few transitions mirror `store/memory/lives.rs`. Every call is one atomic step, as every script
//! is. The store's clock advances only where a history says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rollcall::base::ids::{Epoch, GatewayId, Group, LiveId, SliceId, UserId};
use rollcall::presence::desired_state::{Draft, Standing};
use rollcall::store::slice::Slice;
use rollcall::store::{
    Apply, ApplyReply, Burial, Fence, HeldFrom, Lease, LeaseReply, LeaseTable, Leases, MAX_BATCH,
    RenewLease, SliceSize, SliceView, Strays,
};

use super::budget::{Mutation, Rules};
use super::world::{Id, user_number};

/// The record of the live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record {
    pub epoch: u64,
    pub state: State,
}

/// The same as `LiveState`, which cannot be hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    Open,
    Closing,
    Closed,
}

/// A call that the network carries to the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Call {
    Apply {
        epoch: u64,
        id: Id,
        draft: Draft,
        not_after: u64,
    },
    /// `Slices::read_slice`.
    Read {
        id: Id,
    },
    /// `Slices::held_page`, all pages.
    ReadHeld {
        id: Id,
    },
    /// Reads the record and the slice at one moment. Checks and new rooms do this.
    See {
        id: Id,
    },
    /// `LiveStore::keep_live`.
    Touch {
        epoch: u64,
    },
    Renew {
        id: Id,
        held: Option<Lease>,
        number: u64,
        burials: Vec<(Id, Option<u64>)>,
    },
    Sweep {
        of: Id,
    },
    /// The calls of `Mender::mend`.
    Mend {
        epoch: u64,
    },
    /// `LiveStore::begin_close`; without an epoch, it closes the one that is open.
    BeginClose {
        epoch: Option<u64>,
    },
    CloseSlice {
        epoch: u64,
    },
    FinishClose {
        epoch: u64,
    },
}

impl Call {
    pub fn only_reads(&self) -> bool {
        matches!(
            self,
            Self::Read { .. } | Self::ReadHeld { .. } | Self::See { .. }
        )
    }
}

/// What the store answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    Applied(ApplyReply),
    Read(Reading),
    Held {
        users: BTreeSet<usize>,
        fans: BTreeSet<usize>,
        missing: BTreeSet<usize>,
    },
    Seen(Picture),
    IsOpen,
    Is(Record),
    Absent,
    Renewed {
        own: Lease,
        living: BTreeMap<Id, u64>,
        dead: BTreeSet<Id>,
    },
    Dead,
    Done,
}

/// A slice as a gateway reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reading {
    pub card: u64,
    pub in_doubt: bool,
    pub fence: Option<Fence>,
    pub entry: Option<u64>,
    pub held: u64,
    pub held_fans: u64,
    pub others: Vec<Id>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Picture {
    pub record: Option<Record>,
    pub slice: Reading,
}

/// What the store publishes to the gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerMessage {
    Record,
    Doubt,
}

/// Everything that the store can lose.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Data {
    pub slice: Slice,
    pub leases: LeaseTable,
    pub record: Option<Record>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Store {
    pub data: Data,
    /// The store's clock, in milliseconds.
    pub now: u64,
    /// A copy of the data, and the time when it was made.
    pub copy: Option<Box<(u64, Data)>>,
    /// The highest epoch whose close has been answered since data was last lost.
    pub over: u64,
    /// The last epoch whose slice was closed since data was last lost.
    fenced: u64,
    /// Whether the data of the slice or of the record were ever lost. The known limits apply then.
    pub lost: bool,
    /// Whether the leases were ever lost or went back to a copy.
    lost_leases: bool,
    /// Whether the set of the slice was lost alone.
    torn: bool,
    /// The epochs that a client asked to close.
    pub asked: BTreeSet<u64>,
    /// What a call did that no call may do.
    pub wrong: Option<&'static str>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            data: Data::default(),
            now: 100_000,
            copy: None,
            over: 0,
            fenced: 0,
            lost: false,
            lost_leases: false,
            torn: false,
            asked: BTreeSet::new(),
            wrong: None,
        }
    }
}

static SLICE: LazyLock<SliceId> = LazyLock::new(|| SliceId::of_live(LIVE.clone(), 1, 1));

static LIVE: LazyLock<LiveId> = LazyLock::new(|| LiveId::parse("1").unwrap());

/// A gateway that does not exist.
static NOBODY: LazyLock<GatewayId> = LazyLock::new(|| GatewayId::parse("nobody").unwrap());

impl Store {
    pub fn serve(&mut self, call: &Call, rules: &Rules) -> (Answer, Option<PeerMessage>) {
        let answer = match call {
            Call::Apply { .. } => Answer::Applied(self.apply(call, rules)),
            Call::Read { id } => Answer::Read(self.read(*id)),
            Call::ReadHeld { id } => {
                let [users, fans] = [Group::All, Group::Fans].map(|group| {
                    let page = self.data.slice.held_page(group, &id.name(), 0);
                    (numbers(&page.users), numbers(&page.missing))
                });
                Answer::Held {
                    users: users.0,
                    fans: fans.0,
                    missing: users.1.union(&fans.1).copied().collect(),
                }
            }
            Call::See { id } => Answer::Seen(self.see(*id)),
            Call::Touch { epoch } => return self.touch(*epoch),
            Call::Renew {
                id,
                held,
                number,
                burials,
            } => self.renew(*id, *held, *number, burials),
            Call::Sweep { of } => self.sweep(*of),
            Call::Mend { epoch } => self.mend(*epoch),
            Call::BeginClose { epoch } => return self.begin_close(*epoch),
            Call::CloseSlice { epoch } => self.close_slice(*epoch, rules),
            Call::FinishClose { epoch } => self.finish_close(*epoch),
        };
        (answer, None)
    }

    fn apply(&mut self, call: &Call, rules: &Rules) -> ApplyReply {
        let Call::Apply {
            epoch,
            id,
            draft,
            not_after,
        } = call
        else {
            return ApplyReply::Unknown;
        };
        let mut call = Apply {
            slice: SLICE.clone(),
            epoch: Epoch(*epoch),
            gateway: id.name(),
            number: draft.number,
            follows: draft.follows,
            known: SliceSize::default(),
            uniques: false,
            joins: draft.joins.clone(),
            fans: draft.fans.clone(),
            since: Vec::new(),
            lives: Vec::new(),
            left: None,
            leaves: draft.leaves.clone(),
        };
        if rules.lack(Mutation::NoFollows)
            && self.data.slice.fence() == Some(Fence::Open(call.epoch))
        {
            call.follows = self.read(*id).entry.or(call.follows);
        }
        let not_after = if rules.lack(Mutation::NoNotAfter) {
            u64::MAX
        } else {
            *not_after
        };
        match self.data.slice.apply(&call, not_after, self.now) {
            // Versions follow the clock, and the model does not look at them.
            ApplyReply::Done(view) => ApplyReply::Done(SliceView {
                size: SliceSize {
                    version: 0,
                    ..view.size
                },
                ..view
            }),
            ApplyReply::Late(_) => ApplyReply::Late(0),
            other => other,
        }
    }

    /// In one step, since each of its steps is right at any moment.
    fn mend(&mut self, epoch: u64) -> Answer {
        let (epoch, now, slice) = (Epoch(epoch), self.now, &mut self.data.slice);
        for group in [Group::All, Group::Fans] {
            slice.strays(group, 0, MAX_BATCH, Strays::Drop, now);
            for part in slice.survey().parts {
                slice.put_back(
                    epoch,
                    &part.gateway,
                    HeldFrom {
                        group,
                        cursor: 0,
                        most: MAX_BATCH,
                    },
                    now,
                );
            }
        }
        if let Some(compared) = slice.compare(epoch, SliceSize::default(), now) {
            slice.settle(epoch, compared.surplus, now);
        }
        Answer::Done
    }

    fn read(&self, id: Id) -> Reading {
        let reading = self.data.slice.read(&id.name());
        Reading {
            card: reading.size.card,
            in_doubt: reading.size.in_doubt,
            fence: reading.fence,
            entry: reading.entry,
            held: reading.held,
            held_fans: reading.held_fans,
            others: reading.gateways.iter().map(Id::of).collect(),
        }
    }

    fn see(&self, id: Id) -> Picture {
        Picture {
            record: self.data.record,
            slice: self.read(id),
        }
    }

    fn renew(
        &mut self,
        id: Id,
        held: Option<Lease>,
        number: u64,
        burials: &[(Id, Option<u64>)],
    ) -> Answer {
        let burials = burials
            .iter()
            .map(|(id, count)| Burial {
                gateway: id.name(),
                count: *count,
            })
            .collect();
        let renewal = RenewLease {
            gateway: id.name(),
            held,
            number,
            unheard: BTreeSet::new(),
            burials,
        };
        match self.data.leases.renew(&renewal, self.now) {
            LeaseReply::Dead => Answer::Dead,
            LeaseReply::Renewed(leases) => Answer::Renewed {
                own: leases.own,
                living: leases
                    .living
                    .iter()
                    .map(|there| (Id::of(&there.gateway), there.count))
                    .collect(),
                dead: leases
                    .dead
                    .iter()
                    .map(|(gateway, _)| Id::of(gateway))
                    .collect(),
            },
        }
    }

    /// All leases, as a gateway that does not exist would see them.
    pub fn leases(&self) -> (BTreeMap<Id, u64>, BTreeSet<Id>) {
        let renewal = RenewLease {
            gateway: NOBODY.clone(),
            held: None,
            number: 1,
            unheard: BTreeSet::new(),
            burials: Vec::new(),
        };
        let LeaseReply::Renewed(Leases { living, dead, .. }) =
            self.data.leases.clone().renew(&renewal, self.now)
        else {
            return Default::default();
        };
        let living = living
            .iter()
            .filter(|there| there.gateway != *NOBODY)
            .map(|there| (Id::of(&there.gateway), there.count));
        (
            living.collect(),
            dead.iter().map(|(gateway, _)| Id::of(gateway)).collect(),
        )
    }

    fn sweep(&mut self, of: Id) -> Answer {
        if !self.lost_leases && !self.leases().1.contains(&of) {
            self.wrong = Some("a gateway was swept that was not buried");
        }
        self.data
            .slice
            .sweep(&of.name(), MAX_BATCH, self.now, self.now);
        Answer::Done
    }

    /// Mirrors `Records::keep`.
    fn touch(&mut self, epoch: u64) -> (Answer, Option<PeerMessage>) {
        match self.data.record.filter(|record| record.epoch >= epoch) {
            None => {
                self.data.record = Some(Record {
                    epoch,
                    state: State::Open,
                });
                (Answer::IsOpen, Some(PeerMessage::Doubt))
            }
            Some(record) if record.state != State::Open || record.epoch != epoch => {
                (Answer::Is(record), None)
            }
            Some(_) => (Answer::IsOpen, None),
        }
    }

    /// Mirrors `Records::open`, and `MemoryStore::open_live` for the lowest epoch. No two lives
    /// open within a second, so the time in seconds is an epoch that was never used.
    pub fn open(&mut self) -> Option<u64> {
        let last = match self.data.record {
            Some(record) if record.state != State::Closed => return None,
            Some(record) => record.epoch,
            None => 0,
        };
        self.now += 1_000;
        let floor = self.data.slice.fence().map_or(0, |fence| fence.epoch().0);
        let epoch = (last.max(floor) + 1).max(self.now / 1_000);
        self.data.record = Some(Record {
            epoch,
            state: State::Open,
        });
        Some(epoch)
    }

    /// Mirrors `Records::begin_close`.
    fn begin_close(&mut self, wish: Option<u64>) -> (Answer, Option<PeerMessage>) {
        let Some(record) = &mut self.data.record else {
            return (Answer::Absent, None);
        };
        if wish.is_some_and(|epoch| epoch != record.epoch) || record.state == State::Closed {
            return (Answer::Is(*record), None);
        }
        record.state = State::Closing;
        (Answer::Is(*record), Some(PeerMessage::Record))
    }

    fn close_slice(&mut self, epoch: u64, rules: &Rules) -> Answer {
        if rules.lack(Mutation::NoFence) {
            self.data.slice = Slice::default();
        } else {
            self.data.slice.close(Epoch(epoch));
        }
        self.fenced = self.fenced.max(epoch);
        Answer::Done
    }

    /// Mirrors `Records::finish_close`.
    fn finish_close(&mut self, epoch: u64) -> Answer {
        if let Some(record) = &mut self.data.record
            && *record
                == (Record {
                    epoch,
                    state: State::Closing,
                })
        {
            record.state = State::Closed;
            if self.fenced >= epoch {
                self.over = self.over.max(epoch);
            }
        }
        Answer::Done
    }

    pub fn lose_slice(&mut self) {
        self.data.slice = Slice::default();
        self.note_loss();
    }

    pub fn lose_record(&mut self) {
        self.data.record = None;
        self.note_loss();
    }

    pub fn lose_leases(&mut self) {
        self.data.leases = LeaseTable::default();
        self.lost_leases = true;
        // Nothing else happens in the millisecond of a loss.
        self.now += 1;
    }

    /// Deletes the sets of the slice, but not the held sets.
    pub fn lose_set(&mut self) {
        self.data.slice.lose_set(Group::All);
        self.data.slice.lose_set(Group::Fans);
        self.torn = true;
    }

    pub fn keep_copy(&mut self) {
        self.copy = Some(Box::new((self.now, self.data.clone())));
    }

    /// Brings everything back to the copy.
    pub fn roll_back(&mut self) {
        if let Some(copy) = &self.copy {
            self.data = copy.1.clone();
            (self.lost_leases, self.torn) = (true, true);
            self.note_loss();
        }
    }

    /// Brings the slice back to the copy.
    pub fn fail_over(&mut self) {
        if let Some(copy) = &self.copy {
            self.data.slice = copy.1.slice.clone();
            self.torn = true;
            self.note_loss();
        }
    }

    fn note_loss(&mut self) {
        (self.over, self.fenced, self.lost) = (0, 0, true);
        self.now += 1;
    }

    pub fn is(&self, state: State) -> bool {
        self.data.record.is_some_and(|record| record.state == state)
    }

    /// Whom a gateway holds, each with the standing.
    pub fn held(&self, id: Id) -> BTreeSet<(usize, Standing)> {
        let [users, fans] = [Group::All, Group::Fans]
            .map(|group| self.data.slice.held_page(group, &id.name(), 0).users);
        standings(&users, &fans)
    }

    /// The members, each with the standing.
    pub fn members(&self) -> BTreeSet<(usize, Standing)> {
        let [users, fans] =
            [Group::All, Group::Fans].map(|group| self.data.slice.members_page(group, 0).users);
        standings(&users, &fans)
    }

    /// The gateways that have an entry.
    pub fn entries(&self) -> Vec<Id> {
        self.data
            .slice
            .read(&NOBODY)
            .gateways
            .iter()
            .map(Id::of)
            .collect()
    }

    /// What is wrong with the slice now.
    pub fn look(&mut self) -> Option<&'static str> {
        let members = self.members();
        let held: BTreeSet<(usize, Standing)> = self
            .entries()
            .iter()
            .flat_map(|id| self.held(*id))
            .collect();
        self.torn &= members != held;
        if members != held && !self.torn {
            return Some("the slice is not the union of what is held");
        }
        let occupied = !members.is_empty() || !self.entries().is_empty();
        match self.data.slice.fence() {
            // P3: no closed epoch comes back.
            Some(Fence::Open(epoch)) if epoch.0 <= self.over => Some("an epoch rose again"),
            Some(Fence::Closed(_)) if occupied => Some("somebody is in a closed slice"),
            None if occupied => Some("somebody is in a slice without a fence"),
            _ => self.wrong,
        }
    }
}

fn numbers(users: &[UserId]) -> BTreeSet<usize> {
    users.iter().filter_map(user_number).collect()
}

/// The users of a slice, each with the standing. A fan who is no member is told, too.
fn standings(users: &[UserId], fans: &[UserId]) -> BTreeSet<(usize, Standing)> {
    let (users, fans) = (numbers(users), numbers(fans));
    let members = users
        .difference(&fans)
        .map(|user| (*user, Standing::Member));
    members
        .chain(fans.iter().map(|user| (*user, Standing::Fan)))
        .collect()
}
