//! What callers of [`super::Lives`] ask for and are told.

use std::sync::Arc;
use std::time::Duration;

use crate::base::ids::{LiveId, UserId};
use crate::presence::room::Room;
use crate::presence::rules::RunningBan;
use crate::store::{Figures, LiveRecord, OpenedBy, StoreError, Terms};

/// A request to open a live.
#[derive(Debug, Clone)]
pub struct OpenRequest {
    /// The live.
    pub live: LiveId,
    /// Its owner.
    pub streamer: UserId,
    /// How many slices, 1 to [`crate::base::ids::MAX_SLICES`]; `None` derives them from the
    /// follower count.
    pub slices: Option<u32>,
    /// The role that opens it.
    pub by: OpenedBy,
    /// What else it is opened with.
    pub terms: Terms,
}

/// A live that is open now.
#[derive(Debug, Clone)]
pub struct OpenedLive {
    /// The live.
    pub record: LiveRecord,
    /// Whether this request opened it.
    pub created: bool,
}

#[derive(Debug, Clone)]
pub struct LiveView {
    /// With the highest peaks that are known.
    pub record: LiveRecord,
    pub figures: Figures,
    /// The room whose figures these are; `None` if the store was asked.
    pub room: Option<Arc<Room>>,
}

/// Why a live cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LiveError {
    /// No epoch is open.
    #[error("live {0} is not open")]
    NotOpen(LiveId),
    /// There is no record of it.
    #[error("live {0} was never opened")]
    NeverOpened(LiveId),
    /// Another streamer's live is open under this id.
    #[error("live {0} was opened by another streamer")]
    Owned(LiveId),
    /// The streamer is being erased.
    #[error("user {0} is being erased")]
    Erased(UserId),
    /// The streamer is banned from the platform.
    #[error("{0}")]
    Banned(RunningBan),
    /// The user is banned from the live, and cannot be its host.
    #[error("user {0} is banned from the live; lift the ban first")]
    BannedHost(UserId),
    /// The gateway lets no streamer open lives.
    #[error("on this gateway only back ends open lives")]
    NotByStreamers,
    /// The streamer has as many lives open as a streamer may have.
    #[error("{0} lives of this streamer are open, which is as many as may be; close one first")]
    TooMany(u64),
    /// The streamer opened as many lives as may be for now.
    #[error("this streamer opened too many lives today; try again in {} s", .0.as_secs() + 1)]
    TooFast(Duration),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
