//! A slice together with its owner, a room or a set of the platform. The flusher, the checker and
//! the passer treat the slices of both alike; this file holds the differences. Never awaits.

use std::ops::Deref;
use std::sync::Arc;

use super::audience::Audience;
use super::desired_state::Draft;
use super::platform::{Platform, Telling};
use super::room::Room;
use super::seats::ExpiredFans;
use super::slice::Slice;
use crate::base::clock::{Moment, UnixMillis};
use crate::base::ids::{Epoch, SliceId, UserId};
use crate::store::SESSIONS_A_CALL;
use crate::store::fans::FanAnswers;
use crate::store::{MAX_BATCH, SliceSize};

/// A slice and its owner.
#[derive(Debug, Clone)]
pub struct SliceRef {
    owner: Audience,
    /// The place of the slice among the slices of the owner.
    place: usize,
}

impl Audience {
    pub fn slices(&self) -> impl Iterator<Item = SliceRef> {
        let count = match self {
            Self::Room(room) => room.slices().len(),
            Self::Platform(platform) => platform.slices().len(),
        };
        (0..count).map(move |place| self.slice_at(place))
    }

    /// Whether a slice is in a rebuild.
    pub fn has_rebuild(&self) -> bool {
        self.slices().any(|slice| slice.size().rebuild)
    }

    /// The slice with this id; `None` if it is not a slice of this owner.
    pub fn slice(&self, id: &SliceId) -> Option<SliceRef> {
        let place = match self {
            Self::Room(room) => room.place_of(id),
            Self::Platform(platform) => platform.slices().iter().position(|own| own.id == *id),
        };
        Some(self.slice_at(place?))
    }

    /// The slice that a user belongs to.
    pub fn slice_of(&self, user: &UserId) -> SliceRef {
        let place = match self {
            Self::Room(room) => room.place_of_user(user),
            Self::Platform(platform) => platform.place_of(user),
        };
        self.slice_at(place)
    }

    fn slice_at(&self, place: usize) -> SliceRef {
        SliceRef {
            owner: self.clone(),
            place,
        }
    }
}

impl Deref for SliceRef {
    type Target = Slice;

    fn deref(&self) -> &Slice {
        match &self.owner {
            Audience::Room(room) => &room.slices()[self.place],
            Audience::Platform(platform) => &platform.slices()[self.place],
        }
    }
}

impl SliceRef {
    pub fn owner(&self) -> &Audience {
        &self.owner
    }

    /// The room, if the owner is one.
    pub fn room(&self) -> Option<&Arc<Room>> {
        self.owner.room()
    }

    pub fn epoch(&self) -> Epoch {
        self.owner.epoch()
    }

    /// Notes that the flusher begins a turn of the slice.
    pub fn turn_begins(&self) {
        self.in_room(|room| room.sign_ins.turn_begins(self.place));
    }

    /// Holds the size back, which a call answered, if the live's counts must not show it yet.
    pub fn hold_back(&self, size: SliceSize) -> bool {
        self.in_room(|room| room.sign_ins.hold_back(self.place, size))
    }

    /// Notes that the turn is over. Returns the slices whose sizes were held back until now.
    pub fn turn_ends(&self) -> Vec<(Self, SliceSize)> {
        let sizes = self.in_room(|room| room.sign_ins.turn_ends(self.place));
        sizes
            .into_iter()
            .map(|(place, size)| (self.owner.slice_at(place), size))
            .collect()
    }

    /// Whether the epoch is over. The platform's never is.
    pub fn has_ended(&self) -> bool {
        self.in_room(|room| room.end().is_some())
    }

    /// When the store last confirmed that the epoch is open.
    pub fn confirmed_open_at(&self) -> Moment {
        match &self.owner {
            Audience::Room(room) => room.schedule.confirmed_open_at(),
            Audience::Platform(_) => Moment::NEVER,
        }
    }

    /// The most users that one call may change.
    pub fn most_users_a_call(&self) -> usize {
        match &self.owner {
            Audience::Room(room) if room.seats.keeps_sessions() => SESSIONS_A_CALL,
            Audience::Room(_) | Audience::Platform(_) => MAX_BATCH,
        }
    }

    /// Whether the flusher has something to do.
    pub fn is_dirty(&self) -> bool {
        match &self.owner {
            Audience::Room(room) => room.is_dirty(self.place),
            Audience::Platform(platform) => platform.is_dirty(self.place),
        }
    }

    /// The users who are here, or of whom the store is yet to be told.
    pub fn users(&self) -> Vec<UserId> {
        let mut users = self.lock().desired().users();
        users.extend(self.in_platform(|platform| platform.seen(self.place)));
        users
    }

    // ------------------------------------------------------------------- for a call and its answer

    /// When each of these users came, for a live; empty for the platform.
    pub fn since<'a>(
        &self,
        users: impl Iterator<Item = &'a UserId>,
        now: UnixMillis,
    ) -> Vec<UnixMillis> {
        self.in_room(|room| room.seats.since(self.place, users, now))
    }

    /// The part of a call about the lives of users of the platform.
    pub fn telling(&self, draft: &Draft) -> Telling {
        self.in_platform(|platform| platform.telling(self.place, &draft.joins, &draft.leaves))
    }

    /// Takes back the part of a call that failed.
    pub fn not_told(&self, telling: Telling) {
        self.in_platform(|platform| platform.not_told(self.place, telling));
    }

    /// When each of these users was last here, or `None` for a user if this gateway does not know;
    /// `None` for a live without sessions.
    pub fn left(&self, users: &[UserId]) -> Option<Vec<Option<Moment>>> {
        match &self.owner {
            Audience::Room(room) => room.seats.left(self.place, users),
            Audience::Platform(platform) => Some(platform.left(self.place, users)),
        }
    }

    /// Notes that the store knows that these users left, and the times from [`Self::left`].
    pub fn note_left_told(&self, users: &[UserId], left: Option<&[Option<Moment>]>) {
        match &self.owner {
            Audience::Room(room) => room.seats.note_left_told(self.place, users),
            Audience::Platform(platform) => {
                platform.note_left_told(self.place, users, left.unwrap_or_default());
            }
        }
    }

    /// Notes the size, which the store told this gateway or a peer. True if more than the version
    /// changed.
    pub(super) fn note_size(&self, size: SliceSize, now: Moment) -> bool {
        match &self.owner {
            Audience::Room(room) => room.note_size(self.place, size, now),
            Audience::Platform(platform) => platform.note_size(self.place, size, now),
        }
    }

    /// Wakes the newcomers of a room who wait for an answer of the store.
    pub(super) fn store_answered(&self) {
        self.in_room(|room| room.pushed.store_answered(self.place));
    }

    // -------------------------------------------- as the room does; the platform has no such users

    pub fn due_in_turn(&self) -> usize {
        self.in_room(|room| room.seats.due_in_turn(self.place))
    }

    pub fn unchecked(&self) -> usize {
        self.in_room(|room| room.seats.lock(self.place).unchecked())
    }

    pub fn take_unchecked(&self) -> Vec<UserId> {
        self.in_room(|room| room.seats.take_unchecked(self.place))
    }

    pub fn return_unchecked(&self, users: &[UserId]) {
        self.in_room(|room| room.seats.lock(self.place).return_unchecked(users));
    }

    pub fn queue_ask(&self) -> bool {
        self.in_room(|room| room.seats.queue_ask(self.place))
    }

    pub fn take_for_asking(&self, most: usize) -> Vec<UserId> {
        self.in_room(|room| room.seats.lock(self.place).take_for_asking(most))
    }

    pub fn fans_answered(&self, users: &[UserId], answers: &FanAnswers, now: Moment) -> bool {
        self.in_room(|room| room.fans_answered(self.place, users, answers, now))
    }

    pub fn expire_checks(&self, then: Moment, together: Moment) -> Option<ExpiredFans> {
        self.in_room(|room| room.expire_checks(self.place, then, together))
    }

    pub fn renew_checks(&self, expired: &ExpiredFans, answers: Option<FanAnswers>, now: Moment) {
        self.in_room(|room| room.renew_checks(self.place, expired, answers, now));
    }

    /// The number of fans whose attendance the store does not have yet.
    pub fn unrecorded(&self) -> usize {
        self.in_room(|room| room.seats.unrecorded.waiting(self.place))
    }

    /// Queues fans whose attendance the store does not have yet.
    pub fn add_unrecorded(&self, fans: &[UserId]) {
        self.in_room(|room| room.seats.unrecorded.add(self.place, fans));
    }

    /// Takes some of these fans.
    pub fn take_unrecorded(&self) -> Vec<UserId> {
        self.in_room(|room| room.seats.unrecorded.take(self.place))
    }

    // ---------------------------------------------- as the platform does; a room has no such users

    pub fn take_seen(&self) -> Vec<(UserId, Moment)> {
        self.in_platform(|platform| platform.take_seen(self.place))
    }

    pub fn note_seen(&self, seen: Vec<(UserId, Moment)>) {
        self.in_platform(|platform| platform.note_seen(self.place, seen));
    }

    pub fn take_anybody_moved(&self) -> bool {
        self.in_platform(|platform| platform.take_anybody_moved(self.place))
    }

    pub fn forget_moves(&self) {
        self.in_platform(|platform| platform.forget_moves(self.place));
    }

    /// What the room answers; nothing if the owner is no room.
    fn in_room<T: Default>(&self, ask: impl FnOnce(&Room) -> T) -> T {
        match &self.owner {
            Audience::Room(room) => ask(room),
            Audience::Platform(_) => T::default(),
        }
    }

    /// What the set of the platform answers; nothing if the owner is no such set.
    fn in_platform<T: Default>(&self, ask: impl FnOnce(&Platform) -> T) -> T {
        match &self.owner {
            Audience::Room(_) => T::default(),
            Audience::Platform(platform) => ask(platform),
        }
    }
}
