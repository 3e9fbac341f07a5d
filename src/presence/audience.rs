//! The owner of slices: the room of a live, or a set of the platform. A [`super::SliceRef`] is one
//! of its slices. Never awaits.

use std::sync::Arc;

use super::platform::Platform;
use super::room::Room;
use crate::base::ids::{Epoch, PLATFORM_EPOCH};

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

impl From<&Arc<Platform>> for Audience {
    fn from(platform: &Arc<Platform>) -> Self {
        Self::Platform(platform.clone())
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

    pub fn epoch(&self) -> Epoch {
        match self {
            Self::Room(room) => room.record.epoch,
            Self::Platform(_) => PLATFORM_EPOCH,
        }
    }
}
