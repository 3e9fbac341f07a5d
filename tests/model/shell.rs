//! What a gateway does around the real [`Turn`] and [`DesiredState`]: it sends the calls of a
//! slice's turn and takes in the answers, makes and ends rooms, and closes lives. Each function
//! names the production code that it mirrors. Between two steps anything may happen, and any time
//! may pass.

use std::collections::BTreeSet;

use rollcall::base::ids::Epoch;
use rollcall::presence::desired_state::{DesiredState, Draft, Verdict};
use rollcall::presence::turn::{Step, Turn, TurnContext};
use rollcall::store::{ApplyReply, Fence, MAX_BATCH, SliceEntry, SliceSize};

use super::budget::Mutation;
use super::store::{Answer, Call, PassCall, PeerMessage, Picture, Record, State};
use super::world::{Id, Repair, Room, Task, Who, Why, World};

/// `Config::lease`, in milliseconds.
pub const LEASE: u64 = 15_000;

/// Two and a half `Config::lease_refresh`.
const FRESH: u64 = 5_000;

/// How late a call that makes an entry may arrive.
const MAY_BE_LATE: u64 = 5_000;

impl World {
    // --------------------------------------------------------------------------------------- rooms

    /// `LivesParts::install`, for a live that was just opened or found.
    pub fn install(&mut self, at: usize, epoch: u64, seen: Option<&Picture>) {
        if self.gateways[at]
            .room
            .as_ref()
            .is_some_and(|room| room.epoch >= epoch)
        {
            return;
        }
        self.end_room(at, true);
        let now = self.store.now;
        let gateway = &mut self.gateways[at];
        let number = if self.rules.lack(Mutation::NumbersBeginAnew) {
            0
        } else {
            gateway.clock
        };
        let mut room = Room {
            epoch,
            desired: DesiredState::numbered_from(number),
            seated: BTreeSet::new(),
            life: 0,
            touched: now,
            // Something may have changed before the room subscribed.
            doubt: true,
            look: false,
            known: SliceSize::default(),
            refused: None,
            unconfirmed: false,
            refuted: false,
        };
        if let Some(picture) = seen
            && picture.slice.fence == Some(Fence::Open(Epoch(epoch)))
        {
            room.known = picture.slice.size;
        }
        gateway.room = Some(room);
    }

    /// `LivesParts::end` and `Room::end_if_idle`. Calls of the room that are under way lose their
    /// receiver.
    pub fn end_room(&mut self, at: usize, closed: bool) {
        let now = self.store.now;
        let Some(room) = self.gateways[at].room.take() else {
            return;
        };
        self.gateways[at].former.insert((room.epoch, closed), now);
        for who in [Who::Job, Who::Checker] {
            self.forsake(at, who);
        }
    }

    /// `Lives::let_go`.
    pub fn let_go(&mut self, at: usize, record: Record) {
        let Some(room) = &self.gateways[at].room else {
            return;
        };
        let (epoch, registered) = (room.epoch, room.desired.is_registered());
        if record.epoch == epoch && record.state == State::Closing {
            return self.finish(at, epoch);
        }
        self.end_room(at, true);
        if registered {
            self.finish(at, epoch);
        }
    }

    // ------------------------------------------------------------------------------------- flusher

    /// `Flusher::may_register`.
    fn may_register(&self, at: usize) -> bool {
        let gateway = &self.gateways[at];
        let (Some(renewed), Some(room)) = (gateway.renewed, &gateway.room) else {
            return false;
        };
        let was_refused = room.life == gateway.life && room.refused >= Some(gateway.renewal);
        !was_refused && (self.store.now - renewed <= FRESH || !gateway.in_doubt)
    }

    /// `SliceState::registers_next`, and whether the flusher must wait before it registers.
    pub fn must_wait(&self, at: usize) -> bool {
        let Some(room) = &self.gateways[at].room else {
            return true;
        };
        let desired = &room.desired;
        let registers = desired.is_dirty() && desired.must_register();
        // Under a new id, the first step loses what the desired state knows of the store.
        (registers || (room.life != self.gateways[at].life && desired.is_registered()))
            && !self.may_register(at)
    }

    /// `flush::work`, the start of a turn. `at_once`: users may be said again now.
    pub fn flush(&mut self, at: usize, at_once: bool) {
        let (id, now) = (self.id(at), self.store.now);
        let look = !self.rules.lack(Mutation::NoLookAtRecord);
        let Some(room) = &mut self.gateways[at].room else {
            return;
        };
        // `SliceState::begin_turn`.
        if std::mem::replace(&mut room.life, id.life) != id.life {
            room.desired.begin_anew();
            room.refused = None;
        }
        let context = TurnContext {
            known_open: now - room.touched < LEASE && !room.unconfirmed || !look,
            most_users: MAX_BATCH,
        };
        let mut turn = Turn::new(context, &room.desired);
        if at_once {
            turn.allow_to_say_again();
        }
        self.go_on(id, turn);
    }

    /// The loop of `flush::work`, up to the next answer that it waits for.
    fn go_on(&mut self, id: Id, mut turn: Turn) {
        loop {
            if self.gateways[id.at].life != id.life || self.must_wait(id.at) {
                return;
            }
            let Some(room) = &mut self.gateways[id.at].room else {
                return;
            };
            let epoch = room.epoch;
            let touch = Call::Touch { epoch };
            let (why, call) = match turn.next(&mut room.desired) {
                Step::CheckRecord if self.rules.lack(Mutation::NoLookAtRecord) => continue,
                Step::CheckRecord => (Why::Touch(turn), touch),
                Step::Complain(_) if self.rules.lack(Mutation::NoComplaint) => {
                    room.desired.complained();
                    continue;
                }
                Step::Complain(incarnation) => {
                    let pass = PassCall {
                        wrong: Some(incarnation),
                        ..room.pass()
                    };
                    (Why::Complain(turn), Call::Pass(pass))
                }
                Step::Call(mut draft) => {
                    draft.joins.sort();
                    draft.leaves.sort();
                    if draft.follows.is_none() && room.refuted {
                        self.wrong = Some(
                            "a gateway registered in an epoch of which the record said that it is over",
                        );
                    }
                    self.gateways[id.at].clock = draft.number;
                    (
                        Why::Apply(turn, draft.clone()),
                        self.apply(id, epoch, draft),
                    )
                }
                Step::Over => (Why::Over, touch),
                Step::GiveUp | Step::Done => return,
            };
            return self.call_as(id, Who::Job, why, call);
        }
    }

    fn apply(&self, id: Id, epoch: u64, draft: Draft) -> Call {
        let known = match &self.gateways[id.at].room {
            Some(room) => room.known,
            None => SliceSize::default(),
        };
        Call::Apply {
            epoch,
            id,
            draft,
            known,
            not_after: self.not_after(),
        }
    }

    /// `Router::not_after`.
    pub fn not_after(&self) -> u64 {
        self.store.now + MAY_BE_LATE
    }

    pub fn hear_job(
        &mut self,
        Task {
            id,
            why,
            call,
            answer,
        }: Task,
    ) {
        let now = self.store.now;
        let gateway = &mut self.gateways[id.at];
        let renewals = gateway.renewals;
        let Some(room) = &mut gateway.room else {
            return;
        };
        let epoch = room.epoch;
        match (why, answer) {
            // `RedisStore::do_apply`: another attempt, now that the time is known.
            (why @ Why::Apply(..), Some(Answer::Applied(ApplyReply::Late(_)))) => {
                let Call::Apply { epoch, draft, .. } = call else {
                    return;
                };
                let call = self.apply(id, epoch, draft);
                self.call_as(id, Who::Job, why, call);
            }
            // `flush::apply`.
            (Why::Apply(mut turn, draft), Some(Answer::Applied(reply))) => {
                let is_refusal = matches!(reply, ApplyReply::Refused(_));
                if is_refusal && self.rules.lack(Mutation::RefusalIgnored) {
                    return room.desired.failed(&draft);
                }
                if is_refusal {
                    room.refused = Some(renewals);
                    room.unconfirmed = true;
                }
                let verdict: Verdict = room.desired.answered(&draft, &reply);
                turn.note_verdict(verdict, &room.desired);
                let is_lost = is_refusal && room.desired.must_register();
                let size = match reply {
                    ApplyReply::Done(size) => Some(size),
                    ApplyReply::Refused(refusal) => refusal.size,
                    _ => None,
                };
                if let Some(size) = size {
                    self.note_size(id.at, epoch, size);
                }
                // `flush::claims_lost`.
                if is_lost {
                    self.gateways[id.at].in_doubt = true;
                    self.tell(id.at, PeerMessage::Doubt);
                }
                self.go_on(id, turn);
            }
            // `Passer::complain`.
            (Why::Complain(turn), Some(Answer::Passed(passed))) => {
                room.desired.complained();
                if let Some((_, size)) = passed {
                    self.note_size(id.at, epoch, size);
                }
                self.go_on(id, turn);
            }
            (why @ (Why::Touch(_) | Why::Over), Some(Answer::IsOpen)) => {
                room.is_open(now);
                match why {
                    Why::Touch(turn) => self.go_on(id, turn),
                    // `Keeper::fence_says_over`: the fence is ahead of the record.
                    _ => self.close(id.at, Some(epoch)),
                }
            }
            (_, Some(Answer::Is(record))) => self.let_go(id.at, record),
            _ => {}
        }
    }

    /// `Passer::note_size`: the gateway hears a size, and tells its peers.
    pub fn note_size(&mut self, at: usize, epoch: u64, size: SliceSize) {
        if let Some(room) = &mut self.gateways[at].room
            && room.epoch == epoch
        {
            room.note_size(size);
        }
        self.tell(at, PeerMessage::Size(epoch, size));
    }

    // -------------------------------------------------------------------------------------- closes

    /// `LivesParts::close`.
    pub fn close(&mut self, at: usize, epoch: Option<u64>) {
        let (Some(named), false) = (epoch, self.is_busy(at, Who::Closer)) else {
            return;
        };
        let asked = epoch.filter(|_| !self.rules.lack(Mutation::CloseWithoutEpoch));
        let why = Why::BeginClose {
            epoch: named,
            rewritten: false,
        };
        self.call(at, Who::Closer, why, Call::BeginClose { epoch: asked });
    }

    /// `LivesParts::finish`: the room ends first.
    pub fn finish(&mut self, at: usize, epoch: u64) {
        if self.gateways[at]
            .room
            .as_ref()
            .is_some_and(|room| room.epoch == epoch)
        {
            self.end_room(at, true);
        }
        if self.is_busy(at, Who::Closer) {
            self.gateways[at].closes.insert(epoch);
        } else {
            self.call(
                at,
                Who::Closer,
                Why::CloseSlice { epoch },
                Call::CloseSlice { epoch },
            );
        }
    }

    pub fn hear_closer(
        &mut self,
        Task {
            id,
            why,
            call,
            answer,
        }: Task,
    ) {
        let at = id.at;
        let here = self.gateways[at].room.as_ref().map(|room| room.epoch);
        match (why, answer) {
            (Why::BeginClose { epoch, .. }, Some(Answer::Is(record))) => {
                let is_other =
                    record.epoch != epoch && !self.rules.lack(Mutation::CloseWithoutEpoch);
                match record.state {
                    _ if is_other => {}
                    State::Closed if here == Some(record.epoch) => self.end_room(at, true),
                    State::Closed | State::Open => {}
                    State::Closing => self.finish(at, record.epoch),
                }
            }
            (
                Why::BeginClose {
                    epoch,
                    rewritten: false,
                },
                Some(Answer::Absent),
            ) if here == Some(epoch) => {
                self.call(
                    at,
                    Who::Closer,
                    Why::Rewrite { epoch },
                    Call::Touch { epoch },
                );
            }
            (Why::Rewrite { epoch }, Some(_)) => {
                let why = Why::BeginClose {
                    epoch,
                    rewritten: true,
                };
                self.call(
                    at,
                    Who::Closer,
                    why,
                    Call::BeginClose { epoch: Some(epoch) },
                );
            }
            (Why::CloseSlice { epoch }, Some(_)) => {
                self.call(
                    at,
                    Who::Closer,
                    Why::FinishClose,
                    Call::FinishClose { epoch },
                );
            }
            _ => drop(call),
        }
        self.next_close(at);
    }

    pub fn next_close(&mut self, at: usize) {
        if !self.is_busy(at, Who::Closer)
            && let Some(epoch) = self.gateways[at].closes.pop_first()
        {
            self.finish(at, epoch);
        }
    }

    // ---------------------------------------------------------------------------------- any answer

    /// An answer arrives. A call that the store has not carried out yet is carried out now.
    pub fn hear(&mut self, at: usize, who: Who) {
        if let Some(place) = self
            .network
            .iter()
            .position(|m| m.awaited && m.from == at && m.who == who)
        {
            self.serve(place);
        }
        let Some(task) = self.gateways[at].tasks.remove(&who) else {
            return;
        };
        match who {
            Who::Job => self.hear_job(task),
            Who::Closer => self.hear_closer(task),
            Who::Lease => self.hear_lease(task),
            Who::Checker => self.hear_check(task),
            Who::Reader => self.hear_reader(task),
            Who::Finder => self.hear_finder(&task),
            Who::Walker => self.hear_walk(task),
        }
    }

    /// An answer is lost or arrives too late.
    pub fn fail(&mut self, at: usize, who: Who) {
        let Some(task) = self.forsake(at, who) else {
            return;
        };
        let gateway = &mut self.gateways[at];
        // `Checks::recheck_ended_again`.
        match (who, &task.why) {
            (Who::Reader, Why::LookAfter { epoch, closed }) => {
                gateway.former.insert((*epoch, *closed), self.store.now);
            }
            (Who::Reader, Why::PutRight(repairs)) => {
                if let [Repair::Pass(pass), ..] = &repairs[..] {
                    gateway.former.insert((pass.epoch, false), self.store.now);
                }
            }
            _ => {}
        }
        let Some(room) = &mut gateway.room else {
            return;
        };
        match (who, task.why) {
            (Who::Job, Why::Apply(_, draft)) => room.desired.failed(&draft),
            (Who::Checker, _) => room.doubt = true,
            (Who::Reader, Why::LookAgain) => room.doubt = true,
            // The walk finishes a close that was interrupted.
            _ => {}
        }
    }
}

impl Room {
    /// `Keeper::keep`, after the store said that the record is open.
    pub fn is_open(&mut self, now: u64) {
        self.touched = self.touched.max(now);
        self.unconfirmed = false;
    }

    /// `Rooms::hear_size`.
    pub fn note_size(&mut self, size: SliceSize) {
        let before = self.known;
        if size.version < before.version {
            return;
        }
        self.known = size;
        if size.incarnation != before.incarnation {
            self.desired.note_incarnation(size.incarnation);
        }
        // `Upkeep::look_later`.
        self.doubt |= !size.is_in_order() && before.is_in_order();
    }

    /// `Passer::begin`.
    pub fn pass(&self) -> PassCall {
        PassCall {
            epoch: self.epoch,
            known: self.known,
            wrong: None,
            dead: Vec::new(),
            from: None,
            only_claims: false,
        }
    }

    /// `SliceState::found_instead`.
    pub fn found_instead(&mut self, expected: Option<u64>, entry: Option<SliceEntry>, in_: u64) {
        if self.desired.entry() != expected || self.desired.held().is_none() {
            return;
        }
        match (expected, entry) {
            (Some(_), _) => self.desired.require_call(),
            (None, Some(SliceEntry::At { .. })) => self.desired.found_entry(in_),
            (None, Some(SliceEntry::Dead) | None) => {}
        }
    }
}
