//! The store of the model: the real [`StoredSlice`] and [`LeaseTable`], and the epoch in which the live is
//! open. Every call is one atomic step, as every script is. The store's clock advances only where a
//! history says so.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use rollcall::base::ids::{Epoch, GatewayId, Group, LiveId, SliceId, UserId};
use rollcall::presence::desired_state::{Draft, Standing};
use rollcall::store::slice::StoredSlice;
use rollcall::store::{
    Apply, ApplyReply, Burial, Claim, Entries, Fence, Lease, LeaseReply, LeaseTable, Leases, Pass,
    PassCursor, RenewLease, SliceEntry, SliceLook, SliceSize,
};

use super::budget::{Mutation, Rules};
use super::world::{Id, user_number};

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
    /// Reads the slice, and in which epoch the live is open.
    Look {
        id: Id,
    },
    /// Asks whether the live is still open in this epoch.
    AskRecord {
        epoch: u64,
    },
    Renew {
        id: Id,
        held: Option<Lease>,
        number: u64,
        burials: Vec<(Id, Option<u64>)>,
    },
    Pass(PassCall),
}

impl Call {
    pub fn only_reads(&self) -> bool {
        matches!(self, Self::Look { .. })
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
    /// The epoch in which the live is open, and the slice.
    Seen(u64, Look),
    IsOpen,
    IsOver,
    Renewed {
        own: Lease,
        living: BTreeMap<Id, u64>,
        dead: BTreeSet<Id>,
    },
    Dead,
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

/// Everything that the store can lose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Data {
    pub slice: StoredSlice,
    pub leases: LeaseTable,
}

/// Equal slices may have other versions and totals, which decide whether they are older than a
/// gateway knows.
impl Hash for Data {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.slice, self.slice.size(), &self.leases).hash(state);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Store {
    pub data: Data,
    /// The store's clock, in milliseconds.
    pub now: u64,
    /// The epoch in which the live is open.
    pub epoch: u64,
    /// A copy of the slice.
    pub copy: Option<Box<StoredSlice>>,
    /// The last epoch that was closed since the slice was last lost.
    over: u64,
    /// Whether the slice was ever lost or went back to a copy.
    pub lost: bool,
    /// Whether the leases were ever lost.
    lost_leases: bool,
    /// Whether the public sets may be other than the claims say.
    torn: bool,
    /// What a call did that no call may do.
    pub wrong: Option<&'static str>,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            data: Data::default(),
            now: 100_000,
            epoch: 1,
            copy: None,
            over: 0,
            lost: false,
            lost_leases: false,
            torn: false,
            wrong: None,
        }
    }
}

static SLICE: LazyLock<SliceId> = LazyLock::new(|| SliceId::of_live(LIVE.clone(), 1, 1));

static LIVE: LazyLock<LiveId> = LazyLock::new(|| LiveId::parse("1").unwrap());

/// A gateway that does not exist.
static NOBODY: LazyLock<GatewayId> = LazyLock::new(|| GatewayId::parse("nobody").unwrap());

impl Store {
    pub fn serve(&mut self, call: &Call, rules: &Rules) -> Answer {
        match call {
            Call::Apply { .. } => Answer::Applied(self.apply(call, rules)),
            Call::Look { id } => Answer::Seen(self.epoch, self.look(*id)),
            Call::AskRecord { epoch } if *epoch == self.epoch => Answer::IsOpen,
            Call::AskRecord { .. } => Answer::IsOver,
            Call::Renew {
                id,
                held,
                number,
                burials,
            } => self.renew(*id, *held, *number, burials),
            Call::Pass(pass) => self.pass(pass),
        }
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
            if call.from.is_none() && !self.lost_leases && !buried.contains(id) {
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

    /// The live closes, and opens again in the next epoch.
    pub fn close(&mut self, rules: &Rules) {
        if rules.lack(Mutation::NoFence) {
            self.data.slice = StoredSlice::default();
        } else {
            self.data.slice.close(Epoch(self.epoch));
        }
        self.over = self.epoch;
        self.epoch += 1;
    }

    /// The walk closes a slice that belongs to an older epoch.
    pub fn close_older(&mut self) {
        if let Some(Fence::Open(older)) = self.data.slice.fence()
            && older.0 < self.epoch
        {
            self.data.slice.close(older);
        }
    }

    pub fn lose_slice(&mut self) {
        self.data.slice = StoredSlice::default();
        self.note_loss();
    }

    pub fn lose_leases(&mut self) {
        self.data.leases = LeaseTable::default();
        self.lost_leases = true;
        // Nothing else happens in the millisecond of a loss.
        self.now += 1;
    }

    /// Brings the slice back to the copy. The next copy is one of that.
    pub fn fail_over(&mut self) {
        if let Some(copy) = self.copy.take() {
            self.data.slice = *copy;
            self.torn = true;
            self.note_loss();
        }
    }

    fn note_loss(&mut self) {
        (self.over, self.lost) = (0, true);
        self.now += 1;
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
