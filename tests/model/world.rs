//! The state of the model: one slice of one live, its gateways, and the network between them and
//! the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rollcall::base::ids::{GatewayId, UserId};
use rollcall::presence::desired_state::{DesiredState, Draft, Standing};
use rollcall::presence::turn::Turn;
use rollcall::store::{ApplyReply, Lease, SliceSize};

use super::budget::{Budget, Rules};
use super::store::{Answer, Call, PassCall, Store};

static USERS: LazyLock<Vec<UserId>> = LazyLock::new(|| {
    (0..4)
        .map(|n| UserId::parse(&format!("u{n}")).unwrap())
        .collect()
});

/// The most ids that one process uses in a history.
const LIVES: usize = 32;

static GATEWAYS: LazyLock<Vec<GatewayId>> = LazyLock::new(|| {
    let names = (0..4).flat_map(|at| (0..LIVES).map(move |life| format!("g{at}-{life}")));
    names.map(|name| GatewayId::parse(&name).unwrap()).collect()
});

pub fn user_id(user: usize) -> UserId {
    USERS[user].clone()
}

/// How a user stands in the live of whom a gateway knows: each second one is a fan.
pub fn standing(user: usize) -> Standing {
    if user.is_multiple_of(2) {
        Standing::Fan
    } else {
        Standing::Member
    }
}

pub fn user_number(user: &UserId) -> Option<usize> {
    USERS.iter().position(|other| other == user)
}

/// A gateway's id: its process, and how often that process has begun anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub at: usize,
    pub life: u8,
}

impl Id {
    pub fn name(self) -> GatewayId {
        GATEWAYS[self.at * LIVES + usize::from(self.life)].clone()
    }

    pub fn of(name: &GatewayId) -> Self {
        let (at, life) = name.as_str()[1..].split_once('-').unwrap();
        Self {
            at: at.parse().unwrap(),
            life: life.parse().unwrap(),
        }
    }
}

/// The part of a gateway that waits for an answer. Several parts may wait at once, each for one
/// answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// `flush::work`.
    Job,
    /// `lease::renew`.
    Lease,
    /// `check::check`.
    Checker,
}

/// The step that waits for the answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Why {
    AskRecord(Turn),
    Complain(Turn),
    Apply(Turn, Draft),
    /// The fence says that the epoch is over, so the gateway asks the record.
    Over,
    Renew {
        asked: u64,
        number: u64,
    },
    /// The entry and the size that a check expects; `None` while anything is unsettled.
    Check(Option<(Option<u64>, SliceSize)>),
    /// Repairs what a check found, pass by pass.
    PutRight(Vec<PassCall>),
}

/// A call under way whose answer a gateway waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Task {
    /// The gateway's id when the task began.
    pub id: Id,
    pub why: Why,
    pub call: Call,
    pub answer: Option<Answer>,
}

/// The live's room on a gateway, with one slice only.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Room {
    pub epoch: u64,
    pub desired: DesiredState,
    /// Fans with a socket here.
    pub seated: BTreeSet<usize>,
    /// The life of the gateway in which this slice makes its calls; 0 before the first.
    pub life: u8,
    /// When the gateway last heard that the live is open.
    pub touched: u64,
    /// Whether a check is due at once.
    pub doubt: bool,
    /// The newest size that the gateway knows of the slice.
    pub known: SliceSize,
    /// How many renewals the gateway had begun when the slice last refused a call of this life.
    pub refused: Option<u64>,
    /// Whether the slice has refused a call since the gateway last heard that the
    /// live is open.
    pub unconfirmed: bool,
    /// Whether the store refused a call when the epoch was over.
    pub refuted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Gateway {
    pub killed: bool,
    /// Whether the process stands still. Its calls under way go on.
    pub frozen: bool,
    /// Whether the gateway hears no messages. It learns of that later.
    pub cut: bool,
    pub life: u8,
    /// The lease in the last answer.
    pub lease: Option<Lease>,
    /// How many renewals it asked for.
    pub renewals: u64,
    /// When the last renewal that was answered was sent, and which one it was.
    pub renewed: Option<u64>,
    pub renewal: u64,
    /// `OwnLease::note_entry_lost`.
    pub in_doubt: bool,
    /// The leases in the last look.
    pub seen: BTreeMap<Id, u64>,
    /// Ids that have an entry in the slice and no lease.
    pub unlisted: BTreeSet<Id>,
    pub dead: BTreeSet<Id>,
    pub room: Option<Room>,
    pub tasks: BTreeMap<Who, Task>,
    /// Stands for the clock of the process, which is ahead of the numbers of all its calls.
    pub clock: u64,
}

/// A call on its way. A call that nobody waits for any more is late: it arrives at any time, or
/// never.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Message {
    pub from: usize,
    pub who: Who,
    pub awaited: bool,
    pub call: Call,
}

impl Message {
    /// Sorts the network, which has no order, so that equal states are written down in the same
    /// way.
    fn rank(&self) -> (usize, Who, bool, u8, u64, u64) {
        let (kind, number, time) = match &self.call {
            Call::Apply {
                epoch,
                draft,
                not_after,
                ..
            } => (0, epoch * 1_000 + draft.number, *not_after),
            Call::Renew {
                number,
                held,
                burials,
                ..
            } => (
                2,
                *number,
                held.map_or(0, |held| held.born) * 4 + burials.len() as u64,
            ),
            Call::AskRecord { epoch } => (3, *epoch, 0),
            Call::Pass(pass) => (4, pass.epoch, pass.known.version),
            Call::Look { .. } => (5, 0, 0),
        };
        (self.from, self.who, self.awaited, kind, number, time)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub store: Store,
    pub gateways: Vec<Gateway>,
    pub network: Vec<Message>,
    pub left: Budget,
    /// What a step did that no step may do.
    pub wrong: Option<&'static str>,
    pub rules: Rules,
}

impl World {
    pub fn new(gateways: usize, left: Budget, rules: Rules) -> Self {
        Self {
            store: Store::default(),
            gateways: vec![
                Gateway {
                    life: 1,
                    ..Gateway::default()
                };
                gateways
            ],
            network: Vec::new(),
            left,
            wrong: None,
            rules,
        }
    }

    pub fn id(&self, at: usize) -> Id {
        Id {
            at,
            life: self.gateways[at].life,
        }
    }

    pub fn send(&mut self, message: Message) {
        self.network.push(message);
        self.network.sort_by_key(Message::rank);
    }

    /// A gateway makes a call and waits for the answer.
    pub fn call(&mut self, at: usize, who: Who, why: Why, call: Call) {
        let id = self.id(at);
        self.call_as(id, who, why, call);
    }

    pub fn call_as(&mut self, id: Id, who: Who, why: Why, call: Call) {
        self.send(Message {
            from: id.at,
            who,
            awaited: true,
            call: call.clone(),
        });
        self.gateways[id.at].tasks.insert(
            who,
            Task {
                id,
                why,
                call,
                answer: None,
            },
        );
    }

    pub fn is_busy(&self, at: usize, who: Who) -> bool {
        self.gateways[at].tasks.contains_key(&who)
    }

    /// The store carries out a call. A gateway that waits gets the answer.
    pub fn serve(&mut self, place: usize) {
        let Message {
            from,
            who,
            awaited,
            call,
        } = self.network.remove(place);
        let answer = self.store.serve(&call, &self.rules);
        if !awaited {
            return;
        }
        let gateway = &mut self.gateways[from];
        if let Some(room) = &mut gateway.room
            && room.epoch < self.store.epoch
        {
            room.refuted |= matches!(answer, Answer::Applied(ApplyReply::Refused(_)));
        }
        if let Some(task) = gateway.tasks.get_mut(&who) {
            task.answer = Some(answer);
        }
    }

    /// The rooms that hear the messages of a gateway. A message arrives at once or never. Delays lie
    /// in what a gateway does about it afterwards.
    pub fn peers_of(&mut self, from: usize) -> impl Iterator<Item = &mut Room> {
        let peers = self.gateways.iter_mut().enumerate();
        peers
            .filter(move |(at, gateway)| *at != from && !gateway.cut)
            .filter_map(|(_, gateway)| gateway.room.as_mut())
    }

    /// Stops waiting for a call. The call may still arrive, if the budget has room for a late one.
    pub fn forsake(&mut self, from: usize, who: Who) -> Option<Task> {
        let task = self.gateways[from].tasks.remove(&who)?;
        let room_for_more = self.late() < usize::from(self.left.late);
        if let Some(place) = self
            .network
            .iter()
            .position(|m| m.awaited && m.from == from && m.who == who)
        {
            let mut message = self.network.remove(place);
            // A late call that only reads changes nothing.
            if room_for_more && !message.call.only_reads() {
                message.awaited = false;
                self.send(message);
            }
        }
        Some(task)
    }

    pub fn late(&self) -> usize {
        self.network
            .iter()
            .filter(|message| !message.awaited)
            .count()
    }

    /// The processes that were not killed.
    pub fn alive(&self) -> impl Iterator<Item = usize> + use<> {
        let alive: Vec<usize> = (0..self.gateways.len())
            .filter(|at| !self.gateways[*at].killed)
            .collect();
        alive.into_iter()
    }
}
