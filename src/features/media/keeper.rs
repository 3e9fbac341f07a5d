//! Lets lives follow the streams of media servers. A message of a server is taken in by any
//! gateway: it reads what is known of the live's streams, decides ([`Streams::hear`]), opens the
//! live if a stream begins, and writes the next state unless another gateway wrote meanwhile. All
//! that a gateway needs to go on after another one died is in the store.
//!
//! `grace` closes the lives whose stream did not come back.

mod ending;
pub mod grace;
#[cfg(test)]
mod tests;
mod unheard;

use crate::features::media::store::MediaStore;
use crate::features::media::store::OpenEpoch;
use crate::peers::core::Core;
use std::sync::Arc;

pub use self::ending::{EndedStream, LiveOf};
use self::unheard::Unheard;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, LiveId, StreamId};
use crate::base::media_event::StreamNews;
use crate::features::media::store::{
    ENDED_STREAMS_TTL, Heard, HoldingSession, KnownStreams, Step, StreamPublisher, Streams,
    StreamsReply, WriteStreams,
};
use crate::features::media::watched_streams::WatchedStreams;
use crate::store::{CloseReason, LiveRecord, OpenedBy, StoreError, StoreResult, Terms};
use crate::sync::events::announce_or_leave;
use crate::sync::lives::{LiveError, Lives, OpenRequest};

/// How often a gateway reads again because others wrote meanwhile. The sessions of one live are
/// few, so this ends long before.
const MOST_ROUNDS: usize = 20;

pub struct StreamKeeper {
    core: Arc<Core>,
    store: Arc<dyn MediaStore>,
    lives: Arc<Lives>,
    watched: Arc<WatchedStreams>,
    /// Ends that could not be written yet.
    unheard: Unheard,
}

/// What a message did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenIn {
    /// A session publishes from now on.
    Began,
    /// A session goes on.
    Alive,
    /// A session ended, or may have.
    Ended,
    /// An end that could not be written, and will be.
    Kept,
    /// Somebody asked and may publish.
    Allowed,
    /// Nothing: the message was a double, late, or about nobody who publishes.
    Ignored,
    /// A session would begin, and the caller did not say who may publish.
    NeedsPublisher,
}

impl TakenIn {
    /// The label in the metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Alive => "alive",
            Self::Ended => "ended",
            Self::Kept => "kept",
            Self::Allowed => "allowed",
            Self::Ignored | Self::NeedsPublisher => "ignored",
        }
    }
}

/// What a gateway read before it decided.
struct ReadStreams {
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
    pub fn new(
        core: Arc<Core>,
        store: Arc<dyn MediaStore>,
        lives: Arc<Lives>,
        watched: Arc<WatchedStreams>,
    ) -> Self {
        Self {
            core,
            store,
            lives,
            watched,
            unheard: Unheard::default(),
        }
    }

    /// Takes in the end of a session. Most servers say it once, so an end that the store does not
    /// take is kept in memory and taken in later.
    ///
    /// # Errors
    /// The store failed, and too many ends are kept.
    pub async fn hear_end(&self, ending: EndedStream) -> Result<TakenIn, LiveError> {
        match self.try_hear_end(&ending).await {
            Err(LiveError::Store(_)) if self.unheard.keep(ending) => Ok(TakenIn::Kept),
            taken_in => taken_in,
        }
    }

    /// Takes in the end of a session in a moment.
    pub fn hear_end_later(&self, ending: EndedStream) {
        if !self.unheard.keep(ending) {
            tracing::warn!("too many ends of streams wait for the store; one is lost");
        }
    }

    async fn try_hear_end(&self, ending: &EndedStream) -> Result<TakenIn, LiveError> {
        let heard = &ending.heard;
        let live = match &ending.live {
            LiveOf::Id(live) => live.clone(),
            LiveOf::Noted(digest) => match self.store.find_publishing(digest).await? {
                Some(noted) => noted.live,
                None => return Ok(TakenIn::Ignored),
            },
        };
        let taken_in = self.hear_at(&live, heard, None, ending.heard_at).await?;
        if taken_in == TakenIn::Ended {
            tracing::info!(server = %heard.server, live_id = %live, "a stream ended");
        }
        if let LiveOf::Noted(digest) = &ending.live {
            // From now on only doubles ask for the live.
            self.store
                .note_publishing(digest, &live.into(), ENDED_STREAMS_TTL)
                .await?;
        }
        Ok(taken_in)
    }

    /// Takes in a message about a stream of a live. `publisher` is who may publish, if the caller
    /// knows that somebody may.
    ///
    /// # Errors
    /// The live belongs to another streamer, or the store failed.
    pub async fn hear(
        &self,
        live: &LiveId,
        heard: &Heard,
        publisher: Option<&StreamPublisher>,
    ) -> Result<TakenIn, LiveError> {
        self.hear_at(live, heard, publisher, self.core.clock.unix())
            .await
    }

    async fn hear_at(
        &self,
        live: &LiveId,
        heard: &Heard,
        publisher: Option<&StreamPublisher>,
        now: UnixMillis,
    ) -> Result<TakenIn, LiveError> {
        for _ in 0..MOST_ROUNDS {
            let read = self.read(live).await?;
            let open = read.record.as_ref().and_then(OpenEpoch::of);
            let mut by_host = false;
            if let (Some(record), Some(publisher)) = (&read.record, publisher) {
                by_host = self.is_of_host(record, publisher)?;
                if by_host && open.is_none() {
                    return Err(LiveError::NotOpen(live.clone()));
                }
                if !by_host && open.is_some() && record.streamer != publisher.streamer {
                    return Err(LiveError::Owned(live.clone()));
                }
            }
            let decided = match read.known.streams.hear(heard, open, now) {
                Step::Nothing if heard.news == StreamNews::Request => {
                    return Ok(TakenIn::Allowed);
                }
                Step::Nothing => return Ok(TakenIn::Ignored),
                Step::Write(streams) => Decided {
                    epoch: streams.epoch(),
                    streams,
                    // A session whose live was closed meanwhile does not go on, nor begin anew.
                    must_be_open: matches!(heard.news, StreamNews::Alive | StreamNews::Unnamed),
                    taken_in: match heard.news {
                        StreamNews::Publish | StreamNews::Alive => TakenIn::Alive,
                        _ => TakenIn::Ended,
                    },
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
                    let epoch = match open {
                        // The stream of a host opens nothing.
                        Some(open) if by_host => open.epoch,
                        _ => self.open(live, publisher).await?,
                    };
                    Decided {
                        streams: read.known.streams.begin(heard, epoch, now),
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
        Err(too_many_writers().into())
    }

    /// Ends a session that publishes in an epoch of a live. `None` if there is none of this id.
    ///
    /// # Errors
    /// The store failed.
    pub async fn end_session(
        &self,
        live: &LiveId,
        epoch: Epoch,
        stream: &StreamId,
    ) -> StoreResult<Option<HoldingSession>> {
        for _ in 0..MOST_ROUNDS {
            let known = self.store.load_streams(live).await?;
            let holding = known.streams.holding(epoch);
            let Some(ended) = holding.into_iter().find(|held| held.stream == *stream) else {
                return Ok(None);
            };
            let decided = Decided {
                streams: known.streams.dismiss(stream, self.core.clock.unix()),
                epoch,
                must_be_open: true,
                taken_in: TakenIn::Ended,
            };
            if self.write(live, &known, &decided).await? {
                return Ok(Some(ended));
            }
        }
        Err(too_many_writers())
    }

    /// Whether a host of the live publishes, open or not.
    ///
    /// # Errors
    /// The host is banned since.
    fn is_of_host(
        &self,
        record: &LiveRecord,
        publisher: &StreamPublisher,
    ) -> Result<bool, LiveError> {
        let host = &publisher.streamer;
        if !record.terms.hosts.contains(host) {
            return Ok(false);
        }
        let now = self.core.clock.now();
        match self.core.rules.ban_of_host(&record.streamer, host, now) {
            Some(ban) => Err(LiveError::Banned(ban)),
            None => Ok(true),
        }
    }

    async fn read(&self, live: &LiveId) -> StoreResult<ReadStreams> {
        let (known, record) =
            tokio::try_join!(self.store.load_streams(live), self.store.load_live(live))?;
        Ok(ReadStreams { known, record })
    }

    async fn open(&self, live: &LiveId, publisher: &StreamPublisher) -> Result<Epoch, LiveError> {
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
        let message = change
            .is_some()
            .then(|| self.core.to_peers.record_changed());
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
            self.watched
                .note(&record, streams.signs(), self.core.clock.now());
            if request.change.is_some() {
                announce_or_leave(self.store.as_ref(), &record, self.core.config.events_kept).await;
            }
        }
        Ok(true)
    }
}

fn too_many_writers() -> StoreError {
    StoreError::Lost("too many gateways write about the streams of one live".to_owned())
}
