//! Everything that can happen next, and what it does.

use rollcall::presence::desired_state::Standing;

use super::store::Call;
use super::world::{Gateway, Message, Who, World, standing, user_id};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A gateway finds that the live is open, and makes its room.
    Find(usize),
    /// A gateway hears that the epoch of its room is over.
    HearEnd(usize),
    /// A gateway lets go of a slice of a room that nobody needs, or evicts the room.
    Evict(usize),
    Come(usize, usize),
    Go(usize, usize),
    /// The flusher begins a turn, in which it may say users again at once, or not yet.
    Flush(usize, bool),
    Renew(usize),
    /// A renewal after a whole lease of looking on: the gateway buries those whose leases stood
    /// still.
    Bury(usize),
    Check(usize),
    /// The live closes, and opens again in the next epoch.
    Close,
    /// The store carries out a call and sends the answer.
    Serve(usize),
    /// An answer arrives.
    Answer(usize, Who),
    /// An answer does not arrive in time.
    Fail(usize, Who),
    /// The network carries a call twice.
    Double(usize),
    Kill(usize),
    Freeze(usize),
    Thaw(usize),
    /// A gateway no longer hears messages.
    Cut(usize),
    /// The gateway hears messages again, and doubts what it holds.
    Mend(usize),
    /// Time passes.
    Pause,
    LoseSlice,
    LoseLeases,
    /// The store keeps a copy of the slice.
    BackUp,
    /// The slice goes back to the copy.
    FailOver,
}

use Action::{
    Answer, BackUp, Bury, Check, Close, Come, Cut, Double, Evict, Fail, FailOver, Find, Flush,
    Freeze, Go, HearEnd, Kill, LoseLeases, LoseSlice, Mend, Pause, Renew, Serve, Thaw,
};

impl Action {
    /// Whether this also happens on a day on which nothing goes wrong.
    pub fn is_ordinary(self) -> bool {
        matches!(
            self,
            Come(..) | Go(..) | Flush(..) | Answer(..) | Renew(_) | Find(_) | HearEnd(_) | Check(_)
        )
    }
}

/// Longer than a call that makes an entry may take, in milliseconds.
const PAUSE: u64 = 6_000;

/// `upkeep::IDLE`: how long a room must have been unused before it is evicted.
const IDLE: u64 = 30_000;

impl Gateway {
    fn is_idle(&self) -> bool {
        let idle = |room: &super::world::Room| room.seated.is_empty() && room.desired.is_idle();
        // A call that was under way when the room fell idle has passed its deadline since.
        self.room.as_ref().is_some_and(idle) && !self.tasks.contains_key(&Who::Job)
    }
}

impl World {
    /// The actions that are possible now, with this many users.
    pub fn possible(&self, users: usize) -> Vec<Action> {
        let mut can = Vec::new();
        for at in self.alive() {
            match self.gateways[at].frozen {
                true => can.push(Thaw(at)),
                false => self.possible_at(at, users, &mut can),
            }
        }
        can.extend(
            (0..self.network.len())
                .filter(|place| !self.network[*place].call.only_reads())
                .map(Serve),
        );
        if self.left.doubles > 0 {
            let doubles = |place: &usize| matches!(self.network[*place].call, Call::Apply { .. });
            can.extend((0..self.network.len()).filter(doubles).map(Double));
        }
        let (store, left) = (&self.store, &self.left);
        let is_there = store.data.slice.fence().is_some();
        can.extend((left.closes > 0).then_some(Close));
        can.extend((left.losses > 0 && is_there).then_some(LoseSlice));
        can.extend((left.lost_leases > 0).then_some(LoseLeases));
        can.extend((left.failovers > 0).then_some(BackUp));
        can.extend((left.failovers > 0 && store.copy.is_some()).then_some(FailOver));
        can.extend((left.pauses > 0).then_some(Pause));
        can
    }

    fn possible_at(&self, at: usize, users: usize, can: &mut Vec<Action>) {
        let (gateway, store, left) = (&self.gateways[at], &self.store, &self.left);
        let free = |who| !self.is_busy(at, who);
        can.extend((left.kills > 0 && self.alive().count() > 1).then_some(Kill(at)));
        can.extend((left.freezes > 0).then_some(Freeze(at)));
        match gateway.cut {
            true => can.push(Mend(at)),
            false if left.cuts > 0 => can.push(Cut(at)),
            false => {}
        }
        for who in gateway.tasks.keys() {
            can.push(Answer(at, *who));
            can.extend((left.failures > 0).then_some(Fail(at, *who)));
        }
        if free(Who::Lease) {
            // `OwnLease::renew_now`.
            let is_wanted =
                gateway.renewed.is_none() || self.must_wait(at) && gateway.room.is_some();
            can.extend((left.renewals > 0 || is_wanted).then_some(Renew(at)));
            can.extend((left.burials > 0 && gateway.lease.is_some()).then_some(Bury(at)));
        }
        let Some(room) = &gateway.room else {
            can.push(Find(at));
            return;
        };
        can.extend((room.epoch < store.epoch).then_some(HearEnd(at)));
        if left.moves > 0 {
            can.extend((0..users).map(|user| {
                if room.seated.contains(&user) {
                    Go(at, user)
                } else {
                    Come(at, user)
                }
            }));
        }
        if free(Who::Job) && self.is_dirty(at) {
            can.push(Flush(at, true));
            can.extend((left.slow > 0 && room.desired.says_again()).then_some(Flush(at, false)));
        }
        can.extend((free(Who::Checker) && (room.doubt || left.checks > 0)).then_some(Check(at)));
        can.extend((left.evictions > 0 && gateway.is_idle()).then_some(Evict(at)));
    }

    /// Whether a turn of the flusher has something to do.
    pub fn is_dirty(&self, at: usize) -> bool {
        let gateway = &self.gateways[at];
        let dirty = |room: &super::world::Room| {
            room.desired.is_dirty() || (room.life != gateway.life && room.desired.is_registered())
        };
        gateway.room.as_ref().is_some_and(dirty) && !self.must_wait(at)
    }

    pub fn act(&mut self, action: Action) {
        let left = &mut self.left;
        match action {
            Find(at) => self.find(at),
            HearEnd(at) => self.end_room(at),
            Close => {
                left.closes -= 1;
                self.store.close(&self.rules);
            }
            Evict(at) => {
                left.evictions -= 1;
                self.store.now += IDLE;
                self.evict(at);
            }
            Come(at, user) | Go(at, user) => {
                left.moves -= 1;
                let Some(room) = &mut self.gateways[at].room else {
                    return;
                };
                if matches!(action, Come(..)) {
                    room.seated.insert(user);
                    room.desired.want(&user_id(user), standing(user));
                } else {
                    room.seated.remove(&user);
                    room.desired.want(&user_id(user), Standing::Gone);
                }
            }
            Flush(at, at_once) => {
                left.slow -= u8::from(!at_once);
                self.flush(at, at_once);
            }
            Renew(at) => {
                left.renewals = left.renewals.saturating_sub(1);
                self.renew(at, false);
            }
            Bury(at) => {
                left.burials -= 1;
                self.renew(at, true);
            }
            Check(at) => {
                let doubts = self.gateways[at]
                    .room
                    .as_ref()
                    .is_some_and(|room| room.doubt);
                left.checks -= u8::from(!doubts);
                self.check(at);
            }
            Serve(place) => self.serve(place),
            Answer(at, who) => self.hear(at, who),
            Fail(at, who) => {
                left.failures -= 1;
                self.fail(at, who);
            }
            Double(place) => {
                left.doubles -= 1;
                let twin = Message {
                    awaited: false,
                    ..self.network[place].clone()
                };
                self.send(twin);
            }
            Kill(at) => {
                left.kills -= 1;
                self.kill(at);
            }
            Freeze(at) => {
                left.freezes -= 1;
                self.gateways[at].frozen = true;
            }
            Thaw(at) => self.gateways[at].frozen = false,
            Cut(at) => {
                left.cuts -= 1;
                self.gateways[at].cut = true;
            }
            Mend(at) => self.mend(at),
            Pause => {
                left.pauses -= 1;
                self.store.now += PAUSE;
            }
            LoseSlice => {
                left.losses -= 1;
                self.store.lose_slice();
            }
            LoseLeases => {
                left.lost_leases -= 1;
                self.store.lose_leases();
            }
            BackUp => {
                let copy = self.store.data.slice.clone();
                self.store.copy = Some(Box::new(copy));
            }
            FailOver => {
                left.failovers -= 1;
                self.store.fail_over();
                // From now on another node answers, so the gateways connect again.
                let rooms = self.gateways.iter_mut().filter_map(|at| at.room.as_mut());
                rooms.for_each(|room| room.doubt = true);
            }
        }
    }

    /// `Upkeep::lets_go`, and the eviction once no entry is left.
    fn evict(&mut self, at: usize) {
        let Some(room) = &mut self.gateways[at].room else {
            return;
        };
        if room.desired.has_let_go() {
            self.end_room(at);
        } else {
            room.desired.let_go();
        }
    }

    fn kill(&mut self, at: usize) {
        let busy: Vec<Who> = self.gateways[at].tasks.keys().copied().collect();
        for who in busy {
            self.forsake(at, who);
        }
        let life = self.gateways[at].life;
        self.gateways[at] = Gateway {
            killed: true,
            life,
            ..Gateway::default()
        };
    }

    /// `BusEvent::Lost`.
    pub fn mend(&mut self, at: usize) {
        self.gateways[at].cut = false;
        if let Some(room) = &mut self.gateways[at].room {
            room.doubt = true;
        }
    }
}
