//! What a gateway does around the real [`Turn`] and [`Ledger`]: it sends the calls and takes in the answers. Each
//! function names what it mirrors. Between two steps anything may happen, for as long as it likes: so a paused gateway
//! needs no step of its own, it is one that takes no step.

use std::collections::{BTreeSet, HashSet};

use rollcall::flush::turn::{Occasion, Step, Turn};
use rollcall::rooms::ledger::Ledger;
use rollcall::store::{ApplyReply, Entry};

use super::store::{Answer, Call, Expected, Record, State};
use super::world::{Closer, Due, Job, Message, Mutation, Room, Who, Why, World, user_id};

impl World {
    /// `Parts::install`: the room of an open epoch, in place of an older one.
    pub fn install(&mut self, at: usize, epoch: u64) {
        if self.gateways[at].room.as_ref().is_some_and(|room| room.epoch >= epoch) {
            return;
        }
        self.end_room(at);
        let gateway = &mut self.gateways[at];
        let number = if self.mutation == Mutation::NumbersBeginAnew { 0 } else { gateway.clock };
        gateway.room = Some(Room {
            epoch,
            ledger: Ledger::numbered_from(number),
            seated: BTreeSet::new(),
            refuted: false,
            covered: 0,
        });
    }

    /// `Parts::end`, and `Room::end_if_idle`: whoever waits for an answer here does not care any more.
    pub fn end_room(&mut self, at: usize) {
        self.gateways[at].room = None;
        self.gateways[at].doubts = false;
        if self.gateways[at].job.take().is_some() {
            self.forsake(at, Who::Job);
        }
    }

    /// Nobody waits for this call any more; it may arrive all the same, if the budget has room for it.
    fn forsake(&mut self, from: usize, who: Who) {
        let room_for_more = self.late() < self.left.late;
        let Some(place) = self.network.iter().position(|m| m.awaited && m.from == from && m.who == who) else { return };
        let mut message = self.network.remove(place);
        // A late reading changes nothing.
        if room_for_more && message.call != Call::ReadHeld {
            message.awaited = false;
            self.send(message);
        }
    }

    /// `flush::job`: a turn begins. Whoever is asked to renew the lease looks at the record first; whoever is not may
    /// have looked at it up to a lease ago, which is for as long as anything here can last.
    pub fn start(&mut self, at: usize, due: Due) {
        let Some(room) = &self.gateways[at].room else { return };
        let reconcile = due.reconcile && self.mutation != Mutation::NoReconcile;
        let occasion = Occasion { refresh: due.refresh, reconcile, keeps_record: true, knows_open: true };
        let turn = Turn::new(occasion, &room.ledger);
        self.gateways[at].doubts &= !due.refresh;
        self.go_on(at, turn);
    }

    /// `renewal::expected`.
    pub fn expected(&self, at: usize) -> Option<Expected> {
        let gateway = &self.gateways[at];
        let room = gateway.room.as_ref()?;
        let held = room.ledger.held().filter(|_| !room.ledger.is_dirty())?;
        let known = room.ledger.is_registered() == (held.members > 0);
        let (fans, number) = (held.members, held.number);
        let glance = gateway.own.is_some() && room.covered == number;
        (known && !gateway.doubts).then_some(Expected { epoch: room.epoch, fans, number, glance })
    }

    /// `renewal::renew`, whose call may take any time to arrive.
    pub fn renew(&mut self, at: usize) {
        if let Some(expected) = self.expected(at) {
            self.send(Message { from: at, who: Who::Job, awaited: false, call: Call::Renew(expected) });
        }
    }

    /// `own_lease::run`. The answer is heard or lost; a call that comes late is one whose answer is lost.
    pub fn renew_own(&mut self, at: usize, heard: bool) {
        let which = self.store.renew_own(at);
        let gateway = &mut self.gateways[at];
        if !heard {
            return;
        }
        let ran_out = gateway.own.replace(which).is_some_and(|before| before != which);
        gateway.doubts |= ran_out && gateway.room.is_some() && self.mutation != Mutation::LapseIgnored;
    }

    /// The loop of `flush::work`, up to the next answer it waits for.
    fn go_on(&mut self, at: usize, mut turn: Turn) {
        let mutation = self.mutation;
        loop {
            let Some(room) = &mut self.gateways[at].room else { return };
            let epoch = room.epoch;
            let touch = Call::Touch { epoch };
            let (why, call) = match turn.next(&mut room.ledger) {
                Step::Touch if mutation == Mutation::RecordNotTouched => continue,
                Step::Touch => (Why::Touch, touch),
                // Whom it names is swept by anybody at any time.
                Step::View => continue,
                Step::Call(mut draft) => {
                    draft.joins.sort();
                    draft.leaves.sort();
                    if draft.entry == Entry::Register && room.refuted {
                        self.wrong = Some("a gateway asserted an epoch again of which the record said that it is over");
                    }
                    self.gateways[at].clock = draft.number;
                    (Why::Call, Call::Apply { epoch, draft })
                }
                Step::Confirm if mutation == Mutation::RecordNotConfirmed => {
                    room.ledger.assert_again();
                    continue;
                }
                Step::Confirm => (Why::Confirm, touch),
                Step::ReadBack => (Why::ReadBack, Call::ReadHeld),
                Step::Over => (Why::Over, touch),
                Step::GiveUp | Step::Done => return,
            };
            self.send(Message { from: at, who: Who::Job, awaited: true, call: call.clone() });
            self.gateways[at].job = Some(Job { turn, why, call, answer: None });
            return;
        }
    }

    /// The store carries out a call; whoever waits gets the answer.
    pub fn serve(&mut self, place: usize) {
        let Message { from, who, awaited, call } = self.network.remove(place);
        let answer = self.store.serve(from, &call, self.mutation);
        if let (Call::Renew(expected), Some(room)) = (&call, &mut self.gateways[from].room)
            && answer == Answer::Still
            && !expected.glance
        {
            room.covered = expected.number;
        }
        if !awaited {
            return;
        }
        if answer == Answer::Applied(ApplyReply::Stale) && !self.duplicated {
            self.wrong = Some("a call that was awaited and carried out once was refused as stale");
        }
        // A record of an older epoch is one that was lost and made anew; it says nothing of this one.
        let record = self.store.record;
        let over = |room: &Room| {
            record.is_some_and(|r| r.epoch > room.epoch || (r.epoch == room.epoch && r.state != State::Open))
        };
        let gateway = &mut self.gateways[from];
        if let Some(room) = gateway.room.as_mut().filter(|room| over(room)) {
            room.refuted |= answer == Answer::Applied(ApplyReply::Unknown);
        }
        match who {
            Who::Job => gateway.job.iter_mut().for_each(|job| job.answer = Some(answer.clone())),
            Who::Closer => gateway.closer.iter_mut().for_each(|closer| closer.answer = Some(answer.clone())),
        }
    }

    /// The answer arrives.
    pub fn hear(&mut self, at: usize, who: Who) {
        match who {
            Who::Job => self.hear_job(at),
            Who::Closer => self.hear_closer(at),
        }
    }

    fn hear_job(&mut self, at: usize) {
        let Some(Job { mut turn, why, call, answer: Some(answer) }) = self.gateways[at].job.take() else { return };
        let Some(room) = &mut self.gateways[at].room else { return };
        match (why, answer) {
            // `flush::apply`.
            (Why::Call, Answer::Applied(reply)) => {
                let Call::Apply { draft, .. } = call else { return };
                if self.mutation == Mutation::UnknownIgnored && reply == ApplyReply::Unknown {
                    return room.ledger.failed(&draft);
                }
                turn.heard(room.ledger.answered(&draft, &reply));
                self.go_on(at, turn);
            }
            // `flush::read_back`.
            (Why::ReadBack, Answer::Held(held)) => {
                let held: HashSet<_> = held.into_iter().map(user_id).collect();
                room.ledger.reconcile(&held);
                self.go_on(at, turn);
            }
            // `flush::assert_again`.
            (Why::Confirm, Answer::IsOpen) => {
                room.ledger.assert_again();
                self.go_on(at, turn);
            }
            (Why::Touch, Answer::IsOpen) => self.go_on(at, turn),
            // `upkeep::over`: the fence is ahead of the record. The close is left to the closer.
            (Why::Over, Answer::IsOpen) => {
                let epoch = room.epoch;
                self.close(at, Some(epoch));
            }
            // `Lives::let_go`.
            (_, Answer::Is(record)) => {
                let closing = record.epoch == room.epoch && record.state == State::Closing;
                let own = Record { epoch: room.epoch, ..record };
                let registered = room.ledger.is_registered();
                self.end_room(at);
                // Where the close has finished, what is left of it changes nothing but the slice.
                if closing || registered {
                    self.finish(at, own);
                }
            }
            _ => {}
        }
    }

    /// The answer does not arrive, or not in time.
    pub fn fail(&mut self, at: usize, who: Who) {
        self.forsake(at, who);
        match who {
            Who::Job => {
                let Some(job) = self.gateways[at].job.take() else { return };
                let Some(room) = &mut self.gateways[at].room else { return };
                if let Call::Apply { draft, .. } = &job.call {
                    room.ledger.failed(draft);
                }
            }
            // A close that was interrupted is finished by somebody else.
            Who::Closer => self.gateways[at].closer = None,
        }
    }

    /// `Parts::close`.
    pub fn close(&mut self, at: usize, epoch: Option<u64>) {
        self.call_closer(at, epoch, false, Call::BeginClose { epoch });
    }

    /// `Parts::finish`: the room ends first.
    pub fn finish(&mut self, at: usize, record: Record) {
        if self.gateways[at].room.as_ref().is_some_and(|room| room.epoch == record.epoch) {
            self.end_room(at);
        }
        let epoch = record.epoch;
        self.call_closer(at, Some(epoch), false, Call::CloseSlice { epoch });
    }

    fn call_closer(&mut self, at: usize, epoch: Option<u64>, rewritten: bool, call: Call) {
        if self.gateways[at].closer.is_none() {
            self.send(Message { from: at, who: Who::Closer, awaited: true, call: call.clone() });
            self.gateways[at].closer = Some(Closer { epoch, rewritten, call, answer: None });
        }
    }

    fn hear_closer(&mut self, at: usize) {
        let Some(Closer { epoch, rewritten, call, answer: Some(answer) }) = self.gateways[at].closer.take() else {
            return;
        };
        let here = self.gateways[at].room.as_ref().map(|room| room.epoch);
        match (call, answer) {
            (Call::BeginClose { .. }, Answer::Is(record)) => match record.state {
                _ if epoch.is_some_and(|epoch| epoch != record.epoch) => {}
                State::Closed if here.is_some_and(|here| here <= record.epoch) => self.end_room(at),
                State::Closed | State::Open => {}
                State::Closing => self.finish(at, record),
            },
            (Call::BeginClose { .. }, Answer::Absent) => {
                if let Some(here) = here.filter(|_| !rewritten) {
                    self.call_closer(at, epoch, true, Call::Touch { epoch: here });
                }
            }
            (Call::Touch { .. }, Answer::IsOpen) => {
                self.call_closer(at, epoch, rewritten, Call::BeginClose { epoch });
            }
            (Call::CloseSlice { epoch }, _) => {
                self.call_closer(at, Some(epoch), false, Call::FinishClose { epoch });
            }
            _ => {}
        }
    }
}
