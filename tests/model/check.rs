//! The check of the slice, and the passes that put it right: a small mirror of `sync/check.rs` around
//! the real [`ExpectedSlice`].

use std::sync::LazyLock;

use rollcall::base::ids::{Epoch, LiveId, SliceId};
use rollcall::presence::ExpectedSlice;
use rollcall::store::{Fence, PassCursor, SliceEntry, SliceSize};

use super::budget::Mutation;
use super::store::{Answer, Call, Look, PassCall};
use super::world::{Gateway, Id, Room, Task, Who, Why, World};

static SLICE: LazyLock<SliceId> =
    LazyLock::new(|| SliceId::of_live(LiveId::parse("1").unwrap(), 1, 1));

impl Gateway {
    /// `check::expect`.
    fn expect(&self, room: &Room) -> Option<(Option<u64>, SliceSize)> {
        let desired = &room.desired;
        let settled = !desired.is_dirty()
            && desired.held().is_some()
            && (room.life == self.life || !desired.is_registered());
        settled.then(|| (desired.entry(), room.known))
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
    /// `check::check`.
    pub fn check(&mut self, at: usize) {
        let gateway = &mut self.gateways[at];
        let Some(mut room) = gateway.room.take() else {
            return;
        };
        room.doubt = false;
        let expected = gateway.expect(&room);
        if expected.is_none() {
            room.desired.require_call();
        }
        gateway.room = Some(room);
        let id = self.id(at);
        self.call(at, Who::Checker, Why::Check(expected), Call::Look { id });
    }

    pub fn hear_check(&mut self, task: Task) {
        match (task.why, task.answer) {
            (Why::Check(expected), Some(Answer::Seen(epoch, found))) => {
                self.compare(task.id, expected, epoch, &found);
            }
            (Why::PutRight(passes), Some(Answer::Passed(passed))) => {
                self.put_right(task.id, passes, passed);
            }
            _ => {}
        }
    }

    /// `Checker::sweep`, `Checker::handle` and `Checker::handle_slice`.
    fn compare(
        &mut self,
        id: Id,
        expected: Option<(Option<u64>, SliceSize)>,
        open: u64,
        found: &Look,
    ) {
        let (now, no_pass) = (self.store.now, self.rules.lack(Mutation::NoPass));
        let gateway = &mut self.gateways[id.at];
        let Some(mut room) = gateway.room.take() else {
            return;
        };
        if room.epoch != open {
            return self.end_room(id.at);
        }
        room.is_open(now);
        let epoch = Epoch(room.epoch);
        let is_open = found.fence == Some(Fence::Open(epoch));
        let mut passes = Vec::new();
        let dead = gateway.dead_in(id.at, found);
        if !dead.is_empty() {
            passes.push(PassCall {
                dead,
                only_claims: true,
                ..room.pass()
            });
        }
        let mut heard = None;
        if let Some((entry, size)) = expected {
            if is_met(epoch, entry, size, found) {
                heard = is_open.then_some(found.size);
            } else {
                room.found_instead(entry, found.entry, found.size.incarnation);
                let is_older = is_open && found.size.is_older_than(size);
                heard = (is_open && !is_older).then_some(found.size);
                let has_lost_fence = found.fence.is_none() && (found.has_keys || size.version > 0);
                let is_wrong = is_open && !(found.is_intact && found.size.is_in_order());
                if !no_pass && (is_older || has_lost_fence || is_wrong) {
                    passes.push(room.pass());
                }
            }
        }
        gateway.room = Some(room);
        if let Some(size) = heard {
            self.note_size(id.at, epoch.0, size);
        }
        self.next_pass(id, passes);
    }

    fn next_pass(&mut self, id: Id, passes: Vec<PassCall>) {
        if let Some(first) = passes.first().cloned() {
            self.call_as(id, Who::Checker, Why::PutRight(passes), Call::Pass(first));
        }
    }

    fn put_right(
        &mut self,
        id: Id,
        mut passes: Vec<PassCall>,
        passed: Option<(Option<PassCursor>, SliceSize)>,
    ) {
        let pass = passes.remove(0);
        if let Some((next, size)) = passed {
            self.note_size(id.at, pass.epoch, size);
            if next.is_some() {
                passes.insert(0, PassCall { from: next, ..pass });
            } else if let Some(room) = &mut self.gateways[id.at].room {
                // `Checker::check_again`.
                room.doubt |= !size.is_in_order();
            }
        }
        self.next_pass(id, passes);
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
