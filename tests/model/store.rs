//! The store of the model: the real [`Slice`] and [`LeaseTable`], and the record of the live, whose
//! few transitions mirror `store/memory/lives.rs`. Every call is one atomic step, as every script
//! is. The store's clock advances only where a history says so.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use rollcall::base::ids::{Epoch, GatewayId, Group, LiveId, SliceId, UserId};
use rollcall::presence::desired_state::{Draft, Standing};
use rollcall::store::slice::Slice;
use rollcall::store::{
    Apply, ApplyReply, Burial, Claim, Entries, Fence, Lease, LeaseReply, LeaseTable, Leases, Pass,
    PassCursor, RenewLease, SliceEntry, SliceLook, SliceSize,
};

use super::budget::{Mutation, Rules};
use super::world::{Id, user_id, user_number};

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
        known: SliceSize,
        not_after: u64,
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
    Pass(PassCall),
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
        matches!(self, Self::See { .. })
    }
}

/// A page of a pass.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PassCall {
    pub epoch: u64,
    pub known: SliceSize,
    pub wrong: Option<u64>,
    pub dead: Vec<Id>,
    pub from: Option<PassCursor>,
    pub only_claims: bool,
}

/// What the store answers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    Applied(ApplyReply),
    /// Where the pass goes on, and the size after the page; `None` if the slice is of another epoch.
    Passed(Option<(Option<PassCursor>, SliceSize)>),
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

/// A slice as a gateway finds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Look {
    pub fence: Option<Fence>,
    pub size: SliceSize,
    pub is_intact: bool,
    pub has_keys: bool,
    pub entry: Option<SliceEntry>,
    pub entries: Vec<(Id, SliceEntry)>,
}

impl Look {
    /// The same, as production has it, without the entries of others.
    pub fn found(&self) -> SliceLook {
        SliceLook {
            fence: self.fence,
            size: self.size,
            is_intact: self.is_intact,
            has_keys: self.has_keys,
            entry: self.entry,
            entries: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Picture {
    pub record: Option<Record>,
    pub slice: Look,
}

/// What the store publishes to the gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerMessage {
    Record,
    Doubt,
    /// The size of the slice in this epoch.
    Size(u64, SliceSize),
}

/// Everything that the store can lose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Data {
    pub slice: Slice,
    pub leases: LeaseTable,
    pub record: Option<Record>,
}

/// Equal slices may have other versions and totals, which decide whether they are older than a
/// gateway knows.
impl Hash for Data {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.slice, self.slice.size()).hash(state);
        (&self.leases, self.record).hash(state);
    }
}

/// What another program does to the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meddling {
    /// The public sets are deleted.
    LoseSets,
    TakeOut(usize),
    AddStranger(usize),
    LoseClaims(usize),
    /// A claim of nobody, as a fan or not.
    Invent(usize, bool),
    LoseEntry(Id),
    ChangeEntry(Id),
    LoseFence,
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
    /// Whether the public sets may be other than the claims say.
    torn: bool,
    /// The epochs that a client asked to close.
    pub asked: BTreeSet<u64>,
    /// The ids whose gateways have let go of the live.
    pub released: BTreeSet<Id>,
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
            released: BTreeSet::new(),
            wrong: None,
        }
    }
}

static SLICE: LazyLock<SliceId> = LazyLock::new(|| SliceId::of_live(LIVE.clone(), 1, 1));

static LIVE: LazyLock<LiveId> = LazyLock::new(|| LiveId::parse("1").unwrap());

/// A number that no gateway gives a call.
const FOREIGN_NUMBER: u64 = 999_999_999_999;

/// A gateway that does not exist.
static NOBODY: LazyLock<GatewayId> = LazyLock::new(|| GatewayId::parse("nobody").unwrap());

impl Store {
    pub fn serve(&mut self, call: &Call, rules: &Rules) -> (Answer, Option<PeerMessage>) {
        let answer = match call {
            Call::Apply { .. } => Answer::Applied(self.apply(call, rules)),
            Call::See { id } => Answer::Seen(self.see(*id)),
            Call::Touch { epoch } => return self.touch(*epoch),
            Call::Renew {
                id,
                held,
                number,
                burials,
            } => self.renew(*id, *held, *number, burials),
            Call::Pass(pass) => self.pass(pass),
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
            known,
            not_after,
        } = call
        else {
            unreachable!()
        };
        let mut call = Apply {
            slice: SLICE.clone(),
            epoch: Epoch(*epoch),
            gateway: id.name(),
            number: draft.number,
            follows: draft.follows,
            known: *known,
            more: draft.more,
            bye: draft.bye,
            uniques: false,
            joins: draft.joins.clone(),
            fans: draft.fans.clone(),
            since: Vec::new(),
            lives: Vec::new(),
            left: None,
            leaves: draft.leaves.clone(),
        };
        if rules.lack(Mutation::NoFollows)
            && let Some(SliceEntry::At { number, .. }) = self.look(*id).entry
        {
            call.follows = Some(number);
        }
        let not_after = if rules.lack(Mutation::NoNotAfter) {
            u64::MAX
        } else {
            *not_after
        };
        match self.data.slice.apply(&call, not_after, self.now) {
            ApplyReply::Late(_) => ApplyReply::Late(0),
            other => other,
        }
    }

    fn pass(&mut self, call: &PassCall) -> Answer {
        let buried = self.leases().1;
        for id in &call.dead {
            // A gateway that has let go of the live takes its former entry away.
            let may_go = self.lost_leases || self.released.contains(id) || buried.contains(id);
            if call.from.is_none() && !may_go {
                self.wrong = Some("a gateway was swept that was not buried");
            }
        }
        let pass = Pass {
            slice: SLICE.clone(),
            epoch: Epoch(call.epoch),
            known: call.known,
            wrong: call.wrong,
            dead: call.dead.iter().map(|id| (id.name(), self.now)).collect(),
            from: call.from,
            only_claims: call.only_claims,
        };
        let passed = self.data.slice.pass(&pass, self.now);
        Answer::Passed(passed.map(|passed| (passed.next, passed.size)))
    }

    /// The slice as a gateway finds it.
    pub fn look(&self, id: Id) -> Look {
        let SliceLook {
            fence,
            size,
            is_intact,
            has_keys,
            entry,
            entries,
        } = self.data.slice.look(&id.name(), Entries::All);
        Look {
            fence,
            size,
            is_intact,
            has_keys,
            entry,
            entries: entries
                .iter()
                .map(|(gateway, entry)| (Id::of(gateway), *entry))
                .collect(),
        }
    }

    fn see(&self, id: Id) -> Picture {
        Picture {
            record: self.data.record,
            slice: self.look(id),
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

    /// Another program writes to the slice.
    pub fn meddle(&mut self, what: Meddling) {
        let (slice, user) = (&mut self.data.slice, user_id);
        match what {
            Meddling::LoseSets => {
                slice.lose_set(Group::All);
                slice.lose_set(Group::Fans);
            }
            Meddling::TakeOut(at) => {
                slice.take_out(Group::All, &user(at));
                slice.take_out(Group::Fans, &user(at));
            }
            Meddling::AddStranger(at) => slice.add_stranger(Group::All, &user(at)),
            Meddling::LoseClaims(at) => slice.lose_claims(&user(at)),
            Meddling::Invent(at, is_fan) => {
                let claim = if is_fan { Claim::Fan } else { Claim::Member };
                slice.invent_claim(&user(at), None, claim);
            }
            Meddling::LoseEntry(id) => slice.lose_entry(&id.name()),
            Meddling::ChangeEntry(id) => slice.change_entry(&id.name(), FOREIGN_NUMBER),
            // The epoch may have been over.
            Meddling::LoseFence => {
                slice.lose_fence();
                self.note_loss();
            }
        }
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

    /// What each gateway claims of whom; claims of nobody without a gateway.
    pub fn claims(&self) -> BTreeSet<(Option<Id>, usize, Standing)> {
        let mut claims = BTreeSet::new();
        for claimed in self.data.slice.claims_page(0).users {
            let Some(user) = user_number(&claimed.user) else {
                continue;
            };
            for (gateway, claim) in &claimed.by {
                let standing = match claim {
                    Claim::Fan => Standing::Fan,
                    Claim::Member | Claim::In(_) => Standing::Member,
                };
                claims.insert((gateway.as_ref().map(Id::of), user, standing));
            }
        }
        claims
    }

    /// The members, each with the standing.
    pub fn members(&self) -> BTreeSet<(usize, Standing)> {
        let [users, fans] =
            [Group::All, Group::Fans].map(|group| self.data.slice.members_page(group, 0).users);
        standings(&users, &fans)
    }

    /// The gateways that have an entry.
    pub fn entries(&self) -> Vec<(Id, SliceEntry)> {
        let found = self.data.slice.look(&NOBODY, Entries::All).entries;
        found
            .iter()
            .map(|(gateway, entry)| (Id::of(gateway), *entry))
            .collect()
    }

    /// What is wrong with the slice now.
    pub fn wrong_now(&mut self) -> Option<&'static str> {
        let (members, shown) = (self.members(), shown(&self.claims()));
        let slice = &self.data.slice;
        let is_shown = if slice.size().rebuild {
            // Who is no fan any more may still be one in the public set.
            let there: BTreeSet<usize> = members.iter().map(|(user, _)| *user).collect();
            shown.iter().all(|(user, _)| there.contains(user))
        } else {
            members == shown
        };
        let is_open = matches!(slice.fence(), Some(Fence::Open(_)));
        self.torn &= !is_shown || !is_open || slice.size().rebuild;
        if !is_shown && !self.torn && !slice.size().differs {
            return Some("the public sets do not show the claims");
        }
        let occupied = !members.is_empty() || !self.entries().is_empty();
        match slice.fence() {
            // P3: no closed epoch comes back.
            Some(Fence::Open(epoch)) if epoch.0 <= self.over => Some("an epoch rose again"),
            Some(Fence::Closed(_)) if occupied && !self.torn => {
                Some("somebody is in a closed slice")
            }
            None if occupied && !self.torn => Some("somebody is in a slice without a fence"),
            _ => self.wrong,
        }
    }
}

/// The members and fans that claims speak of.
pub fn shown(claims: &BTreeSet<(Option<Id>, usize, Standing)>) -> BTreeSet<(usize, Standing)> {
    let mut shown: BTreeMap<usize, Standing> = BTreeMap::new();
    for (_, user, standing) in claims {
        let there = shown.entry(*user).or_insert(*standing);
        *there = (*there).max(*standing);
    }
    shown.into_iter().collect()
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
