//! Lets lives follow the streams of media servers. A message of a server is taken in by any
//! gateway: it reads what is known of the live's streams, decides ([`Streams::hear`]), opens the
//! live if a stream begins, and writes the next state unless another gateway wrote meanwhile. All
//! that a gateway needs to go on after another one died is in the store.
//!
//! `grace` closes the lives whose stream did not come back.

pub mod grace;
#[cfg(test)]
mod tests;
mod unheard;

use std::sync::Arc;

pub use self::unheard::Unheard;
use crate::base::clock::Clock;
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::peers::Outbox;
use crate::presence::Room;
use crate::presence::watched_streams::WatchedStreams;
use crate::store::{
    CloseReason, Heard, KnownStreams, LiveRecord, OpenedBy, Step, Store, StoreError, StoreResult,
    Streams, StreamsReply, Terms, WriteStreams,
};
use crate::sync::events::announce_or_leave;
use crate::sync::lives::{LiveError, Lives, OpenRequest};

/// How often a gateway reads again because others wrote meanwhile. The sessions of one live are
/// few, so this ends long before.
const MOST_ROUNDS: usize = 20;

pub struct StreamKeeper {
    pub store: Arc<dyn Store>,
    pub lives: Arc<Lives>,
    pub outbox: Arc<Outbox>,
    pub watched: Arc<WatchedStreams>,
    /// Ends that could not be written yet.
    pub unheard: Unheard,
    pub clock: Clock,
    /// About how many events the stream of events keeps.
    pub events_kept: u64,
}

/// Who may publish to a live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publisher {
    pub streamer: UserId,
    /// Whether the streamer hides, so that no feed shows the live.
    pub invisible: bool,
}

/// What a message did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenIn {
    /// A session publishes from now on.
    Began,
    /// A session went on, or ended.
    Noted,
    /// Nothing: the message was a double, late, or about nobody who publishes.
    Nothing,
    /// A session would begin, and the caller did not say who may publish.
    NeedsPublisher,
}

/// Why a message was not taken in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The live cannot be opened.
    #[error(transparent)]
    Live(#[from] LiveError),
    /// As many sessions publish to the live as may.
    #[error("too many sessions publish to this live")]
    Full,
}

impl From<StoreError> for StreamError {
    fn from(error: StoreError) -> Self {
        Self::Live(LiveError::Store(error))
    }
}

/// What a gateway read before it decided.
struct Read {
    known: KnownStreams,
    record: Option<LiveRecord>,
}

/// What a gateway decided to write.
struct Decided {
    streams: Streams,
    epoch: Epoch,
    must_be_open: bool,
    taken_in: TakenIn,
}

impl StreamKeeper {
    /// Takes in a message about a stream of a live. `publisher` is who may publish, if the caller
    /// knows that somebody may.
    ///
    /// # Errors
    /// The live belongs to another streamer, or the store failed.
    pub async fn hear(
        &self,
        live: &LiveId,
        heard: &Heard,
        publisher: Option<&Publisher>,
    ) -> Result<TakenIn, StreamError> {
        for _ in 0..MOST_ROUNDS {
            let read = self.read(live).await?;
            if let Some(record) = &read.record
                && let Some(publisher) = publisher
                && record.open_epoch().is_some()
                && record.streamer != publisher.streamer
            {
                return Err(LiveError::Owned(live.clone()).into());
            }
            let open = read.record.as_ref().and_then(LiveRecord::open_epoch);
            let decided = match read.known.streams.hear(heard, open, self.clock.unix()) {
                Step::Nothing => return Ok(TakenIn::Nothing),
                Step::Full => return Err(StreamError::Full),
                Step::Write(streams) => Decided {
                    epoch: streams.epoch(),
                    streams,
                    must_be_open: false,
                    taken_in: TakenIn::Noted,
                },
                Step::CloseFirst => {
                    if let Some(record) = &read.record {
                        self.close(record).await?;
                    }
                    continue;
                }
                Step::Begin => {
                    let Some(publisher) = publisher else {
                        return Ok(TakenIn::NeedsPublisher);
                    };
                    let epoch = self.open(live, publisher).await?;
                    Decided {
                        streams: read.known.streams.begin(heard, epoch, self.clock.unix()),
                        epoch,
                        must_be_open: true,
                        taken_in: TakenIn::Began,
                    }
                }
            };
            if self.write(live, &read.known, &decided).await? {
                return Ok(decided.taken_in);
            }
        }
        let why = "too many gateways write about the streams of one live".to_owned();
        Err(StoreError::Lost(why).into())
    }

    async fn read(&self, live: &LiveId) -> StoreResult<Read> {
        let (known, record) =
            tokio::try_join!(self.store.load_streams(live), self.store.load_live(live))?;
        Ok(Read { known, record })
    }

    async fn open(&self, live: &LiveId, publisher: &Publisher) -> Result<Epoch, LiveError> {
        let terms = Terms {
            invisible: publisher.invisible,
            ..Terms::default()
        };
        let request = OpenRequest {
            live: live.clone(),
            streamer: publisher.streamer.clone(),
            slices: None,
            by: OpenedBy::Media,
            terms,
        };
        Ok(self.lives.open(request).await?.record.epoch)
    }

    /// Closes the epoch of a record, whose stream is over.
    async fn close(&self, record: &LiveRecord) -> StoreResult<()> {
        self.lives
            .close_quietly(record, CloseReason::StreamEnded)
            .await
    }

    /// Writes what was decided. False if that has to be decided again.
    async fn write(
        &self,
        live: &LiveId,
        known: &KnownStreams,
        decided: &Decided,
    ) -> StoreResult<bool> {
        let streams = &decided.streams;
        let change = match streams.change_since(&known.streams, decided.epoch) {
            Some(change) => streams.last_server().map(|server| (change, server.clone())),
            None => None,
        };
        // Others need not hear of each heartbeat.
        let message = change.is_some().then(|| self.outbox.record_changed());
        let request = WriteStreams {
            live: live.clone(),
            seen: known.version,
            streams: streams.clone(),
            epoch: decided.epoch,
            must_be_open: decided.must_be_open,
            change,
            message,
        };
        let record = match self.store.write_streams(&request).await? {
            StreamsReply::Written(record) => record,
            StreamsReply::Changed | StreamsReply::Over => return Ok(false),
        };
        if let Some(record) = record {
            self.watched.note(&record, self.clock.now());
            if request.change.is_some() {
                announce_or_leave(self.store.as_ref(), &record, self.events_kept).await;
            }
        }
        Ok(true)
    }
}

/// Writes what is known of the streams of a live again, after the store lost its record.
pub async fn restore(store: &dyn Store, room: &Room, message: String) -> StoreResult<()> {
    let Some(remembered) = room.stream.state() else {
        return Ok(());
    };
    let live = &room.record.live;
    let known = store.load_streams(live).await?;
    // The store has nothing, or something older that came back from a backup.
    let newest = if known.version < remembered.version {
        remembered.streams
    } else {
        known.streams
    };
    let request = WriteStreams {
        live: live.clone(),
        seen: known.version,
        streams: newest,
        epoch: room.record.epoch,
        must_be_open: true,
        change: None,
        message: Some(message),
    };
    // If another gateway wrote meanwhile, it knew more.
    store.write_streams(&request).await?;
    Ok(())
}
