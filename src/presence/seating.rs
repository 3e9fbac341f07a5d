//! Gives users seats in a room, takes the seats away, and notes which users are fans. After each
//! change of a seat, the room wants the user's new standing in the store. A thread takes the lock
//! of a slice only after the lock of its seats. Never awaits.

use std::sync::Arc;

use super::conn::{Conn, Gaze, Signals};
use super::room::{NoSeat, Room};
use super::seats::{ExpiredFans, Member, Seats};
use super::tally::{SeatChange, SeatState};
use crate::base::clock::{Moment, UnixMillis};
use crate::base::gcra::Rate;
use crate::base::ids::UserId;
use crate::store::fans::FanAnswers;

impl Room {
    /// Wants the standing of the user's present seat in the store. The caller holds the lock of the
    /// seats.
    fn settle(&self, user: &UserId, seats: &Seats) {
        self.slices[self.place_of_user(user)]
            .lock()
            .want(user, seats.standing(user));
    }

    /// Seats a socket at `now`, which is `unix_now` by the wall clock; all joins together keep to
    /// `rate`.
    ///
    /// # Errors
    /// If the room has ended or is being evicted, the user is banned from it or by a rule, or too many join at once.
    pub(crate) fn join(
        &self,
        conn: &Arc<Conn>,
        rate: Rate,
        now: Moment,
        unix_now: UnixMillis,
    ) -> Result<Arc<Member>, NoSeat> {
        let user = &conn.identity.user;
        let mut seats = self.seats.lock_of(user);
        // Under the lock: `close` sets the end before `release` takes each lock, so no join slips
        // in between.
        if self.is_ending() {
            return Err(NoSeat::Ended);
        }
        // Under the lock too: a removal notes the ban before `remove_user` takes the lock.
        if let Some(left) = self.seats.bans.remaining(user, now) {
            return Err(NoSeat::Banned(left));
        }
        if let Some(ban) = self.kept_out(user, now) {
            return Err(NoSeat::KeptOut(ban));
        }
        if !self.seats.admit(rate, now) {
            return Err(NoSeat::Crowded);
        }
        let (member, change) = seats.join(conn, unix_now);
        self.settle(user, &seats);
        self.count_seat(change, now);
        self.figures.note_peaks();
        Ok(member)
    }

    /// Seats a user's socket in the place of the guest's that it was, in one step. The user is there
    /// since the guest was.
    ///
    /// # Errors
    /// If the room has ended or is being evicted, the guest has no seat, or the user is banned.
    /// Nothing has changed then.
    pub(crate) fn sign_in(
        &self,
        guest: &Arc<Conn>,
        user: &Arc<Conn>,
        now: Moment,
    ) -> Result<Arc<Member>, NoSeat> {
        let (guest_id, user_id) = (&guest.identity.user, &user.identity.user);
        let (from, to) = (self.place_of_user(guest_id), self.place_of_user(user_id));
        // Always the lower place first: two guests may sign in the other way round.
        let mut lower = self.seats.lock(from.min(to));
        let mut higher = (from != to).then(|| self.seats.lock(from.max(to)));
        // As in `join`.
        if self.is_ending() {
            return Err(NoSeat::Ended);
        }
        if let Some(left) = self.seats.bans.remaining(user_id, now) {
            return Err(NoSeat::Banned(left));
        }
        if let Some(ban) = self.kept_out(user_id, now) {
            return Err(NoSeat::KeptOut(ban));
        }
        let mut of_guest = &mut *lower;
        let mut of_user = higher.as_deref_mut();
        if from > to
            && let Some(higher) = &mut of_user
        {
            std::mem::swap(&mut of_guest, higher);
        }
        let since = of_guest.since(guest_id).ok_or(NoSeat::Ended)?;
        let left = of_guest.leave(guest).ok_or(NoSeat::Ended)?;
        let guest_stands = of_guest.standing(guest_id);
        let of_user = of_user.unwrap_or(of_guest);
        let (member, joined) = of_user.join(user, since);
        let user_stands = of_user.standing(user_id);
        if from == to {
            self.slices[to]
                .lock()
                .replace((guest_id, guest_stands), (user_id, user_stands));
        } else {
            self.sign_ins.begin([from, to]);
            self.slices[to].lock().want(user_id, user_stands);
            self.slices[from].lock().want(guest_id, guest_stands);
        }
        self.schedule.note_used(now);
        self.figures.tally.apply_all(&[left, joined]);
        Ok(member)
    }

    /// Notes how the user of a socket looks. True if that changed how the user counts.
    pub(crate) fn look(&self, conn: &Arc<Conn>, gaze: Gaze, now: Moment) -> bool {
        let mut seats = self.seats.lock_of(&conn.identity.user);
        let Some(change) = seats.look(conn, gaze) else {
            return false;
        };
        self.count_seat(change, now);
        change.before != change.after
    }

    pub fn leave(&self, conn: &Arc<Conn>, now: Moment) {
        let user = &conn.identity.user;
        let mut seats = self.seats.lock_of(user);
        let Some(change) = seats.leave(conn) else {
            return;
        };
        if conn.identity.counted {
            self.note_left(user, conn.last_heard(), &mut seats);
        }
        self.settle(user, &seats);
        let mut slice = self.slices[self.place_of_user(user)].lock();
        if slice.desired().is_settled(user) {
            // The store never heard of this stay.
            seats.forget_left(std::slice::from_ref(user));
        }
        if seats.shrink() {
            slice.shrink();
        }
        drop(slice);
        self.count_seat(change, now);
    }

    /// Removes a user's seat and signals its sockets to close. Returns their number.
    pub fn remove_user(&self, user: &UserId, now: Moment) -> usize {
        let mut seats = self.seats.lock_of(user);
        let Some((conns, change)) = seats.remove(user) else {
            return 0;
        };
        if change.before != SeatState::Uncounted {
            self.note_left(user, now, &mut seats);
        }
        self.settle(user, &seats);
        self.count_seat(change, now);
        drop(seats);
        for conn in &conns {
            conn.signal(Signals::REMOVED);
        }
        conns.len()
    }

    /// Notes when a user's socket was last heard, for the end of the user's session. The caller
    /// holds the lock.
    fn note_left(&self, user: &UserId, heard: Moment, seats: &mut Seats) {
        if self.seats.keeps_sessions() {
            seats.note_left(user, heard);
        }
    }

    /// Counts a change of a seat. The caller holds the lock of the seats, so that the sum is exact
    /// whenever no thread holds a lock.
    fn count_seat(&self, change: SeatChange, now: Moment) {
        self.schedule.note_used(now);
        self.figures.tally.apply(change);
    }

    /// Takes all users out of the seats, and out of the store's sets: the gateway stops.
    pub(super) fn want_nobody(&self) {
        self.seats.clear();
        for slice in &self.slices {
            slice.lock().want_nobody();
        }
    }

    /// Whether no user sits here, and the store needs no call.
    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty() && self.slices.iter().all(|slice| slice.lock().is_idle())
    }

    /// Tells the sockets of the users of one slice that the room has ended, and forgets them.
    /// Returns their number.
    pub fn release(&self, place: usize) -> usize {
        let conns = self.seats.lock(place).clear();
        self.slices[place].lock().clear();
        for conn in &conns {
            conn.signal(Signals::ENDED);
        }
        conns.len()
    }

    // ---------------------------------------------------------------------------------- fan checks

    /// Reads again from the tokens of a user's sockets whether the user is a fan, if tokens decide
    /// that.
    pub fn ask_tokens(&self, user: &UserId) {
        let seats = self.seats.lock_of(user);
        seats.ask_tokens(user);
        self.settle(user, &seats);
    }

    /// Whether the flusher has something to do for the slice at this place.
    pub fn is_dirty(&self, place: usize) -> bool {
        self.seats.due_in_turn(place) > 0
            || self.slices[place].lock().is_dirty()
            || self.seats.unrecorded.waiting(place) > 0
    }

    /// Notes the answers about these users of the slice at this place, in the same order. Users
    /// without an answer wait for another check. True if there are none.
    pub fn fans_answered(
        &self,
        place: usize,
        users: &[UserId],
        answers: &FanAnswers,
        now: Moment,
    ) -> bool {
        let mut seats = self.seats.lock(place);
        let mut unknown = Vec::new();
        for (user, answer) in users.iter().zip(answers) {
            match answer {
                Some(is_fan) => seats.fan_answered(user, *is_fan, now),
                None => unknown.push(user.clone()),
            }
            self.settle(user, &seats);
        }
        seats.return_unchecked(&unknown);
        unknown.is_empty()
    }

    /// As [`Seats::expire_checks`], of the slice at this place. If another system knows the fans,
    /// the expired checks wait for the loop that asks it, and this returns `None`.
    pub fn expire_checks(
        &self,
        place: usize,
        then: Moment,
        together: Moment,
    ) -> Option<ExpiredFans> {
        let mut seats = self.seats.lock(place);
        // A job of the flusher may be asking now, and its answers must not be taken for newer than
        // they are.
        let together = if self.slices[place].lock().has_no_job() {
            together
        } else {
            Moment::START
        };
        let expired = seats.expire_checks(then, together);
        if self.seats.asks_elsewhere() {
            if let Some(expired) = &expired {
                seats.return_unchecked(&expired.users);
            }
            return None;
        }
        expired
    }

    /// Notes the answers about expired users. The flusher asks again if there are no answers, or if
    /// it has asked meanwhile: its answers may be newer.
    pub fn renew_checks(
        &self,
        place: usize,
        expired: &ExpiredFans,
        answers: Option<FanAnswers>,
        now: Moment,
    ) {
        let turns = self.seats.lock(place).turns();
        match answers {
            Some(answers) if turns == expired.turn => {
                self.fans_answered(place, &expired.users, &answers, now);
            }
            _ => self.seats.lock(place).return_unchecked(&expired.users),
        }
    }
}
