//! What this gateway knows of the stream of a live, for the sockets in the room.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;

use crate::base::clock::{UnixMillis, millis};
use crate::store::StreamStatus;
use crate::store::{LiveRecord, OpenedBy};

/// Whether a stream is on air.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnAir {
    /// A media server has the stream.
    Live,
    /// No media server has it any more.
    Lost,
}

/// The stream of a live, as clients see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Stream)]
pub struct ShownStream {
    /// `live`, or `lost` if it ended a moment ago and may come back.
    #[schema(inline)]
    pub state: OnAir,
    /// When this state began, in Unix milliseconds.
    #[schema(value_type = u64, example = 1_732_000_000_000_u64)]
    pub began_at: UnixMillis,
    /// When the live closes if the stream stays lost, in Unix milliseconds; left out if it does not
    /// close.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false, example = 1_732_000_060_000_u64)]
    pub closes_at: Option<UnixMillis>,
}

impl ShownStream {
    /// `grace` is how long a live that a stream opened outlives it.
    pub fn of(record: &LiveRecord, status: StreamStatus, grace: Duration) -> Self {
        let closes = !status.is_on && record.opened_by == OpenedBy::Media;
        Self {
            state: if status.is_on {
                OnAir::Live
            } else {
                OnAir::Lost
            },
            began_at: status.since,
            closes_at: closes.then_some(status.since + millis(grace)),
        }
    }
}

/// What the feature that hears of streams remembers of one, to write it again if the store loses it.
/// Nothing here knows what it is.
pub type Remembered = Arc<dyn Any + Send + Sync>;

#[derive(Debug, Default)]
pub struct RoomStream(Mutex<KnownStream>);

#[derive(Debug, Default)]
struct KnownStream {
    /// The version of `remembered` in the store; 0 before the first.
    version: u64,
    remembered: Option<Remembered>,
    status: Option<StreamStatus>,
}

impl RoomStream {
    /// With the status that a record has, and nothing remembered.
    pub fn new(status: Option<StreamStatus>) -> Self {
        Self(Mutex::new(KnownStream {
            status,
            ..KnownStream::default()
        }))
    }

    pub fn status(&self) -> Option<StreamStatus> {
        self.0.lock().status
    }

    /// What was noted last.
    pub fn remembered(&self) -> Option<Remembered> {
        self.0.lock().remembered.clone()
    }

    /// Notes what the store has in this version, and its status in the epoch of the room. False if
    /// the room knew a version as high before, or clients see no difference.
    pub fn note(&self, version: u64, status: Option<StreamStatus>, remembered: Remembered) -> bool {
        let mut known = self.0.lock();
        if version <= known.version {
            return false;
        }
        let is_new = known.status.map(seen) != status.map(seen);
        *known = KnownStream {
            version,
            remembered: Some(remembered),
            status,
        };
        is_new
    }
}

/// What clients see of a status.
fn seen(status: StreamStatus) -> (bool, UnixMillis) {
    (status.is_on, status.since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(is_on: bool, since: UnixMillis, beats: u64) -> Option<StreamStatus> {
        Some(StreamStatus {
            is_on,
            since,
            beats,
        })
    }

    #[test]
    fn the_highest_version_wins_and_heartbeats_are_no_news() {
        let stream = RoomStream::new(status(true, 5, 0));
        let note = |version, status| stream.note(version, status, Arc::new(version));
        let remembered = || {
            let remembered = stream.remembered()?;
            remembered.downcast_ref::<u64>().copied()
        };
        assert_eq!(remembered(), None);
        assert!(!note(3, status(true, 5, 1)), "a heartbeat");
        assert!(!note(2, status(false, 9, 0)), "an older one");
        assert_eq!(stream.status(), status(true, 5, 1));
        assert!(note(4, status(false, 9, 0)));
        assert_eq!(remembered(), Some(4));
    }
}
