//! The boundary for lives: their records, and the list of the open ones. The types mirror the hash
//! `live:<live_id>`. The stores implement [`LiveStore`], and the life cycle in `sync::lives` calls
//! it.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use utoipa::ToSchema;

use super::calls::calls;
use super::{
    Arrived, Counted, Figures, Peaks, RecordEvents, StoreResult, StreamStatus, Sums, Uniques,
};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, LiveId, OnlineSet, SliceId, UserId};

/// The phase of a live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveState {
    /// Viewers may join.
    Open,
    /// A close has begun. Every gateway that sees this must finish it.
    Closing,
    /// The live is over; its record is kept for a while.
    Closed,
}

/// The role that opened a live; decides whether the streamer's silence closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenedBy {
    /// The streamer's own socket: silence for `streamer_timeout` closes the live.
    Streamer,
    /// A back end: only a back end (or the streamer, by asking) closes it.
    Service,
    /// A stream on a media server: the end of the stream closes the live after `stream-grace`.
    Media,
}

/// Why a live closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum CloseReason {
    /// The streamer or a back end asked.
    Requested,
    /// The streamer was not heard from.
    StreamerTimeout,
    /// A moderator ended it.
    Moderated,
    /// The stream that had opened it is over.
    StreamEnded,
}

macro_rules! words {
    ($type:ident { $($variant:ident = $word:literal),* $(,)? }) => {
        impl $type {
            /// Its name in keys and messages.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// Reads the name back.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)* _ => None }
            }
        }
    };
}
words!(LiveState { Open = "open", Closing = "closing", Closed = "closed" });
words!(OpenedBy { Streamer = "streamer", Service = "service", Media = "media" });
words!(CloseReason {
    Requested = "requested",
    StreamerTimeout = "streamer_timeout",
    Moderated = "moderated",
    StreamEnded = "stream_ended",
});

/// Maximum hosts of a live.
pub const MAX_HOSTS: usize = 12;

/// The properties, besides the owner, with which a live is opened. Its title, its streamer timeout
/// and its hosts may change, see [`LiveChange`]; the others are fixed for the epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Terms {
    /// For people.
    pub title: Option<String>,
    /// How long the streamer may be away before the live closes; zero: for ever. `None` leaves it
    /// to [`LiveRecord::streamer_timeout`].
    pub streamer_timeout: Option<Duration>,
    /// Whether the store records which fans come, and the sessions of each user. Such a live keeps
    /// all its viewers in slices, whatever the gateway's setting.
    pub attendance: bool,
    /// Whether no feed shows the live, because its streamer is invisible.
    pub invisible: bool,
    /// Who hosts the live beside its streamer, up to [`MAX_HOSTS`]: they watch it, moderate in it and
    /// keep it open, as its streamer does.
    pub hosts: Vec<UserId>,
}

/// Information about an open live that a back end wrote for its clients.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Info {
    /// The [`LiveRecord::version`] with which it was written; 0 if it never was.
    pub version: u64,
    /// The JSON text; `None` if it was cleared.
    pub json: Option<Arc<str>>,
}

/// The end of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closure {
    /// Why it closed.
    pub reason: CloseReason,
    /// When the close began, by the store's clock.
    pub at: UnixMillis,
}

/// The record of a live: the hash `live:<live_id>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveRecord {
    /// The live.
    pub live: LiveId,
    /// Open, closing or closed.
    pub state: LiveState,
    /// The owner.
    pub streamer: UserId,
    /// Which opening this is.
    pub epoch: Epoch,
    /// The number of slices over which its viewers are spread; fixed for the epoch.
    pub slices: u32,
    /// When it opened, by the store's clock.
    pub opened_at: UnixMillis,
    /// The role that opens or opened it.
    pub opened_by: OpenedBy,
    /// Highest counts so far.
    pub peaks: Peaks,
    /// Present once a close has begun.
    pub closure: Option<Closure>,
    /// The number of the last removal, or lifting of a ban, of the epoch; 0 if there was none. See
    /// [`super::Moderation`].
    pub removals: u64,
    /// Grows with each change that a back end makes in the epoch, see [`LiveChange`]; 0 if there was
    /// none. At least the store's time of the change in Unix milliseconds, so that no version is
    /// used again, whatever the store loses.
    pub version: u64,
    /// The properties with which it was opened, and those that were changed since.
    pub terms: Terms,
    /// Information by a back end. A close removes this, `version` and `counted`.
    pub info: Info,
    /// The counts that other services read, see [`super::Counts`].
    pub counted: Option<Counted>,
    /// The sums of the epoch.
    pub sums: Sums,
    /// The events of the epoch that are not in the stream yet.
    pub events: RecordEvents,
    /// The stream that a media server has of it; `None` if no server told of one.
    pub stream: Option<StreamStatus>,
}

impl LiveRecord {
    /// Every slice of the live.
    pub fn all_slices(&self) -> impl Iterator<Item = SliceId> + use<> {
        slices_of(self.slices, &self.live)
    }

    /// This opening of the live.
    pub fn live_epoch(&self) -> LiveEpoch {
        LiveEpoch {
            live: self.live.clone(),
            epoch: self.epoch,
        }
    }

    /// Those who keep the live open while they are there.
    pub fn streamer_and_hosts(&self) -> impl Iterator<Item = &UserId> {
        std::iter::once(&self.streamer).chain(&self.terms.hosts)
    }

    /// Whether this is the record of the epoch, and the epoch is open.
    pub(crate) fn is_open_in(&self, epoch: Epoch) -> bool {
        self.state == LiveState::Open && self.epoch == epoch
    }

    /// The figures that other services read; zeros if none were written.
    pub(crate) fn figures(&self) -> Figures {
        match self.counted {
            Some(counted) => counted.figures,
            None => Figures::default(),
        }
    }

    /// How long the epoch lasted, once a close has begun.
    pub fn duration_ms(&self) -> Option<u64> {
        self.closure.map(|c| c.at.saturating_sub(self.opened_at))
    }

    /// How long the streamer may be away before the live closes; `None`: for ever. `usual` is the
    /// time for lives that their streamers open.
    pub fn streamer_timeout(&self, usual: Option<Duration>) -> Option<Duration> {
        match (self.terms.streamer_timeout, self.opened_by) {
            (Some(own), _) if own.is_zero() => None,
            (Some(own), _) => Some(own),
            (None, OpenedBy::Streamer) => usual,
            (None, OpenedBy::Service | OpenedBy::Media) => None,
        }
    }
}

/// A request to open a live.
#[derive(Debug, Clone)]
pub struct OpenLive {
    /// The live.
    pub live: LiveId,
    /// The owner.
    pub streamer: UserId,
    /// Slices of the new epoch, 1 to [`crate::base::ids::MAX_SLICES`]; ignored when the live is
    /// open already.
    pub slices: u32,
    /// The role that opens or opened it.
    pub by: OpenedBy,
    /// Ignored, like `slices`, when the live is open already.
    pub terms: Terms,
    /// Published on the live's channel in the same step, if a new epoch begins.
    pub message: String,
}

impl OpenLive {
    /// Every slice of the new epoch.
    pub fn all_slices(&self) -> impl Iterator<Item = SliceId> + use<> {
        slices_of(self.slices, &self.live)
    }
}

fn slices_of(slices: u32, live: &LiveId) -> impl Iterator<Item = SliceId> + use<> {
    SliceId::all(OnlineSet::Live(live.clone()), slices)
}

/// The outcome of an [`OpenLive`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenReply {
    /// A new epoch began.
    Opened(LiveRecord),
    /// The same streamer's live was open already.
    AlreadyOpen(LiveRecord),
    /// Another streamer's live is open (or closing) under this id.
    Owned(LiveRecord),
    /// The last epoch's close is under way: finish it, then try again.
    Closing(LiveRecord),
    /// Another call opened or closed the live at the same moment: try again.
    Changed,
}

/// A request to begin closing a live.
#[derive(Debug, Clone)]
pub struct CloseLive {
    /// The live.
    pub live: LiveId,
    /// Which epoch; no other is touched, however late the call arrives.
    pub epoch: Epoch,
    /// Why it closed.
    pub reason: CloseReason,
    /// Highest counts that this gateway saw; they replace lower ones in the record.
    pub peaks: Peaks,
    /// Whether different users were counted.
    pub uniques: bool,
    /// Published on the live's channel in the same step.
    pub message: String,
}

/// A request to end a close whose slices are closed.
#[derive(Debug, Clone)]
pub struct FinishClose {
    /// The live.
    pub live: LiveId,
    /// Which epoch; no other is touched.
    pub epoch: Epoch,
    /// How many came and left.
    pub arrived: Arrived,
    /// How many different users came; `None` if they were not counted.
    pub uniques: Option<Uniques>,
    /// How long the record stays.
    pub keep: Duration,
}

/// The outcome of a [`CloseLive`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseReply {
    /// The live is closing, by this call or an earlier one: close its slices, then finish.
    Closing(LiveRecord),
    /// It was closed already.
    Closed(LiveRecord),
    /// The record has another epoch.
    OtherEpoch(LiveRecord),
    /// Never opened, or forgotten.
    Absent,
}

/// The outcome of [`LiveStore::keep_live`].
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, and it is taken apart at once"
)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordStanding {
    /// The epoch is open.
    Open {
        /// See [`LiveRecord::removals`].
        removals: u64,
        /// See [`LiveRecord::version`].
        version: u64,
    },
    /// The record was gone and has been written again.
    Rewritten,
    /// The epoch is closing, closed, or replaced by a newer one, so the gateway must let go of it.
    /// The record now.
    Over(LiveRecord),
}

/// What a back end changes of an open live. `None` leaves it as it is; `Some(None)` removes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveChange {
    /// The information for its clients, a JSON text.
    pub info: Option<Option<Arc<str>>>,
    /// See [`Terms::title`].
    pub title: Option<Option<String>>,
    /// See [`Terms::streamer_timeout`].
    pub streamer_timeout: Option<Option<Duration>>,
    /// See [`Terms::hosts`].
    pub hosts: Option<Vec<UserId>>,
}

/// A request to change an open live.
#[derive(Debug, Clone)]
pub struct ChangeLive {
    /// The live.
    pub live: LiveId,
    /// Which epoch; no other is touched, however late the call arrives.
    pub epoch: Epoch,
    /// What changes.
    pub change: LiveChange,
    /// Published on the live's channel in the same step.
    pub message: String,
}

/// The outcome of a [`ChangeLive`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeReply {
    /// It is changed, and the record has this version.
    Changed(u64),
    /// The epoch is not open. Nothing was done.
    Over,
    /// The live was never opened, or the store lost it. Nothing was done.
    Absent,
    /// This user is banned from the live, and cannot be a host. Nothing was done.
    Banned(UserId),
}

/// One entry of a listing of open lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedLive {
    /// The live.
    pub live: LiveId,
    /// When it opened.
    pub opened_at: UnixMillis,
}

calls! {
    /// The record of each live, and the list of the open ones.
    pub trait LiveStore {
        /// Opens a new epoch unless one is open. Lists the live before it opens, so that no open live
        /// is unlisted.
        async fn open_live(&self, request: &OpenLive) -> StoreResult<OpenReply>,
            writes at Live(&request.live);

        /// Reads a record.
        async fn load_live(&self, live: &LiveId) -> StoreResult<Option<LiveRecord>>, reads at Live(live);

        /// A gateway holds a live open and learns its state. Raises the record's peaks to those of
        /// `known`, the gateway's copy. If the record is gone (lost data), writes it again from
        /// `known`, lists the live, and publishes the message on its channel. If the gateway knows of a
        /// later removal than the store, the store's numbers leap above it by [`super::LEAP`]; if it
        /// knows a later version of what back ends change, that is written.
        async fn keep_live(&self, known: &LiveRecord, message: &str) -> StoreResult<RecordStanding>,
            writes at Live(&known.live);

        /// Changes an open live, see [`LiveChange`].
        async fn change_live(&self, request: &ChangeLive) -> StoreResult<ChangeReply>,
            writes at Live(&request.live);

        /// Whether each of these lives is on the list, in the same order.
        async fn are_listed(&self, lives: &[LiveId]) -> StoreResult<Vec<bool>>, reads;

        /// Puts an open live on the list, unless it is there.
        async fn list_live(&self, live: &LiveId, opened_at: UnixMillis) -> StoreResult<()>, writes;

        /// open → closing, and publishes it on the live's channel.
        async fn begin_close(&self, request: &CloseLive) -> StoreResult<CloseReply>,
            writes at Live(&request.live);

        /// closing → closed, after every slice of the epoch is closed and its events are in the stream.
        /// Also takes the live off the list. Changes nothing if the live is not closing in this epoch.
        /// Returns the record as it is now.
        async fn finish_close(&self, request: &FinishClose) -> StoreResult<Option<LiveRecord>>,
            writes at Live(&request.live);

        /// Up to `limit` open lives, oldest first, after the given one.
        async fn lives_page(
            &self,
            after: Option<&ListedLive>,
            limit: usize,
        ) -> StoreResult<Vec<ListedLive>>, reads;

        /// Takes a live off the list if it has no record or is closed.
        async fn delist(&self, live: &LiveId) -> StoreResult<()>, writes;

        /// Makes this gateway the walker for `ttl`, or extends its turn. One gateway at a time walks. A
        /// turn of one of the `dead` is void.
        async fn take_walk_turn(
            &self,
            gateway: &GatewayId,
            ttl: Duration,
            dead: &HashSet<GatewayId>,
        ) -> StoreResult<bool>, writes;

        each:

        /// Reads many records. An error for one live is no error for another.
        async fn load_lives(&self, lives: &[LiveId]) -> Vec<StoreResult<Option<LiveRecord>>>,
            reads at |live| Live(live);
    }
}

/// One opening of a live.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LiveEpoch {
    /// The live.
    pub live: LiveId,
    /// Which opening.
    pub epoch: Epoch,
}

impl fmt::Display for LiveEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.live, self.epoch)
    }
}

impl LiveEpoch {
    /// Reads `<live_id>@<epoch>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (live, epoch) = text.split_once('@')?;
        let of = Self {
            live: LiveId::parse(live).ok()?,
            epoch: Epoch(epoch.parse().ok()?),
        };
        // Each epoch has one name, so another spelling of its number names nothing.
        if of.to_string() == text {
            Some(of)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_read_as_it_is_written() {
        let of = LiveEpoch {
            live: LiveId::parse("my.live").unwrap(),
            epoch: Epoch(7),
        };
        assert_eq!(LiveEpoch::parse(&of.to_string()), Some(of));
        for bad in [
            "42", "42@", "@7", "42@x", "4 2@7", "42@7@8", "42@+7", "42@07",
        ] {
            assert_eq!(LiveEpoch::parse(bad), None, "{bad}");
        }
    }
}
