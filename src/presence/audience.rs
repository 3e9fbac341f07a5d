//! What slices belong to: the room of a live, or a set of the platform. The flusher, the checker
//! and the sweeper treat both alike, and ask here where they differ. Never awaits.

use std::sync::Arc;

use super::desired_state::{CallLimit, Draft};
use super::platform::{Platform, Telling};
use super::room::Room;
use super::slice::{ReadSize, Slice};
use crate::base::clock::{Millis, UnixMillis};
use crate::base::ids::{Epoch, PLATFORM_EPOCH, SliceId, UserId};
use crate::store::{MAX_BATCH, SESSIONS_A_CALL};

/// Whose slices they are.
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
    /// The room, if it is one.
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

    /// The place of a slice in [`Self::slices`]; `None` if it is none of them.
    pub fn place_of(&self, slice: &SliceId) -> Option<usize> {
        match self {
            Self::Room(room) => room.place_of(slice),
            Self::Platform(platform) => platform.slices().iter().position(|own| own.id == *slice),
        }
    }

    pub fn epoch(&self) -> Epoch {
        match self {
            Self::Room(room) => room.record.epoch,
            Self::Platform(_) => PLATFORM_EPOCH,
        }
    }

    /// Whether the epoch is over. The platform's never is.
    pub fn has_ended(&self) -> bool {
        self.room().is_some_and(|room| room.end().is_some())
    }

    /// When the store last confirmed that the epoch is open.
    pub fn confirmed_open_at(&self) -> Millis {
        self.room()
            .map_or(Millis::MAX, |room| room.confirmed_open_at())
    }

    /// How many users of a slice one call may change, if it may remove so many.
    pub fn call_limit(&self, leaves: usize) -> CallLimit {
        let keeps_sessions = self.room().is_some_and(|room| room.keeps_sessions());
        CallLimit {
            users: if keeps_sessions {
                SESSIONS_A_CALL
            } else {
                MAX_BATCH
            },
            leaves,
        }
    }

    /// Whether the flusher has something to do for the slice at this place.
    pub fn is_dirty(&self, place: usize) -> bool {
        match self {
            Self::Room(room) => room.is_dirty(place),
            Self::Platform(platform) => platform.is_dirty(place),
        }
    }

    /// Since when these users are in the slice at this place, of a live; empty for the others.
    pub fn since<'a>(
        &self,
        place: usize,
        users: impl Iterator<Item = &'a UserId>,
        now: UnixMillis,
    ) -> Vec<UnixMillis> {
        self.room()
            .map(|room| room.since(place, users, now))
            .unwrap_or_default()
    }

    /// What a call about the slice at this place tells of the lives in which users of the platform
    /// are.
    pub fn telling(&self, place: usize, draft: &Draft) -> Telling {
        match self {
            Self::Room(_) => Telling::default(),
            Self::Platform(platform) => platform.telling(place, &draft.joins, &draft.leaves),
        }
    }

    /// Takes back what a call should have told.
    pub fn not_told(&self, place: usize, telling: Telling) {
        if let Self::Platform(platform) = self {
            platform.not_told(place, telling);
        }
    }

    /// When these users were here last, for a set whose members' ends are noted; `None` for the
    /// others, and for a user of whom it is not known.
    pub fn left(&self, place: usize, users: &[UserId]) -> Option<Vec<Option<Millis>>> {
        match self {
            Self::Room(room) => room.left(place, users),
            Self::Platform(platform) => Some(platform.left(place, users)),
        }
    }

    /// Notes that the store knows of these users that they left, and what [`Self::left`] said of
    /// them.
    pub fn note_left_told(&self, place: usize, users: &[UserId], left: Option<&[Option<Millis>]>) {
        match self {
            Self::Room(room) => room.note_left_told(place, users),
            Self::Platform(platform) => {
                platform.note_left_told(place, users, left.unwrap_or_default())
            }
        }
    }

    /// Takes in what a check read of a slice that expected version `expected`. True if figures
    /// changed that are shown.
    pub fn note_reading(&self, place: usize, read: ReadSize) -> bool {
        match self {
            Self::Room(room) => room.note_reading(place, read),
            Self::Platform(platform) => {
                platform.note_reading(place, read);
                false
            }
        }
    }
}
