//! What a gateway does around the real [`Turn`] and [`DesiredState`]: it makes and ends the room,
//! sends the calls of a slice's turn and takes in the answers. Each function names the production
//! code that it mirrors. Between two steps anything may happen, and any time may pass.

use std::collections::BTreeSet;

use rollcall::presence::desired_state::{ApplyVerdict, DesiredState, Draft};
use rollcall::presence::turn::{Turn, TurnContext, TurnStep};
use rollcall::store::{ApplyReply, MAX_BATCH, SliceEntry, SliceSize};

use super::budget::Mutation;
use super::store::{Answer, Call, PassCall};
use super::world::{Id, Room, Task, Who, Why, World};

/// `Config::lease`, in milliseconds.
pub const LEASE: u64 = 15_000;

/// Two and a half `Config::lease_refresh`.
const FRESH: u64 = 5_000;

/// How late a call that makes an entry may arrive.
const MAY_BE_LATE: u64 = 5_000;

impl World {
    /// `LivesParts::install`: the gateway finds that the live is open.
    pub fn find(&mut self, at: usize) {
        let gateway = &mut self.gateways[at];
        let number = if self.rules.lack(Mutation::NumbersBeginAnew) {
            0
        } else {
            gateway.clock
        };
        gateway.room = Some(Room {
            epoch: self.store.epoch,
            desired: DesiredState::numbered_from(number),
            seated: BTreeSet::new(),
            life: 0,
            touched: self.store.now,
            // Something may have changed before the room subscribed.
            doubt: true,
            known: SliceSize::default(),
            refused: None,
            unconfirmed: false,
            refuted: false,
        });
    }

    /// `LivesParts::end` and `Room::end_if_idle`. Calls of the room that are under way lose their
    /// receiver.
    pub fn end_room(&mut self, at: usize) {
        self.gateways[at].room = None;
        for who in [Who::Job, Who::Checker] {
            self.forsake(at, who);
        }
    }

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
            let ask = Call::AskRecord { epoch };
            let (why, call) = match turn.next(&mut room.desired) {
                TurnStep::CheckRecord if self.rules.lack(Mutation::NoLookAtRecord) => continue,
                TurnStep::CheckRecord => (Why::AskRecord(turn), ask),
                TurnStep::Complain(_) if self.rules.lack(Mutation::NoComplaint) => {
                    room.desired.complained();
                    continue;
                }
                TurnStep::Complain(incarnation) => {
                    let pass = PassCall {
                        wrong: Some(incarnation),
                        ..room.pass()
                    };
                    (Why::Complain(turn), Call::Pass(pass))
                }
                TurnStep::Call(mut draft) => {
                    draft.joins.sort();
                    draft.leaves.sort();
                    if draft.follows.is_none() && room.refuted {
                        self.wrong = Some("a gateway registered in an epoch that is over");
                    }
                    self.gateways[id.at].clock = draft.number;
                    (
                        Why::Apply(turn, draft.clone()),
                        self.apply(id, epoch, draft),
                    )
                }
                TurnStep::Over => (Why::Over, ask),
                TurnStep::GiveUp | TurnStep::Done => return,
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
                let verdict: ApplyVerdict = room.desired.answered(&draft, &reply);
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
                    self.peers_of(id.at).for_each(|room| room.doubt = true);
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
            (Why::AskRecord(turn), Some(Answer::IsOpen)) => {
                room.is_open(now);
                self.go_on(id, turn);
            }
            (Why::Over, Some(Answer::IsOpen)) => room.is_open(now),
            (_, Some(Answer::IsOver)) => self.end_room(id.at),
            _ => {}
        }
    }

    /// `Passer::note_size`: the gateway hears a size, and tells its peers.
    pub fn note_size(&mut self, at: usize, epoch: u64, size: SliceSize) {
        let own = self.gateways[at].room.iter_mut();
        own.filter(|room| room.epoch == epoch)
            .for_each(|room| room.note_size(size));
        self.peers_of(at)
            .filter(|room| room.epoch == epoch)
            .for_each(|room| room.note_size(size));
    }

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
            Who::Lease => self.hear_lease(task),
            Who::Checker => self.hear_check(task),
        }
    }

    /// An answer is lost or arrives too late.
    pub fn fail(&mut self, at: usize, who: Who) {
        let Some(task) = self.forsake(at, who) else {
            return;
        };
        let Some(room) = &mut self.gateways[at].room else {
            return;
        };
        match (who, task.why) {
            (Who::Job, Why::Apply(_, draft)) => room.desired.failed(&draft),
            (Who::Checker, _) => room.doubt = true,
            _ => {}
        }
    }
}

impl Room {
    /// `Keeper::keep`, after the store said that the live is open.
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
