//! The owner of slices: the room of a live, or a set of the platform. The flusher, the checker and
//! the passer treat both alike; this file holds the differences. Never awaits.

use std::sync::Arc;

use super::desired_state::Draft;
use super::platform::{Platform, Telling};
use super::room::Room;
use super::slice::Slice;
use crate::base::clock::{Millis, UnixMillis};
use crate::base::ids::{Epoch, PLATFORM_EPOCH, SliceId, UserId};
use crate::store::{MAX_BATCH, SESSIONS_A_CALL};

/// The owner of slices.
#[derive(Debug, Clone)]
pub enum Audience {
    Room(Arc<Room>),
    Platform(Arc<Platform>),
}

impl From<&Arc<Room>> for Audience {
    fn from(room: &Arc<Room>) -> Self {
        Self::Room(room.clone())
    }
}

impl From<&Audience> for Audience {
    fn from(audience: &Audience) -> Self {
        audience.clone()
    }
}

impl Audience {
    /// The room, if the audience is one.
    pub fn room(&self) -> Option<&Arc<Room>> {
        match self {
            Self::Room(room) => Some(room),
            Self::Platform(_) => None,
        }
    }

    pub fn slices(&self) -> &[Slice] {
        match self {
            Self::Room(room) => room.slices(),
            Self::Platform(platform) => platform.slices(),
        }
    }

    /// The place of a slice in [`Self::slices`]; `None` if it is not among them.
    pub fn place_of(&self, slice: &SliceId) -> Option<usize> {
        match self {
            Self::Room(room) => room.place_of(slice),
            Self::Platform(platform) => platform.slices().iter().position(|own| own.id == *slice),
        }
    }

    /// The users of the slice at this place who are here, or of whom the store is yet to be told.
    pub fn users(&self, place: usize) -> Vec<UserId> {
        let mut users = self.slices()[place].lock().desired().users();
        if let Self::Platform(platform) = self {
            users.extend(platform.seen(place));
        }
        users
    }

    pub fn epoch(&self) -> Epoch {
        match self {
            Self::Room(room) => room.record.epoch,
            Self::Platform(_) => PLATFORM_EPOCH,
        }
    }

    /// Whether the epoch is over. The platform's never is.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Room(room) => room.end().is_some(),
            Self::Platform(_) => false,
        }
    }

    /// When the store last confirmed that the epoch is open.
    pub fn confirmed_open_at(&self) -> Millis {
        match self {
            Self::Room(room) => room.confirmed_open_at(),
            Self::Platform(_) => Millis::MAX,
        }
    }

    /// The most users that one call may change.
    pub fn most_users_a_call(&self) -> usize {
        match self {
            Self::Room(room) if room.keeps_sessions() => SESSIONS_A_CALL,
            Self::Room(_) | Self::Platform(_) => MAX_BATCH,
        }
    }

    /// Whether the flusher has something to do for the slice at this place.
    pub fn is_dirty(&self, place: usize) -> bool {
        match self {
            Self::Room(room) => room.is_dirty(place),
            Self::Platform(platform) => platform.is_dirty(place),
        }
    }

    /// When each of these users came to the slice at this place, for a live; empty for the
    /// platform.
    pub fn since<'a>(
        &self,
        place: usize,
        users: impl Iterator<Item = &'a UserId>,
        now: UnixMillis,
    ) -> Vec<UnixMillis> {
        match self {
            Self::Room(room) => room.since(place, users, now),
            Self::Platform(_) => Vec::new(),
        }
    }

    /// The part of a call on the slice at this place about the lives of users of the platform.
    pub fn telling(&self, place: usize, draft: &Draft) -> Telling {
        match self {
            Self::Room(_) => Telling::default(),
            Self::Platform(platform) => platform.telling(place, &draft.joins, &draft.leaves),
        }
    }

    /// Takes back the part of a call that failed.
    pub fn not_told(&self, place: usize, telling: Telling) {
        if let Self::Platform(platform) = self {
            platform.not_told(place, telling);
        }
    }

    /// When each of these users was last here, or `None` for a user if this gateway does not know;
    /// `None` for a live without sessions.
    pub fn left(&self, place: usize, users: &[UserId]) -> Option<Vec<Option<Millis>>> {
        match self {
            Self::Room(room) => room.left(place, users),
            Self::Platform(platform) => Some(platform.left(place, users)),
        }
    }

    /// Notes that the store knows that these users left, and the times from [`Self::left`].
    pub fn note_left_told(&self, place: usize, users: &[UserId], left: Option<&[Option<Millis>]>) {
        match self {
            Self::Room(room) => room.note_left_told(place, users),
            Self::Platform(platform) => {
                platform.note_left_told(place, users, left.unwrap_or_default())
            }
        }
    }
}
