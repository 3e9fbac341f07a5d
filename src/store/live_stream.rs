//! The stream of a live, as its record and its events tell of it. What media servers said, and what
//! that means, is not known here.

use crate::base::clock::UnixMillis;
use crate::base::event_kind::EventKind;

/// The state of the stream, for people and for other services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamStatus {
    /// Whether a session publishes. If not, the last one ended a moment ago.
    pub is_on: bool,
    /// Since when, by the clock of the gateway that heard of it.
    pub since: UnixMillis,
    /// The last sign of the session that gave its last sign first, of those that have to give some.
    /// It stays as it is while that session is silent, whatever others do. 0 if none has to, so that
    /// their silence means nothing.
    pub beats: u64,
}

/// A change that an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamChange {
    /// A session publishes, and none did before.
    Started,
    /// No session publishes any more.
    Lost,
    /// None came back in time.
    Ended,
}

impl StreamChange {
    /// The kind of the event.
    pub fn kind(self) -> EventKind {
        match self {
            Self::Started => EventKind::StreamStarted,
            Self::Lost => EventKind::StreamLost,
            Self::Ended => EventKind::StreamEnded,
        }
    }
}
