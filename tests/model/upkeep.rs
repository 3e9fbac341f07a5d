//! What a gateway does from time to time: checks, the walk, looks at what became of lives. A small
//! mirror of `sync/check.rs`, `sync/walk.rs` and `sync/changed_records.rs`.

use std::sync::LazyLock;

use rollcall::base::ids::{Epoch, LiveId, SliceId};
use rollcall::presence::ExpectedSlice;
use rollcall::store::{Fence, SliceEntry, SliceSize};

use super::budget::Mutation;
use super::store::{Answer, Call, Look, PassCall, Picture, Record, State};
use super::world::{Expected, Gateway, Id, Repair, Room, Task, Who, Why, World};

static SLICE: LazyLock<SliceId> =
    LazyLock::new(|| SliceId::of_live(LiveId::parse("1").unwrap(), 1, 1));

impl Gateway {
    /// `check::expect`.
    fn expect(&self, room: &Room) -> Expected {
        let desired = &room.desired;
        let settled = !desired.is_dirty()
            && desired.held().is_some()
            && (room.life == self.life || !desired.is_registered());
        Expected {
            slice: settled.then(|| (desired.entry(), room.known)),
        }
    }

    /// `Passer::dead_in`.
    fn dead_in(&mut self, at: usize, found: &Look) -> Vec<Id> {
        let mut dead = Vec::new();
        for (id, entry) in &found.entries {
            if *entry == SliceEntry::Dead || self.meets(at, *id) {
                dead.push(*id);
            }
        }
        dead
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

    /// `Checker::sweep`, `Checker::handle` and `Checker::handle_slice`.
    fn compare(&mut self, id: Id, expected: &Expected, picture: &Picture) {
        let (now, no_pass) = (self.store.now, self.rules.lack(Mutation::NoPass));
        let gateway = &mut self.gateways[id.at];
        let Some(mut room) = gateway.room.take() else {
            return;
        };
        let found = &picture.slice;
        let epoch = Epoch(room.epoch);
        let is_open = found.fence == Some(Fence::Open(epoch));
        let mut repairs = Vec::new();
        let dead = gateway.dead_in(id.at, found);
        if !dead.is_empty() {
            repairs.push(Repair::Pass(PassCall {
                dead,
                only_claims: true,
                ..room.pass()
            }));
        }
        let mut heard = None;
        if let Some((entry, size)) = expected.slice {
            if is_met(epoch, entry, size, found) {
                heard = is_open.then_some(found.size);
            } else if found
                .fence
                .is_some_and(|fence| fence.epoch() > epoch || fence.is_closed_in(epoch))
            {
                repairs.push(Repair::Over);
            } else {
                room.found_instead(entry, found.entry, found.size.incarnation);
                let is_older = is_open && found.size.is_older_than(size);
                heard = (is_open && !is_older).then_some(found.size);
                let has_lost_fence = found.fence.is_none() && (found.has_keys || size.version > 0);
                let is_wrong = is_open && !(found.is_intact && found.size.is_in_order());
                if !no_pass && (is_older || has_lost_fence || is_wrong) {
                    repairs.push(Repair::Pass(room.pass()));
                }
            }
        }
        let open = Record {
            epoch: room.epoch,
            state: State::Open,
        };
        if picture.record == Some(open) {
            room.is_open(now);
        } else {
            repairs.push(Repair::Touch);
        }
        gateway.room = Some(room);
        if let Some(size) = heard {
            self.note_size(id.at, epoch.0, size);
        }
        self.next_repair(id, Who::Checker, repairs);
    }

    fn next_repair(&mut self, id: Id, who: Who, repairs: Vec<Repair>) {
        let Some(first) = repairs.first() else { return };
        let room = self.gateways[id.at].room.as_ref();
        let call = match (first, room) {
            (Repair::Pass(pass), _) => Call::Pass(pass.clone()),
            (Repair::CloseSlice(epoch), _) => Call::CloseSlice { epoch: *epoch },
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
            (Repair::Pass(pass), Answer::Passed(Some((next, size))), _) => {
                self.note_size(id.at, pass.epoch, size);
                if next.is_some() {
                    repairs.insert(0, Repair::Pass(PassCall { from: next, ..pass }));
                } else if let Some(room) = &mut self.gateways[id.at].room {
                    // `Checker::check_again`.
                    room.doubt |= !size.is_in_order();
                }
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
        let (why, picture) = match (why, answer) {
            (Why::PutRight(repairs), Some(answer)) => {
                return self.put_right(id, Who::Reader, repairs, answer);
            }
            (why, Some(Answer::Seen(picture))) => (why, picture),
            _ => return,
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
                } else if picture.slice.entry.is_some() {
                    // `Checker::look_at_evicted`.
                    let pass = PassCall {
                        epoch,
                        known: SliceSize::default(),
                        wrong: None,
                        dead: vec![id],
                        from: None,
                        only_claims: true,
                    };
                    self.store.released.insert(id);
                    self.next_repair(id, Who::Reader, vec![Repair::Pass(pass)]);
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
            self.install(task.id.at, epoch, Some(picture));
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

    /// `Walk::close_or_put_right`, and `Walk::compare_in_turn` once a minute.
    fn walk_open(&mut self, id: Id, epoch: u64, found: &Look) {
        if let Some(Fence::Open(older)) = found.fence
            && older.0 < epoch
        {
            return self.next_repair(id, Who::Walker, vec![Repair::CloseSlice(older.0)]);
        }
        let each_minute = self.rules.each_minute;
        let no_pass = self.rules.lack(Mutation::NoPass);
        let gateway = &mut self.gateways[id.at];
        let dead = gateway.dead_in(id.at, found);
        let known = match &gateway.room {
            Some(room) if room.epoch == epoch => room.known,
            _ => SliceSize::default(),
        };
        let is_open = found.fence == Some(Fence::Open(Epoch(epoch)));
        let has_lost_fence = found.fence.is_none() && found.has_keys;
        let is_wrong = has_lost_fence || is_open && !(found.is_intact && found.size.is_in_order());
        let is_due = each_minute && found.size != SliceSize::default();
        let is_compared = (is_wrong || is_due) && !no_pass;
        if dead.is_empty() && !is_compared {
            return;
        }
        let pass = PassCall {
            epoch,
            known,
            wrong: None,
            dead,
            from: None,
            only_claims: !is_compared,
        };
        self.next_repair(id, Who::Walker, vec![Repair::Pass(pass)]);
    }
}

/// The real comparison of a check.
fn is_met(epoch: Epoch, entry: Option<u64>, size: SliceSize, found: &Look) -> bool {
    let expected = ExpectedSlice {
        slice: SLICE.clone(),
        epoch,
        entry,
        size,
    };
    expected.is_met(&found.found())
}
