//! The state of the model: one slice of one live, its gateways, and the network between them and the store.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use rollcall::flush::turn::Turn;
use rollcall::ids::{GatewayId, UserId};
use rollcall::rooms::ledger::Ledger;

use super::store::{Answer, Call, Store};

static USERS: LazyLock<Vec<UserId>> =
    LazyLock::new(|| (0..4).map(|n| UserId::parse(&format!("u{n}")).unwrap()).collect());
static GATEWAYS: LazyLock<Vec<GatewayId>> =
    LazyLock::new(|| (0..4).map(|n| GatewayId::parse(&format!("g{n}")).unwrap()).collect());

pub fn user_id(user: usize) -> UserId {
    USERS[user].clone()
}

pub fn user_number(user: &UserId) -> Option<usize> {
    USERS.iter().position(|other| other == user)
}

pub fn gateway_id(gateway: usize) -> GatewayId {
    GATEWAYS[gateway].clone()
}

/// One rule of the protocol left out, to see that the check notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    Nothing,
    /// The store carries out calls of any number.
    NoNumbers,
    /// A close unlinks the keys and leaves no fence.
    NoFence,
    /// A gateway takes `unknown` for any other failure.
    UnknownIgnored,
    /// What was lost is asserted again without a look at the record.
    RecordNotConfirmed,
    /// A lease is refreshed without a look at the record.
    RecordNotTouched,
    /// A room made anew numbers its calls from 1.
    NumbersBeginAnew,
    /// A close is for whichever epoch is open when it arrives.
    CloseWithoutEpoch,
    /// What the store holds is never read in the absence of a wrong count.
    NoReconcile,
    /// A lease is renewed without a look at how many fans there are.
    RenewedBlindly,
    /// There are but glances once an entry stands under the gateway's own lease. This breaks no rule: the minute's looks
    /// are left out to see what is found without.
    OnlyGlances,
    /// The same, and a gateway goes on as before after its own lease ran out.
    LapseIgnored,
}

/// How much of what multiplies the states can happen in one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// The highest epoch to be opened.
    pub epochs: u64,
    /// Calls that were given up and may still arrive, at a time.
    pub late: usize,
    /// Calls that the network carries twice.
    pub duplicates: u8,
    /// Gateways that die.
    pub crashes: u8,
    /// Leases that run out.
    pub leases: u8,
    /// Own leases that begin.
    pub own_leases: u8,
    /// Closes that somebody asks for.
    pub closes: u8,
    /// Times that the store loses data.
    pub losses: u8,
    /// Comings and goings of users.
    pub moves: u8,
}

/// A turn of the flusher; mirrors where `flush::work` waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Job {
    pub turn: Turn,
    pub why: Why,
    pub call: Call,
    pub answer: Option<Answer>,
}

/// What a turn of the flusher is for, besides what the ledger has to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Due {
    pub refresh: bool,
    pub reconcile: bool,
}

/// For which step of the turn the job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    Touch,
    Call,
    Confirm,
    ReadBack,
    Over,
}

/// A close under way; mirrors where `Parts::close` and `Parts::finish` wait.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Closer {
    pub epoch: Option<u64>,
    pub rewritten: bool,
    pub call: Call,
    pub answer: Option<Answer>,
}

/// The live's room on a gateway, as far as this slice goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Room {
    pub epoch: u64,
    pub ledger: Ledger,
    /// Fans with a socket here.
    pub seated: BTreeSet<usize>,
    /// The store said `unknown` at a time when the record said that the epoch was over.
    pub refuted: bool,
    /// The number of the call after which the entry stands under the gateway's own lease.
    pub covered: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Gateway {
    pub dead: bool,
    pub room: Option<Room>,
    pub job: Option<Job>,
    pub closer: Option<Closer>,
    /// Stands for the process's clock, which is ahead of the numbers of all its calls.
    pub clock: u64,
    /// Which own lease it knows of.
    pub own: Option<u8>,
    /// Its own lease ran out, and the room has not been refreshed since.
    pub doubts: bool,
}

/// Who on a gateway waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    Job,
    Closer,
}

/// A call on its way. One that nobody waits for any more is late: it arrives at any time, or never.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    pub from: usize,
    pub who: Who,
    pub awaited: bool,
    pub call: Call,
}

impl Message {
    /// The network has no order, so states are the same whichever way it is written down.
    fn rank(&self) -> (usize, Who, bool, u8, u64) {
        let (kind, number) = match &self.call {
            Call::Apply { epoch, draft } => (0, epoch * 1_000 + draft.number),
            Call::ReadHeld => (1, 0),
            Call::Renew(expected) => (6, expected.number * 2 + u64::from(expected.glance)),
            Call::Touch { epoch } => (2, *epoch),
            Call::BeginClose { epoch } => (3, epoch.unwrap_or(0)),
            Call::CloseSlice { epoch } => (4, *epoch),
            Call::FinishClose { epoch } => (5, *epoch),
        };
        (self.from, self.who, self.awaited, kind, number)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub store: Store,
    pub gateways: Vec<Gateway>,
    pub network: Vec<Message>,
    pub left: Budget,
    /// The network carried a call twice.
    pub duplicated: bool,
    /// A step did what no step may do.
    pub wrong: Option<&'static str>,
    pub mutation: Mutation,
}

impl World {
    pub fn new(gateways: usize, budget: Budget, mutation: Mutation) -> Self {
        Self {
            store: Store::default(),
            gateways: vec![Gateway::default(); gateways],
            network: Vec::new(),
            left: budget,
            duplicated: false,
            wrong: None,
            mutation,
        }
    }

    pub fn send(&mut self, message: Message) {
        self.network.push(message);
        self.network.sort_by_key(Message::rank);
    }

    pub fn late(&self) -> usize {
        self.network.iter().filter(|message| !message.awaited).count()
    }

    pub fn living(&self) -> impl Iterator<Item = usize> + use<> {
        let living: Vec<usize> = (0..self.gateways.len()).filter(|n| !self.gateways[*n].dead).collect();
        living.into_iter()
    }
}
