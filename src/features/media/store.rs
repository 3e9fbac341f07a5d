//! The boundary for the streams of lives. `state` decides what a message of a media server means,
//! and the store keeps the result beside the record of the live, whether the live is open or not.
//!
//! Any gateway may hear a message. It reads the state, decides, and writes the next state only if
//! no other gateway wrote meanwhile; otherwise it begins again. The same step notes the stream in
//! the record of the open epoch.

mod state;
/// The calls of the core, and those about streams.
pub trait MediaStore: Store + StreamStore {}

impl<T: Store + StreamStore + ?Sized> MediaStore for T {}

#[cfg(test)]
mod tests;

use crate::store::Store;
use crate::store::StreamChange;
use crate::store::calls::calls;
use std::time::Duration;

use crate::base::ids::{Epoch, LiveId, UserId};
use crate::base::media_server::MediaServerName;
use crate::store::{LiveRecord, StoreResult};
pub use {
    state::Heard, state::HoldingSession, state::OpenEpoch, state::Step, state::Streams,
    state::StreamsEnd,
};

/// How long the state of streams outlives its last write while one is on air, and how long it is
/// known to which live a session publishes: longer than any stream lasts, because a server without
/// heartbeats says nothing between the beginning and the end.
pub const STREAMS_TTL: Duration = Duration::from_secs(366 * 24 * 3600);

/// How long the state outlives its last write if no live waits for a stream: doubles come no later.
pub const ENDED_STREAMS_TTL: Duration = Duration::from_secs(24 * 3600);

/// The same if no session ever published, and one only ended. Servers end those that they refuse,
/// so anybody who can reach a server can make it say so of any name. The beginning of such a
/// session, if there was one, arrives within minutes.
pub const STRAY_STREAMS_TTL: Duration = Duration::from_secs(10 * 60);

/// The state of the streams of a live, as the store has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownStreams {
    /// Grows with each write, and is at least the store's time of the write in Unix milliseconds,
    /// so that no version is used again, whatever the store loses; 0 if the store has none.
    pub version: u64,
    /// The state.
    pub streams: Streams,
}

/// A request to write the state of the streams of a live.
#[derive(Debug, Clone)]
pub struct WriteStreams {
    /// The live.
    pub live: LiveId,
    /// The version that the caller read. If the store has another one, nothing is written.
    pub seen: u64,
    /// The next state.
    pub streams: Streams,
    /// The epoch whose record notes the status, if it is open.
    pub epoch: Epoch,
    /// Whether nothing is written unless the epoch is open.
    pub must_be_open: bool,
    /// An event for the record to note, if the epoch is open.
    pub change: Option<(StreamChange, MediaServerName)>,
    /// Published on the live's channel in the same step; `None` if nothing changes for others.
    pub message: Option<String>,
}

impl WriteStreams {
    /// How long the store keeps the state.
    pub(crate) fn lifetime(&self) -> Duration {
        if self.streams.is_awaited() {
            STREAMS_TTL
        } else if self.streams.epoch() == Epoch(0) {
            STRAY_STREAMS_TTL
        } else {
            ENDED_STREAMS_TTL
        }
    }
}

/// The outcome of a [`WriteStreams`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamsReply {
    /// It is written. The record as it is now, if there is one.
    Written(Option<Box<LiveRecord>>),
    /// Another gateway wrote meanwhile: read and decide again.
    Changed,
    /// The epoch is not open, and had to be.
    Over,
}

/// Who may publish to a live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPublisher {
    /// The owner of the live.
    pub streamer: UserId,
    /// Whether the streamer hides, so that no feed shows the live.
    pub invisible: bool,
}

/// Where a session of a media server publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publishing {
    /// The live.
    pub live: LiveId,
    /// Who it is, if the session was granted and has not begun yet.
    pub publisher: Option<StreamPublisher>,
}

impl From<LiveId> for Publishing {
    fn from(live: LiveId) -> Self {
        Self {
            live,
            publisher: None,
        }
    }
}

impl Publishing {
    /// The form in stores that keep texts.
    pub fn to_text(&self) -> String {
        match &self.publisher {
            None => self.live.to_string(),
            Some(StreamPublisher {
                streamer,
                invisible: false,
            }) => format!("{} {streamer}", self.live),
            Some(StreamPublisher { streamer, .. }) => format!("{} {streamer} invisible", self.live),
        }
    }

    /// Reads the text; `None` if it is of another program.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let live = LiveId::parse(words.next()?).ok()?;
        let publisher = match words.next() {
            None => None,
            Some(streamer) => Some(StreamPublisher {
                streamer: UserId::parse(streamer).ok()?,
                invisible: words.next().is_some(),
            }),
        };
        Some(Self { live, publisher })
    }
}

calls! {
    /// What media servers told of the streams of lives.
    pub trait StreamStore {
        /// The state of a live's streams; the default if the store has none.
        async fn load_streams(&self, live: &LiveId) -> StoreResult<KnownStreams>, reads at Live(live);

        /// Writes the state of a live's streams, see [`WriteStreams`].
        async fn write_streams(&self, request: &WriteStreams) -> StoreResult<StreamsReply>,
            writes at Live(&request.live);

        /// Notes where a session publishes with a stream key, or may publish, for `lifetime`. `digest`
        /// stands for the server, the session and the stream, whose name may be a key that no store ever
        /// sees.
        async fn note_publishing(
            &self,
            digest: &str,
            publishing: &Publishing,
            lifetime: Duration,
        ) -> StoreResult<()>, writes;

        /// Where a session publishes, by its digest; `None` if nothing was noted.
        async fn find_publishing(&self, digest: &str) -> StoreResult<Option<Publishing>>, reads;
    }
}
