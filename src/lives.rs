//! STAND-IN, replaced at merge: only what the HTTP edge asks of the lives.

use std::sync::Arc;

use crate::ids::{LiveId, UserId};
use crate::store::{CloseLive, CloseReason, CloseReply, LiveRecord, OpenLive, OpenReply, OpenedBy, Peaks, Store};
use crate::store::{LiveState, StoreError};

/// A wish to open.
pub struct OpenWish {
    /// The live.
    pub live: LiveId,
    /// Its owner to be.
    pub streamer: UserId,
    /// Slices, if not the default.
    pub slices: Option<u32>,
    /// Over which role.
    pub by: OpenedBy,
}

/// An open live.
pub struct Opened {
    /// Its record.
    pub record: LiveRecord,
    /// Whether this call opened it.
    pub created: bool,
}

/// A live with its figures.
pub struct LiveView {
    /// Its record.
    pub record: LiveRecord,
    /// Viewers now.
    pub viewers: u64,
    /// Fans now.
    pub fans: u64,
}

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// Not open.
    #[error("live {0} is not open")]
    NotOpen(LiveId),
    /// Never opened.
    #[error("live {0} was never opened")]
    NeverOpened(LiveId),
    /// Another streamer's.
    #[error("live {0} was opened by another streamer")]
    Owned(LiveId),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The lives.
pub struct Lives {
    store: Arc<dyn Store>,
}

impl Lives {
    /// Over a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Opens.
    pub async fn open(&self, wish: OpenWish) -> Result<Opened, LiveError> {
        let wish = OpenLive { live: wish.live, streamer: wish.streamer, slices: wish.slices.unwrap_or(1), by: wish.by };
        match self.store.open_live(&wish).await? {
            OpenReply::Opened(record) => Ok(Opened { record, created: true }),
            OpenReply::AlreadyOpen(record) => Ok(Opened { record, created: false }),
            OpenReply::Owned(record) | OpenReply::Closing(record) => Err(LiveError::Owned(record.live)),
        }
    }

    /// Closes.
    pub async fn close(&self, live: &LiveId, reason: CloseReason) -> Result<LiveRecord, LiveError> {
        let wish = CloseLive { live: live.clone(), epoch: None, reason, peaks: Peaks::default() };
        match self.store.begin_close(&wish).await? {
            CloseReply::Closing(record) => {
                let record = self.store.finish_close(live, record.epoch).await?;
                record.ok_or_else(|| LiveError::NeverOpened(live.clone()))
            }
            CloseReply::Closed(record) | CloseReply::OtherEpoch(record) => Ok(record),
            CloseReply::Absent => Err(LiveError::NeverOpened(live.clone())),
        }
    }

    /// Looks.
    pub async fn view(&self, live: &LiveId) -> Result<LiveView, LiveError> {
        let record = self.store.load_live(live).await?.ok_or_else(|| LiveError::NeverOpened(live.clone()))?;
        let figure = u64::from(record.state == LiveState::Open);
        Ok(LiveView { record, viewers: figure, fans: figure })
    }
}
