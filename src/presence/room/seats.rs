//! The seats of a room: who sits where, who may not sit down, and whose fan check is due. The seats
//! of the users of each slice have one lock. `presence::seating` changes the seats together with
//! the desired states of the slices. Never awaits.

use std::sync::atomic::AtomicU64;

use parking_lot::{Mutex, MutexGuard};

use crate::base::clock::{Moment, UnixMillis};
use crate::base::gcra::Rate;
use crate::base::ids::UserId;
use crate::config::FanSource;
use crate::presence::attendance::Unrecorded;
use crate::presence::bans::{Bans, KnownBans};
use crate::presence::seats::{SeatView, Seats};
use crate::presence::shape::SeatOrigin;
use crate::store::{LiveRecord, MAX_BATCH};

#[derive(Debug)]
pub struct RoomSeats {
    /// By the index of the users' slice.
    by_slice: Box<[Mutex<Seats>]>,
    pub bans: Bans,
    /// The fans whose attendance the store does not have yet.
    pub unrecorded: Unrecorded,
    /// The state of the rate limit of joins.
    joins: AtomicU64,
    /// Whether the calls on the slices begin and end sessions of attendance.
    keeps_sessions: bool,
    /// Whether a system other than the store knows the fans.
    asks_elsewhere: bool,
}

impl RoomSeats {
    pub(super) fn new(
        record: &LiveRecord,
        bans: KnownBans,
        fan_source: FanSource,
        now: Moment,
    ) -> Self {
        let by_token = match fan_source {
            FanSource::Token => Some(&record.streamer),
            _ => None,
        };
        let keeps_sessions = record.terms.attendance;
        Self {
            by_slice: (0..record.slices)
                .map(|_| Mutex::new(Seats::new(by_token.cloned())))
                .collect(),
            bans: Bans::new(bans, now),
            unrecorded: Unrecorded::new(if keeps_sessions { record.slices } else { 0 }),
            joins: AtomicU64::new(0),
            keeps_sessions,
            asks_elsewhere: fan_source.is_elsewhere(),
        }
    }

    /// The place of a user's slice and seat.
    pub(in crate::presence) fn place_of(&self, user: &UserId) -> usize {
        user.slice_index(self.by_slice.len() as u32) as usize - 1
    }

    /// Locks the seats of the slice at this place.
    pub(in crate::presence) fn lock(&self, place: usize) -> MutexGuard<'_, Seats> {
        self.by_slice[place].lock()
    }

    /// Locks the seats among which a user's seat is.
    pub(in crate::presence) fn lock_of(&self, user: &UserId) -> MutexGuard<'_, Seats> {
        self.lock(self.place_of(user))
    }

    /// Counts a join, unless there are too many for this rate.
    pub(in crate::presence) fn admit(&self, rate: Rate, now: Moment) -> bool {
        rate.admit(&self.joins, now)
    }

    /// Whether no user sits here, and no attendance waits for the store.
    pub(in crate::presence) fn is_empty(&self) -> bool {
        self.by_slice.iter().all(|seats| seats.lock().is_empty()) && self.unrecorded.is_empty()
    }

    /// Takes all users out of their seats.
    pub(in crate::presence) fn clear(&self) {
        for seats in &self.by_slice {
            seats.lock().clear();
        }
    }

    /// A user's seat; `None` if the user has none.
    pub fn view(&self, user: &UserId) -> Option<SeatView> {
        self.lock_of(user).view(user)
    }

    /// How each user who counts came here, among those of the slice at this place.
    pub fn origins(&self, place: usize) -> Vec<SeatOrigin> {
        self.lock(place).origins()
    }

    /// When each of these users of the slice at this place took the seat; `now` for a user who
    /// left.
    pub fn since<'a>(
        &self,
        place: usize,
        users: impl Iterator<Item = &'a UserId>,
        now: UnixMillis,
    ) -> Vec<UnixMillis> {
        let seats = self.lock(place);
        users.map(|user| seats.since(user).unwrap_or(now)).collect()
    }

    pub fn keeps_sessions(&self) -> bool {
        self.keeps_sessions
    }

    /// When each of these users of the slice at this place was last here, or `None` for a user if
    /// the room does not know; `None` for a live without sessions.
    pub fn left(&self, place: usize, users: &[UserId]) -> Option<Vec<Option<Moment>>> {
        if !self.keeps_sessions {
            return None;
        }
        let seats = self.lock(place);
        Some(users.iter().map(|user| seats.left(user)).collect())
    }

    /// Notes that the store has ended the sessions of these users of the slice at this place.
    pub fn note_left_told(&self, place: usize, users: &[UserId]) {
        if self.keeps_sessions {
            self.lock(place).forget_left(users);
        }
    }

    // ---------------------------------------------------------------------------------- fan checks

    /// Whether a system other than the store knows the fans. Its slow answers must not delay the
    /// leaves, so the flusher makes no fan checks.
    pub(in crate::presence) fn asks_elsewhere(&self) -> bool {
        self.asks_elsewhere
    }

    /// The number of users of the slice at this place who wait for a fan check that the flusher
    /// makes in its turn.
    pub fn due_in_turn(&self, place: usize) -> usize {
        if self.asks_elsewhere {
            0
        } else {
            self.lock(place).unchecked()
        }
    }

    /// As [`Seats::take_unchecked`] of a whole batch, of the slice at this place.
    pub fn take_unchecked(&self, place: usize) -> Vec<UserId> {
        self.lock(place).take_unchecked(MAX_BATCH)
    }

    /// As [`Seats::queue_ask`], of the slice at this place.
    pub fn queue_ask(&self, place: usize) -> bool {
        self.asks_elsewhere && self.lock(place).queue_ask()
    }
}
