//! The state of the model: one slice of one live, its gateways, and the network between them and the store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use rollcall::base::ids::{GatewayId, UserId};
use rollcall::presence::desired_state::{DesiredState, Draft};
use rollcall::presence::turn::Turn;
use rollcall::store::{ApplyReply, Lease};

use super::budget::{Budget, Rules};
use super::store::{Answer, Call, Record, State, Store, Word};

static USERS: LazyLock<Vec<UserId>> =
    LazyLock::new(|| (0..4).map(|n| UserId::parse(&format!("u{n}")).unwrap()).collect());

/// The most ids that one process goes through in a history.
const LIVES: usize = 32;

static GATEWAYS: LazyLock<Vec<GatewayId>> = LazyLock::new(|| {
    let names = (0..4).flat_map(|at| (0..LIVES).map(move |life| format!("g{at}-{life}")));
    names.map(|name| GatewayId::parse(&name).unwrap()).collect()
});

pub fn user_id(user: usize) -> UserId {
    USERS[user].clone()
}

pub fn user_number(user: &UserId) -> Option<usize> {
    USERS.iter().position(|other| other == user)
}

/// A gateway's id: which process it is, and which of its lives.
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
        Self { at: at.parse().unwrap(), life: life.parse().unwrap() }
    }
}

/// What a gateway waits for, and what it does next. A gateway waits for several things at once, but for one of each
/// kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
    /// `flush::work`.
    Job,
    /// `Parts::close` and `Parts::finish`.
    Closer,
    /// `lease::renew`.
    Lease,
    /// `check::check`.
    Checker,
    /// `gossip::mouth::say`.
    Mouth,
    /// `Lives::record_changed` and `Checker::check_ended`.
    Ear,
    /// `Lives::find`.
    Finder,
    /// `walk::look_after`.
    Walker,
}

/// For which step something waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Why {
    Touch(Turn),
    Apply(Turn, Draft),
    Confirm(Turn),
    /// The entry is read first, then what is held.
    ReadEntry(Turn),
    ReadHeld(Turn, Option<u64>),
    /// The fence says that the epoch is over.
    Over,
    BeginClose {
        epoch: u64,
        rewritten: bool,
    },
    /// The record was lost: it is written again to be closed.
    Rewrite {
        epoch: u64,
    },
    CloseSlice {
        epoch: u64,
    },
    FinishClose,
    Renew {
        asked: u64,
    },
    Check(Expected),
    /// What a check or a walk found is being put right, call by call.
    PutRight(Vec<Repair>),
    Say(Told),
    LookAgain,
    LookAfter {
        epoch: u64,
        closed: bool,
    },
    Find,
    Walk,
}

/// One thing to put right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Repair {
    /// `gossip::read_again`; with what the store was thought to have of this gateway.
    ReadAgain(Option<(u64, u64)>),
    /// `upkeep::touch`.
    Touch,
    /// `upkeep::over`.
    Over,
    Sweep(Id),
    Forget(Id),
    /// A slice of an older epoch.
    CloseSlice(u64),
}

/// A call under way, for a gateway that waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Task {
    /// Under which id it was begun.
    pub id: Id,
    pub why: Why,
    pub call: Call,
    pub answer: Option<Answer>,
}

/// What a check expects of the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Expected {
    pub living: BTreeSet<Id>,
    /// Entry and size of the held set; `None` while they are not settled.
    pub slice: Option<(Option<u64>, u64)>,
    /// Viewers and numbers, added up.
    pub said: (u64, u64),
}

/// What the store was told of a gateway's viewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Told {
    pub viewers: u64,
    pub number: u64,
    pub life: u8,
}

/// `peers::Peer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Peer {
    pub viewers: u64,
    pub number: u64,
    /// The store did not know of it when it was read last.
    pub unsaid: bool,
}

/// The live's room on a gateway, as far as this slice goes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Room {
    pub epoch: u64,
    pub ledger: DesiredState,
    /// Fans with a socket here.
    pub seated: BTreeSet<usize>,
    /// The life in which the ledger's calls are made; 0 before the first.
    pub life: u8,
    /// When the record was last seen to be open.
    pub touched: u64,
    pub told: Option<Told>,
    /// Viewers are to be told in any case.
    pub must_tell: bool,
    /// What other gateways said of their viewers.
    pub peers: BTreeMap<Id, Peer>,
    /// A check is due ahead of its turn.
    pub doubt: bool,
    /// Its record was said to have changed.
    pub look: bool,
    /// The store said `unknown` at a time when the record said that the epoch was over.
    pub refuted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Gateway {
    pub killed: bool,
    /// It does nothing for now. Calls under way go on.
    pub frozen: bool,
    /// It hears no words, and will know it.
    pub cut: bool,
    pub life: u8,
    /// The lease as it was last answered.
    pub lease: Option<Lease>,
    /// When the renewal was asked for that was answered last.
    pub renewed: Option<u64>,
    /// `OwnLease::doubt`.
    pub in_doubt: bool,
    /// The leases of the last look.
    pub seen: BTreeMap<Id, u64>,
    /// Ids that stand in the slice and are not known.
    pub unlisted: BTreeSet<Id>,
    pub dead: BTreeSet<Id>,
    pub room: Option<Room>,
    /// Rooms that ended: epoch, whether by a close, and when.
    pub former: BTreeMap<(u64, bool), u64>,
    pub tasks: BTreeMap<Who, Task>,
    /// Closes that wait for another to be done.
    pub closes: BTreeSet<u64>,
    /// Stands for the process's clock, which is ahead of the numbers of all its calls.
    pub clock: u64,
    /// The number of the last word on viewers.
    pub word: u64,
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
    fn rank(&self) -> (usize, Who, bool, u8, u64, u64) {
        let (kind, number, time) = match &self.call {
            Call::Apply { epoch, draft, not_after, .. } => (0, epoch * 1_000 + draft.number, *not_after),
            Call::Say { number, not_after, .. } => (1, *number, *not_after),
            Call::Renew { held, burials, .. } => {
                (2, held.map_or(0, |held| held.count), held.map_or(0, |held| held.born) * 4 + burials.len() as u64)
            }
            Call::Touch { epoch } => (3, *epoch, 0),
            Call::BeginClose { epoch } => (4, epoch.unwrap_or(0), 0),
            Call::CloseSlice { epoch } => (5, *epoch, 0),
            Call::FinishClose { epoch } => (6, *epoch, 0),
            Call::Sweep { of } | Call::Forget { of } => (7, of.at as u64, u64::from(of.life)),
            Call::Read { .. } | Call::ReadHeld { .. } | Call::See { .. } => (8, 0, 0),
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
    /// A step did what no step may do.
    pub wrong: Option<&'static str>,
    pub rules: Rules,
}

impl World {
    pub fn new(gateways: usize, left: Budget, rules: Rules) -> Self {
        // Words are numbered from a random number on.
        let gateway = |at| Gateway { life: 1, word: at as u64 * 1_000, ..Gateway::default() };
        Self {
            store: Store::default(),
            gateways: (0..gateways).map(gateway).collect(),
            network: Vec::new(),
            left,
            wrong: None,
            rules,
        }
    }

    pub fn id(&self, at: usize) -> Id {
        Id { at, life: self.gateways[at].life }
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
        self.send(Message { from: id.at, who, awaited: true, call: call.clone() });
        self.gateways[id.at].tasks.insert(who, Task { id, why, call, answer: None });
    }

    pub fn is_busy(&self, at: usize, who: Who) -> bool {
        self.gateways[at].tasks.contains_key(&who)
    }

    /// The store carries out a call; whoever waits gets the answer, and whoever listens the word.
    pub fn serve(&mut self, place: usize) {
        let Message { from, who, awaited, call } = self.network.remove(place);
        let (answer, word) = self.store.serve(&call, &self.rules);
        let record = self.store.data.record;
        if let Some(room) = self.gateways[from].room.as_mut().filter(|room| room.is_over(record)) {
            room.refuted |= awaited && answer == Answer::Applied(ApplyReply::Unknown);
        }
        if let Some(word) = word {
            self.tell(from, word);
        }
        if awaited && let Some(task) = self.gateways[from].tasks.get_mut(&who) {
            task.answer = Some(answer);
        }
    }

    /// A word is heard at once or never: whatever could come between is in what the gateway then does.
    pub fn tell(&mut self, from: usize, word: Word) {
        if word == Word::Record && self.rules.drops_records() {
            return;
        }
        for (at, gateway) in self.gateways.iter_mut().enumerate().filter(|(_, gateway)| !gateway.cut) {
            let Some(room) = &mut gateway.room else { continue };
            match word {
                Word::Record => room.look = true,
                _ if at == from => {}
                Word::Doubt => room.doubt = true,
                Word::Viewers { epoch, .. } if epoch > room.epoch => room.doubt = true,
                Word::Viewers { epoch, id, viewers, number } if epoch == room.epoch => room.note(id, viewers, number),
                Word::Viewers { .. } => {}
            }
        }
    }

    /// Nobody waits for this call any more; it may arrive all the same, if the budget has room for it.
    pub fn forsake(&mut self, from: usize, who: Who) -> Option<Task> {
        let task = self.gateways[from].tasks.remove(&who)?;
        let room_for_more = self.late() < usize::from(self.left.late);
        if let Some(place) = self.network.iter().position(|m| m.awaited && m.from == from && m.who == who) {
            let mut message = self.network.remove(place);
            // A late reading changes nothing.
            if room_for_more && !message.call.only_reads() {
                message.awaited = false;
                self.send(message);
            }
        }
        Some(task)
    }

    pub fn late(&self) -> usize {
        self.network.iter().filter(|message| !message.awaited).count()
    }

    /// The processes that were not killed.
    pub fn alive(&self) -> impl Iterator<Item = usize> + use<> {
        let alive: Vec<usize> = (0..self.gateways.len()).filter(|at| !self.gateways[*at].killed).collect();
        alive.into_iter()
    }
}

impl Room {
    /// Whether the record says so. One of an older epoch was lost and written anew; it says nothing of this one.
    fn is_over(&self, record: Option<Record>) -> bool {
        record.is_some_and(|record| {
            record.epoch > self.epoch || (record.epoch == self.epoch && record.state != State::Open)
        })
    }

    /// `peers::note`.
    pub fn note(&mut self, id: Id, viewers: u64, number: u64) {
        let there = self.peers.get(&id);
        if there.is_none_or(|there| number > there.number) {
            self.peers.insert(id, Peer { viewers, number, unsaid: false });
        }
    }

    /// `RemoteViewers::read`.
    pub fn read(&mut self, own: Id, said: &BTreeMap<Id, (u64, u64)>) {
        said.iter().filter(|(id, _)| **id != own).for_each(|(id, said)| self.note(*id, said.0, said.1));
        self.peers.retain(|id, peer| {
            let was_unsaid = std::mem::replace(&mut peer.unsaid, !said.contains_key(id));
            !(was_unsaid && peer.unsaid)
        });
    }
}
