//! The users who sit in a room on this gateway, and the queue of their fan checks. A room keeps the
//! seats of the users of each slice behind a small lock. After each change it asks here which of
//! the store's sets the user belongs to. Never awaits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use super::conn::{Conn, Gaze};
use super::desired_state::Standing;
use super::shape::SeatOrigin;
use super::tally::{SeatChange, SeatState};
use crate::base::clock::{Moment, UnixMillis};
use crate::base::ids::UserId;
use crate::store::MAX_BATCH;

/// Whether a viewer follows the streamer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fan {
    /// No check has answered yet.
    Unknown,
    No,
    Yes,
}

/// How a [`Member`] keeps a [`Fan`].
const UNKNOWN_FAN: u8 = 0;
const NO_FAN: u8 = 1;
const A_FAN: u8 = 2;

/// A user in a room, shared by the room and the user's sockets.
#[derive(Debug)]
pub struct Member {
    pub user: UserId,
    /// When a socket that counts took the seat, by the wall clock of that time, so that each call
    /// tells the store the same time.
    since: AtomicU64,
    fan: AtomicU8,
}

impl Member {
    /// The last answer of the fan check. A guest is no fan, and nobody asks.
    pub fn fan(&self) -> Fan {
        match self.fan.load(Ordering::Relaxed) {
            UNKNOWN_FAN => Fan::Unknown,
            NO_FAN => Fan::No,
            _ => Fan::Yes,
        }
    }

    /// `None` is unknown.
    fn set_fan(&self, is_fan: Option<bool>) {
        let fan = match is_fan {
            None => UNKNOWN_FAN,
            Some(false) => NO_FAN,
            Some(true) => A_FAN,
        };
        self.fan.store(fan, Ordering::Relaxed);
    }
}

/// A read-only view of a user's seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeatView {
    pub sockets: usize,
    /// Whether any of the sockets counts.
    pub counted: bool,
    /// The last answer of the fan check.
    pub fan: Fan,
    /// When any of the sockets was last heard.
    pub last_heard: Moment,
}

/// A member's sockets in this room.
#[derive(Debug)]
struct Seat {
    member: Arc<Member>,
    conns: Vec<Arc<Conn>>,
}

impl Seat {
    /// Whether any of the sockets counts (`?count=false` and `?invisible=true` ones do not).
    fn counts(&self) -> bool {
        self.conns.iter().any(|conn| conn.identity.counted)
    }

    /// Reads from the tokens of the sockets whether the user is a fan: one token that lists the
    /// streamer is enough.
    fn ask_tokens(&self, streamer: &UserId) {
        if self.member.user.is_guest() {
            return;
        }
        let answers = self
            .conns
            .iter()
            .filter_map(|conn| conn.claims()?.follows(streamer));
        self.member.set_fan(answers.max());
    }

    fn state(&self) -> SeatState {
        if !self.counts() {
            return SeatState::Uncounted;
        }
        let counted = self.conns.iter().filter(|conn| conn.identity.counted);
        let mut state = SeatState::Away;
        for conn in counted {
            match conn.gaze() {
                Gaze::Watching => return SeatState::Watching,
                Gaze::Here => state = SeatState::Here,
                Gaze::Away => {}
            }
        }
        state
    }
}

/// Users whose fan checks expired together.
#[derive(Debug)]
pub struct ExpiredFans {
    pub users: Vec<UserId>,
    /// [`Seats::turns`] when the checks expired.
    pub(super) turn: u64,
}

/// The seats of the users of one slice, and the queue of fan checks.
#[derive(Debug, Default)]
pub(super) struct Seats {
    by_user: HashMap<UserId, Seat>,
    /// When ended sockets were last heard, in a live that keeps sessions: for users whose leave the
    /// store has not confirmed, and for users who have another socket.
    left: HashMap<UserId, Moment>,
    /// The streamer, if the viewers' tokens decide who is a fan; then no check is ever due.
    by_token: Option<UserId>,
    /// Members whose fan check is due now.
    unchecked: VecDeque<Arc<Member>>,
    /// Members whose fan check has an answer, the oldest answer first.
    checked: VecDeque<(Moment, Arc<Member>)>,
    /// How often a caller took users from `unchecked`.
    turns: u64,
    /// Whether the loop that asks another system will come here.
    ask_queued: bool,
}

impl Seats {
    pub(super) fn new(by_token: Option<UserId>) -> Self {
        Self {
            by_token,
            ..Self::default()
        }
    }

    pub(super) fn join(&mut self, conn: &Arc<Conn>, at: UnixMillis) -> (Arc<Member>, SeatChange) {
        let user = &conn.identity.user;
        if !self.by_user.contains_key(user) {
            self.left.remove(user);
        }
        let seat = self.by_user.entry(user.clone()).or_insert_with(|| Seat {
            member: Arc::new(Member {
                user: user.clone(),
                since: AtomicU64::new(at),
                fan: AtomicU8::new(if user.is_guest() { NO_FAN } else { UNKNOWN_FAN }),
            }),
            conns: Vec::with_capacity(1),
        });
        let before = seat.state();
        if seat.conns.is_empty() && self.by_token.is_none() && !user.is_guest() {
            self.unchecked.push_back(seat.member.clone());
        }
        seat.conns.push(conn.clone());
        if let Some(streamer) = &self.by_token {
            seat.ask_tokens(streamer);
        }
        let member = seat.member.clone();
        let after = seat.state();
        if before == SeatState::Uncounted {
            member.since.store(at, Ordering::Relaxed);
        }
        self.forget_departed();
        (member, SeatChange { before, after })
    }

    /// How each user who counts came here, as the newest connection of the user that counts says.
    pub(super) fn origins(&self) -> Vec<SeatOrigin> {
        let mut origins = Vec::with_capacity(self.by_user.len());
        for seat in self.by_user.values() {
            let newest = seat.conns.iter().rfind(|conn| conn.identity.counted);
            let Some(conn) = newest else {
                continue;
            };
            origins.push(SeatOrigin {
                network: conn.identity.network,
                way: conn.way(),
                joined_at: seat.member.since.load(Ordering::Relaxed),
                id_made_at: conn.claims().and_then(|claims| claims.user_since()),
                is_guest: seat.member.user.is_guest(),
            });
        }
        origins
    }

    /// Notes how the user of a socket looks; `None` if the user has no seat.
    pub(super) fn look(&mut self, conn: &Arc<Conn>, gaze: Gaze) -> Option<SeatChange> {
        let seat = self.by_user.get(&conn.identity.user)?;
        let before = seat.state();
        conn.set_gaze(gaze);
        Some(SeatChange {
            before,
            after: seat.state(),
        })
    }

    /// Removes a socket from its seat; `None` if the user has no seat.
    pub(super) fn leave(&mut self, conn: &Arc<Conn>) -> Option<SeatChange> {
        let user = &conn.identity.user;
        let seat = self.by_user.get_mut(user)?;
        let before = seat.state();
        seat.conns.retain(|other| !Arc::ptr_eq(other, conn));
        if let Some(streamer) = &self.by_token {
            seat.ask_tokens(streamer);
        }
        let after = seat.state();
        if seat.conns.is_empty() {
            self.by_user.remove(user);
        }
        Some(SeatChange { before, after })
    }

    /// Removes a user's seat and returns the sockets that were in it.
    pub(super) fn remove(&mut self, user: &UserId) -> Option<(Vec<Arc<Conn>>, SeatChange)> {
        let seat = self.by_user.remove(user)?;
        let change = SeatChange {
            before: seat.state(),
            after: SeatState::Uncounted,
        };
        Some((seat.conns, change))
    }

    /// Removes all users and returns their sockets.
    pub(super) fn clear(&mut self) -> Vec<Arc<Conn>> {
        let seats = std::mem::take(self);
        let mut conns = Vec::new();
        for seat in seats.by_user.into_values() {
            conns.extend(seat.conns);
        }
        conns
    }

    /// The sockets in a user's seat.
    pub(super) fn conns(&self, user: &UserId) -> &[Arc<Conn>] {
        match self.by_user.get(user) {
            Some(seat) => &seat.conns,
            None => &[],
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_user.is_empty()
    }

    /// Whether the user has a seat, counts, and is a fan.
    pub(super) fn has_fan(&self, user: &UserId) -> bool {
        match self.by_user.get(user) {
            Some(seat) => seat.member.fan() == Fan::Yes && seat.counts(),
            None => false,
        }
    }

    /// Whether the user has a seat and counts.
    pub(super) fn has_viewer(&self, user: &UserId) -> bool {
        self.by_user.get(user).is_some_and(Seat::counts)
    }

    /// The standing that the store should hold a user with.
    pub(super) fn standing(&self, user: &UserId) -> Standing {
        if self.has_fan(user) {
            Standing::Fan
        } else if self.has_viewer(user) {
            Standing::Member
        } else {
            Standing::Gone
        }
    }

    /// When the user took the seat.
    pub(super) fn since(&self, user: &UserId) -> Option<UnixMillis> {
        let seat = self.by_user.get(user)?;
        Some(seat.member.since.load(Ordering::Relaxed))
    }

    /// Notes when an ended socket of the user was last heard.
    pub(super) fn note_left(&mut self, user: &UserId, heard: Moment) {
        let known = self.left.entry(user.clone()).or_insert(heard);
        *known = heard.max(*known);
    }

    /// When an ended socket of the user was last heard.
    pub(super) fn left(&self, user: &UserId) -> Option<Moment> {
        self.left.get(user).copied()
    }

    /// Forgets when these users left: the store knows. Users who are here again keep the time,
    /// since they may leave once more.
    pub(super) fn forget_left(&mut self, users: &[UserId]) {
        for user in users {
            if !self.by_user.contains_key(user) {
                self.left.remove(user);
            }
        }
        if self.left.is_empty() {
            self.left = HashMap::new();
        }
    }

    pub(super) fn view(&self, user: &UserId) -> Option<SeatView> {
        let seat = self.by_user.get(user)?;
        let last_heard = seat.conns.iter().map(|conn| conn.last_heard()).max();
        Some(SeatView {
            sockets: seat.conns.len(),
            counted: seat.counts(),
            fan: seat.member.fan(),
            last_heard: last_heard.unwrap_or_default(),
        })
    }

    /// Frees most of the memory that the maps keep from their peak, once few users are left. True
    /// if it freed any.
    pub(super) fn shrink(&mut self) -> bool {
        let sparse =
            self.by_user.capacity() > 64 && self.by_user.len() < self.by_user.capacity() / 8;
        if sparse {
            let room = self.by_user.len() * 2;
            self.by_user.shrink_to(room);
            self.checked.shrink_to(room);
            self.unchecked.shrink_to(room);
        }
        sparse
    }

    // ---------------------------------------------------------------------------------- fan checks

    /// Notes an answer of the fan check.
    pub(super) fn fan_answered(&mut self, user: &UserId, is_fan: bool, now: Moment) {
        let Some(seat) = self.by_user.get(user) else {
            return;
        };
        seat.member.set_fan(Some(is_fan));
        self.checked.push_back((now, seat.member.clone()));
        self.forget_departed();
    }

    /// Reads the tokens of a user's sockets again, if tokens decide who is a fan.
    pub(super) fn ask_tokens(&self, user: &UserId) {
        if let Some(streamer) = &self.by_token
            && let Some(seat) = self.by_user.get(user)
        {
            seat.ask_tokens(streamer);
        }
    }

    /// Makes a user's fan check due now. False if the user is not here, or tokens decide who is a
    /// fan.
    pub(super) fn check_again(&mut self, user: &UserId) -> bool {
        if self.by_token.is_some() {
            return false;
        }
        let Some(seat) = self.by_user.get(user) else {
            return false;
        };
        self.unchecked.push_back(seat.member.clone());
        true
    }

    /// Makes the fan checks due that had their answer by `then`. If all answers fit in one call and
    /// one of them is as old as `together`, returns all their users instead, for the caller to ask
    /// about; `None` if there are none.
    pub(super) fn expire_checks(&mut self, then: Moment, together: Moment) -> Option<ExpiredFans> {
        let fit_in_one_call = self.checked.len() <= MAX_BATCH;
        let one_is_old = match self.checked.front() {
            Some((oldest, _)) => *oldest <= together,
            None => false,
        };
        if fit_in_one_call && one_is_old {
            let checked: Vec<_> = self.checked.drain(..).collect();
            let mut users = HashSet::new();
            for (_, member) in &checked {
                if self.is_seated(member) {
                    users.insert(member.user.clone());
                }
            }
            if users.is_empty() {
                return None;
            }
            return Some(ExpiredFans {
                users: users.into_iter().collect(),
                turn: self.turns,
            });
        }
        while let Some((_, member)) = self.checked.pop_front_if(|(at, _)| *at <= then) {
            if self.is_seated(&member) {
                self.unchecked.push_back(member);
            }
        }
        None
    }

    /// How often a caller has taken users to ask about.
    pub(super) fn turns(&self) -> u64 {
        self.turns
    }

    /// Takes up to `most` users whose check is due and who are still here, each once: the users who
    /// have waited longest.
    pub(super) fn take_unchecked(&mut self, most: usize) -> Vec<UserId> {
        self.turns += 1;
        let mut users = HashSet::new();
        while users.len() < most {
            let Some(member) = self.unchecked.pop_front() else {
                break;
            };
            if self.is_seated(&member) {
                users.insert(member.user.clone());
            }
        }
        users.into_iter().collect()
    }

    /// Puts users whose check had no answer back to the front of the queue.
    pub(super) fn return_unchecked(&mut self, users: &[UserId]) {
        for user in users {
            if let Some(seat) = self.by_user.get(user) {
                self.unchecked.push_front(seat.member.clone());
            }
        }
    }

    pub(super) fn unchecked(&self) -> usize {
        self.unchecked.len()
    }

    /// Notes that the loop that asks another system will come here. True if users wait for it, and
    /// the caller must queue the slice.
    pub(super) fn queue_ask(&mut self) -> bool {
        !self.unchecked.is_empty() && !std::mem::replace(&mut self.ask_queued, true)
    }

    /// As [`Self::take_unchecked`], for the loop that asks another system, which has come.
    pub(super) fn take_for_asking(&mut self, most: usize) -> Vec<UserId> {
        self.ask_queued = false;
        self.take_unchecked(most)
    }

    fn is_seated(&self, member: &Arc<Member>) -> bool {
        self.by_user
            .get(&member.user)
            .is_some_and(|seat| Arc::ptr_eq(&seat.member, member))
    }

    /// Removes departed users from the queues once these are long, so that their length stays in
    /// proportion to the number of seats.
    fn forget_departed(&mut self) {
        let most = 2 * self.by_user.len() + MAX_BATCH;
        if self.unchecked.len() > most {
            let mut seen = HashSet::new();
            let mut unchecked = std::mem::take(&mut self.unchecked);
            unchecked.retain(|member| self.is_seated(member) && seen.insert(Arc::as_ptr(member)));
            self.unchecked = unchecked;
        }
        if self.checked.len() > most {
            let mut seen = HashSet::new();
            // The newest answer of each member counts.
            let mut kept: VecDeque<_> = VecDeque::with_capacity(self.by_user.len());
            while let Some((at, member)) = self.checked.pop_back() {
                if self.is_seated(&member) && seen.insert(Arc::as_ptr(&member)) {
                    kept.push_front((at, member));
                }
            }
            self.checked = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::testing;

    fn seats_answered_at(times: &[u64]) -> Seats {
        let mut seats = Seats::default();
        for (n, at) in times.iter().enumerate() {
            let conn = testing::conn(&format!("u{n}"));
            seats.join(&conn, 0);
            seats.take_unchecked(MAX_BATCH);
            seats.fan_answered(&conn.identity.user, true, moment(*at));
        }
        seats
    }

    #[test]
    fn one_call_asks_about_everybody_whose_answers_fit_in_it() {
        let mut seats = seats_answered_at(&[1_000, 9_000, 25_000]);
        assert!(seats.expire_checks(moment(999), moment(999)).is_none());
        assert_eq!(
            seats
                .expire_checks(moment(999), moment(1_000))
                .map(|expired| expired.users.len()),
            Some(3)
        );
        assert_eq!((seats.unchecked(), seats.checked.len()), (0, 0));
    }

    #[test]
    fn of_many_users_the_flusher_asks_only_about_those_whose_answer_expired() {
        let mut seats = seats_answered_at(&vec![1_000; MAX_BATCH]);
        let late = testing::conn("late");
        seats.join(&late, 0);
        seats.take_unchecked(MAX_BATCH);
        seats.fan_answered(&late.identity.user, true, moment(2_000));
        assert!(seats.expire_checks(moment(1_000), moment(2_000)).is_none());
        assert_eq!((seats.unchecked(), seats.checked.len()), (MAX_BATCH, 1));
    }
}
