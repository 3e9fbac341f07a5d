//! Everything that can happen next, and what it does.

use super::store::State;
use super::world::{Due, Message, Mutation, Who, World, user_id};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// The live is opened, through a gateway.
    Open(usize),
    /// A gateway finds the live open and makes its room. That somebody joins it later is another step, so the close can
    /// come in between.
    Find(usize),
    /// A room that nobody needs is evicted.
    Evict(usize),
    Come(usize, usize),
    Go(usize, usize),
    /// A turn of the flusher begins, for what the ledger has to say and for what is due.
    Start(usize, Due),
    /// A lease is renewed in a room in which nothing is new. The answer decides nothing, so nobody waits for it.
    Renew(usize),
    /// A gateway renews its own lease, and hears of it or not.
    RenewOwn(usize, bool),
    /// The store carries out the call in this place of the network.
    Serve(usize),
    /// The network carries a call twice.
    Duplicate(usize),
    /// An answer arrives.
    Hear(usize, Who),
    /// A call, or its answer, does not arrive in time.
    Fail(usize, Who),
    /// A gateway's lease runs out.
    RunOut(usize),
    /// A gateway's own lease runs out.
    RunOutOwn(usize),
    /// A gateway is swept, one batch.
    Sweep(usize),
    Crash(usize),
    /// Somebody asks a gateway to close the live.
    Close(usize),
    /// A gateway finishes a close that was begun.
    Finish(usize),
    LoseSlice,
    LoseRecord,
    LoseBoth,
}

impl Action {
    /// Whether it is part of a day on which nothing goes wrong.
    pub fn is_ordinary(self) -> bool {
        matches!(self, Come(..) | Go(..) | Start(..) | Serve(_) | Hear(..) | Sweep(_) | Find(_))
    }
}

use Action::{
    Close, Come, Crash, Duplicate, Evict, Fail, Find, Finish, Go, Hear, LoseBoth, LoseRecord, LoseSlice, Open, Renew,
    RenewOwn, RunOut, RunOutOwn, Serve, Start, Sweep,
};

/// What a turn may be for.
const DUES: [Due; 3] = [
    Due { refresh: false, reconcile: false },
    Due { refresh: true, reconcile: false },
    Due { refresh: true, reconcile: true },
];

impl World {
    /// What can happen now, with so many users.
    pub fn possible(&self, users: usize) -> Vec<Action> {
        let mut can = Vec::new();
        let record = self.store.record;
        for at in self.living() {
            self.possible_at(at, users, &mut can);
        }
        can.extend((0..self.network.len()).map(Serve));
        if self.left.duplicates > 0 {
            let many = (0..self.network.len()).filter(|place| self.network[*place].who == Who::Job);
            can.extend(many.map(Duplicate));
        }
        for at in 0..self.gateways.len() {
            if self.store.late.contains(&at) {
                can.push(Sweep(at));
            } else if self.left.leases > 0 && self.store.has_entry(at) {
                can.push(RunOut(at));
            }
            can.extend(self.store.own.contains_key(&at).then_some(RunOutOwn(at)));
        }
        if self.left.losses > 0 {
            let (slice, record) = (self.store.slice.fence().is_some(), record.is_some());
            can.extend(slice.then_some(LoseSlice));
            can.extend(record.then_some(LoseRecord));
            can.extend((slice && record).then_some(LoseBoth));
        }
        can
    }

    fn possible_at(&self, at: usize, users: usize, can: &mut Vec<Action>) {
        let (gateway, store) = (&self.gateways[at], &self.store);
        let open = store.record.filter(|record| record.state == State::Open);
        let is_next =
            store.record.is_none_or(|record| record.state == State::Closed && record.epoch < self.left.epochs);
        if is_next && store.slice.fence().is_none_or(|fence| fence.epoch().0 < self.left.epochs) {
            can.push(Open(at));
        }
        if gateway.closer.is_none() {
            can.extend((store.is(State::Open) && self.left.closes > 0).then_some(Close(at)));
            can.extend(store.is(State::Closing).then_some(Finish(at)));
        }
        if self.left.crashes > 0 && self.living().count() > 1 {
            can.push(Crash(at));
        }
        for (who, heard) in [
            (Who::Job, gateway.job.as_ref().map(|job| job.answer.is_some())),
            (Who::Closer, gateway.closer.as_ref().map(|closer| closer.answer.is_some())),
        ] {
            can.extend((heard == Some(true)).then_some(Hear(at, who)));
            can.extend(heard.map(|_| Fail(at, who)));
        }
        let Some(room) = &gateway.room else {
            can.extend(open.map(|_| Find(at)));
            return;
        };
        if self.left.moves > 0 {
            can.extend((0..users).map(|user| if room.seated.contains(&user) { Go(at, user) } else { Come(at, user) }));
        }
        if self.expected(at).is_some_and(|expected| expected.fans > 0) && self.late() < self.left.late {
            can.push(Renew(at));
        }
        match store.own.get(&at) {
            None if self.left.own_leases > 0 => can.extend([true, false].map(|heard| RenewOwn(at, heard))),
            // Otherwise it changes nothing.
            Some(own) if gateway.own != Some(*own) => can.push(RenewOwn(at, true)),
            _ => {}
        }
        if gateway.job.is_none() {
            let dirty = room.ledger.is_dirty();
            can.extend(DUES.into_iter().filter(|due| due.refresh || dirty).map(|due| Start(at, due)));
            can.extend((room.seated.is_empty() && !dirty && !room.ledger.is_registered()).then_some(Evict(at)));
        }
    }

    pub fn act(&mut self, action: Action) {
        match action {
            Open(at) => {
                if let Some(epoch) = self.store.open() {
                    self.install(at, epoch);
                }
            }
            Find(at) => {
                if let Some(record) = self.store.record {
                    self.install(at, record.epoch);
                }
            }
            Evict(at) => self.end_room(at),
            Come(at, user) => {
                self.left.moves -= 1;
                if let Some(room) = &mut self.gateways[at].room {
                    room.seated.insert(user);
                    room.ledger.want(&user_id(user));
                }
            }
            Go(at, user) => {
                self.left.moves -= 1;
                if let Some(room) = &mut self.gateways[at].room {
                    room.seated.remove(&user);
                    room.ledger.unwant(&user_id(user));
                }
            }
            Start(at, due) => self.start(at, due),
            Renew(at) => self.renew(at),
            RenewOwn(at, heard) => {
                self.left.own_leases -= u8::from(!self.store.own.contains_key(&at));
                self.renew_own(at, heard);
            }
            Serve(place) => self.serve(place),
            Duplicate(place) => {
                self.left.duplicates -= 1;
                self.duplicated = true;
                let twin = Message { awaited: false, ..self.network[place].clone() };
                self.send(twin);
            }
            Hear(at, who) => self.hear(at, who),
            Fail(at, who) => self.fail(at, who),
            RunOut(at) => {
                self.left.leases -= 1;
                self.store.late.insert(at);
            }
            RunOutOwn(at) => drop(self.store.own.remove(&at)),
            Sweep(at) => self.store.sweep(at),
            Crash(at) => {
                self.left.crashes -= 1;
                self.fail(at, Who::Closer);
                self.end_room(at);
                self.gateways[at].dead = true;
            }
            Close(at) => {
                self.left.closes -= 1;
                self.store.asked.extend(self.store.record.map(|record| record.epoch));
                let open = self.store.record.map(|record| record.epoch);
                self.close(at, open.filter(|_| self.mutation != Mutation::CloseWithoutEpoch));
            }
            Finish(at) => {
                if let Some(record) = self.store.record {
                    self.finish(at, record);
                }
            }
            LoseSlice | LoseRecord | LoseBoth => {
                self.left.losses -= 1;
                if action != LoseRecord {
                    self.store.lose_slice();
                }
                if action != LoseSlice {
                    self.store.lose_record();
                    self.gateways
                        .iter_mut()
                        .filter_map(|gateway| gateway.room.as_mut())
                        .for_each(|room| room.refuted = false);
                }
            }
        }
    }
}
