//! What a gateway does from time to time: checks, the walk, looks at what became of lives. A small
//! mirror of `sync/check.rs`, `sync/walk.rs` and `sync/changed_records.rs`.

use rollcall::base::ids::Epoch;
use rollcall::store::Fence;

use super::budget::Mutation;
use super::store::{Answer, Call, Picture, Reading, Record, State};
use super::world::{Expected, Gateway, Id, Repair, Room, Task, Who, Why, World};

impl Gateway {
    /// `check::expect`.
    fn expect(&self, room: &Room) -> Expected {
        let desired = &room.desired;
        let settled = !desired.is_dirty() && (room.life == self.life || !desired.is_registered());
        let slice = desired
            .held()
            .filter(|_| settled)
            .map(|held| (desired.entry(), (held.members, held.fans)));
        Expected { slice }
    }
}

impl World {
    // -------------------------------------------------------------------------------------- checks

    /// `check::check`.
    pub fn check(&mut self, at: usize) {
        let gateway = &mut self.gateways[at];
        let Some(mut room) = gateway.room.take() else {
            return;
        };
        room.doubt = false;
        let expected = gateway.expect(&room);
        if expected.slice.is_none() {
            room.desired.require_call();
        }
        gateway.room = Some(room);
        self.call(
            at,
            Who::Checker,
            Why::Check(expected),
            Call::See { id: self.id(at) },
        );
    }

    pub fn hear_check(&mut self, task: Task) {
        let Task {
            id,
            why,
            answer: Some(answer),
            ..
        } = task
        else {
            return;
        };
        match (why, answer) {
            (Why::Check(expected), Answer::Seen(picture)) => self.compare(id, &expected, &picture),
            (Why::PutRight(repairs), answer) => self.put_right(id, Who::Checker, repairs, answer),
            _ => {}
        }
    }

    /// `check::handle` and `check::look_at_slice`.
    fn compare(&mut self, id: Id, expected: &Expected, picture: &Picture) {
        let (now, no_doubt) = (self.store.now, self.rules.lack(Mutation::NoDoubt));
        let gateway = &mut self.gateways[id.at];
        let Some(mut room) = gateway.room.take() else {
            return;
        };
        let mut repairs = Vec::new();
        if let Some((entry, held)) = expected.slice {
            let reading = &picture.slice;
            let epoch = Epoch(room.epoch);
            let (lost, differs) = differs((entry, held), reading);
            if reading
                .fence
                .is_some_and(|fence| fence.epoch() > epoch || fence.is_closed_in(epoch))
            {
                repairs.push(Repair::Over);
            } else if lost || differs {
                let unchanged = room.desired.entry() == entry && room.desired.held().is_some();
                match reading.entry {
                    _ if !unchanged => room.doubt = true,
                    _ if lost => room.desired.lose_entry(),
                    _ if entry.is_some() => room.desired.require_read_back(),
                    Some(number) if reading.fence == Some(Fence::Open(epoch)) => {
                        room.desired.found_entry(number, reading.held)
                    }
                    _ => {}
                }
                gateway.in_doubt |= lost && unchanged;
            }
            repairs.extend((reading.in_doubt && !no_doubt).then_some(Repair::Mend));
            repairs.extend(
                reading
                    .others
                    .iter()
                    .filter(|other| gateway.meets(id.at, **other))
                    .map(|id| Repair::Sweep(*id)),
            );
        }
        if picture.record
            == Some(Record {
                epoch: room.epoch,
                state: State::Open,
            })
        {
            room.touched = now;
        } else {
            repairs.push(Repair::Touch);
        }
        gateway.room = Some(room);
        self.next_repair(id, Who::Checker, repairs);
    }

    fn next_repair(&mut self, id: Id, who: Who, repairs: Vec<Repair>) {
        let Some(first) = repairs.first() else { return };
        let room = self.gateways[id.at].room.as_ref();
        let call = match (*first, room) {
            (Repair::Sweep(of), _) => Call::Sweep { of },
            (Repair::Mend, Some(room)) => Call::Mend { epoch: room.epoch },
            (Repair::CloseSlice(epoch), _) => Call::CloseSlice { epoch },
            (Repair::Touch | Repair::Over, Some(room)) => Call::Touch { epoch: room.epoch },
            (_, None) => return,
        };
        self.call_as(id, who, Why::PutRight(repairs), call);
    }

    fn put_right(&mut self, id: Id, who: Who, mut repairs: Vec<Repair>, answer: Answer) {
        let now = self.store.now;
        let repair = repairs.remove(0);
        let gateway = &mut self.gateways[id.at];
        match (repair, answer, &mut gateway.room) {
            (Repair::Touch, Answer::IsOpen, Some(room)) => room.is_open(now),
            (Repair::Over, Answer::IsOpen, Some(room)) => {
                room.is_open(now);
                let epoch = room.epoch;
                self.close(id.at, Some(epoch));
            }
            (Repair::Touch | Repair::Over, Answer::Is(record), Some(_)) => {
                self.let_go(id.at, record)
            }
            _ => {}
        }
        self.next_repair(id, who, repairs);
    }

    // ------------------------------------------------------------------------ what became of lives

    /// `ChangedRecords::look`.
    pub fn look_again(&mut self, at: usize) {
        if let Some(room) = &mut self.gateways[at].room {
            room.look = false;
            self.call(
                at,
                Who::Reader,
                Why::LookAgain,
                Call::See { id: self.id(at) },
            );
        }
    }

    /// `check::look_after`, a minute after the room ended. No copy to which the store goes back is
    /// older than that.
    pub fn look_after(&mut self, at: usize) {
        let Some(((epoch, closed), ended)) = self.gateways[at].former.pop_first() else {
            return;
        };
        self.store.now = self.store.now.max(ended + 60_000);
        if self.store.copy.as_ref().is_some_and(|copy| copy.0 <= ended) {
            self.store.copy = None;
        }
        self.call(
            at,
            Who::Reader,
            Why::LookAfter { epoch, closed },
            Call::See { id: self.id(at) },
        );
    }

    pub fn hear_reader(
        &mut self,
        Task {
            id, why, answer, ..
        }: Task,
    ) {
        let at = id.at;
        let Some(Answer::Seen(picture)) = answer else {
            return;
        };
        let here = self.gateways[at].room.as_ref().map(|room| room.epoch);
        match (why, picture.record, here) {
            (Why::LookAgain, Some(record), Some(here)) if record.epoch >= here => {
                match record.state {
                    State::Open if record.epoch == here => {}
                    State::Closing if record.epoch == here => self.end_room(at, true),
                    _ => self.let_go(at, record),
                }
            }
            (Why::LookAfter { epoch, closed }, Some(record), None)
                if record
                    == (Record {
                        epoch,
                        state: State::Open,
                    }) =>
            {
                if closed {
                    self.close(at, Some(epoch));
                } else if picture.slice.held > 0 {
                    self.find(at);
                }
            }
            // A known limit: production does not look again if this look finds no record, or comes
            // before the walk has finished a close.
            (
                Why::LookAfter { epoch, closed },
                None
                | Some(Record {
                    state: State::Closing,
                    ..
                }),
                _,
            ) => {
                let now = self.store.now;
                self.gateways[at].former.insert((epoch, closed), now);
            }
            _ => {}
        }
    }

    /// `Lives::find`.
    pub fn find(&mut self, at: usize) {
        if !self.is_busy(at, Who::Finder) {
            self.call(at, Who::Finder, Why::Find, Call::See { id: self.id(at) });
        }
    }

    pub fn hear_finder(&mut self, task: &Task) {
        if let Some(Answer::Seen(picture)) = &task.answer
            && let Some(Record {
                epoch,
                state: State::Open,
            }) = picture.record
        {
            self.install(task.id.at, epoch, Some((task.id, picture)));
        }
    }

    // ---------------------------------------------------------------------------------------- walk

    /// `walk::visit_live`.
    pub fn walk(&mut self, at: usize) {
        self.call(at, Who::Walker, Why::Walk, Call::See { id: self.id(at) });
    }

    pub fn hear_walk(
        &mut self,
        Task {
            id, why, answer, ..
        }: Task,
    ) {
        match (why, answer) {
            (Why::Walk, Some(Answer::Seen(picture))) => match picture.record {
                Some(Record {
                    epoch,
                    state: State::Closing,
                }) => self.finish(id.at, epoch),
                Some(Record {
                    epoch,
                    state: State::Open,
                }) => self.walk_open(id, epoch, &picture.slice),
                _ => {}
            },
            (Why::PutRight(repairs), Some(answer)) => {
                self.put_right(id, Who::Walker, repairs, answer)
            }
            _ => {}
        }
    }

    /// `walk::visit_open_live`.
    fn walk_open(&mut self, id: Id, epoch: u64, slice: &Reading) {
        let repairs = match slice.fence {
            Some(Fence::Open(older)) if older.0 < epoch => vec![Repair::CloseSlice(older.0)],
            _ => {
                let gateway = &mut self.gateways[id.at];
                let dead = slice
                    .others
                    .iter()
                    .filter(|other| gateway.meets(id.at, **other));
                dead.map(|id| Repair::Sweep(*id)).collect()
            }
        };
        self.next_repair(id, Who::Walker, repairs);
    }
}

/// Whether a slice has lost this gateway's entry, and whether it is otherwise not as expected.
/// Mirrors `ExpectedSlice::is_met` and `check::look_at_slice`, without versions.
fn differs((entry, held): (Option<u64>, (u64, u64)), reading: &Reading) -> (bool, bool) {
    let differs = (reading.entry, (reading.held, reading.held_fans)) != (entry, held);
    (entry.is_some() && reading.entry.is_none(), differs)
}
