//! Opens, finds, closes and describes lives. Sessions, the HTTP API, the checks and the walk call
//! it.
//!
//! A caller that goes away does not stop an open or a close half way: both run in a task of their
//! own.

mod closing;
mod opening;
mod parts;
mod types;

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::OnceCell;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::base::ids::{Epoch, LiveId};
use crate::presence::Room;
use crate::store::{CloseReason, Figures, LiveRecord, LiveState, StoreError, StoreResult};

pub(crate) use closing::{finish_in_store, leave_channel};
pub use parts::LivesParts;
pub(crate) use parts::known_record;
pub use types::{LiveError, LiveView, OpenRequest, OpenedLive};

/// How long this gateway remembers that a live is not open. The memory bounds what clients that ask
/// for lives that do not exist can cost the store.
const NOT_OPEN_TTL: Duration = Duration::from_secs(1);

/// For how many lives it remembers that.
const MAX_NOT_OPEN: u64 = 10_000;

/// The result of a look-up, for all callers that wait for it: the room of an open live.
type FoundRoom = Result<Arc<Room>, LiveError>;

pub struct Lives {
    parts: Arc<LivesParts>,
    /// One look-up per live at a time. All callers that ask meanwhile share it.
    look_ups: DashMap<LiveId, Arc<OnceCell<FoundRoom>>>,
    not_open: moka::sync::Cache<LiveId, ()>,
}

impl Lives {
    pub fn new(parts: LivesParts) -> Self {
        let not_open = moka::sync::Cache::builder()
            .time_to_live(NOT_OPEN_TTL)
            .max_capacity(MAX_NOT_OPEN)
            .build();
        Self {
            parts: Arc::new(parts),
            look_ups: DashMap::new(),
            not_open,
        }
    }

    pub async fn open(&self, wish: OpenRequest) -> Result<OpenedLive, LiveError> {
        let parts = self.parts.clone();
        let live = wish.live.clone();
        let opened = carry_out(&self.parts.tasks, async move { parts.open(&wish).await }).await;
        self.not_open.invalidate(&live);
        opened
    }

    /// The room of an open live, made if this gateway has none yet.
    pub async fn find(&self, live: &LiveId) -> Result<Arc<Room>, LiveError> {
        if let Some(room) = self.parts.core.rooms.get(live) {
            return Ok(room);
        }
        if self.not_open.contains_key(live) {
            return Err(LiveError::NotOpen(live.clone()));
        }
        // A look-up that was under way may have read the record before the live was opened; a
        // second one has not.
        let found = match self.look_up(live).await {
            (Err(LiveError::NotOpen(_)), false) => self.look_up(live).await.0,
            (found, _) => found,
        };
        if let Err(LiveError::NotOpen(_)) = found {
            self.not_open.insert(live.clone(), ());
        }
        found
    }

    /// All callers that come while a look-up is under way share its result, even a failure. No
    /// result is kept. Returns whether this caller began the look-up, too.
    async fn look_up(&self, live: &LiveId) -> (FoundRoom, bool) {
        let cell = self.look_ups.entry(live.clone()).or_default().clone();
        let mut began = false;
        let found = cell
            .get_or_init(|| {
                began = true;
                self.parts.load(live)
            })
            .await
            .clone();
        self.look_ups
            .remove_if(live, |_, there| Arc::ptr_eq(there, &cell));
        (found, began)
    }

    /// Closes the latest epoch of a live, for good: [`LiveError::NotOpen`] if the caller means
    /// another one. Closing a closed live returns its record. If the store fails, a later walk over
    /// the open lives, or another close, finishes a close that has begun.
    pub async fn close(
        &self,
        live: &LiveId,
        epoch: Option<Epoch>,
        reason: CloseReason,
    ) -> Result<LiveRecord, LiveError> {
        let parts = self.parts.clone();
        let live = live.clone();
        carry_out(&self.parts.tasks, async move {
            // The epoch is fixed first: a call that arrives late must not close the next epoch.
            let record = known_record(
                parts.core.store_for_clients.as_ref(),
                &parts.core.rooms,
                &live,
            )
            .await?;
            if epoch.is_some_and(|epoch| epoch != record.epoch) {
                return Err(LiveError::NotOpen(live));
            }
            parts.close(&record, reason).await
        })
        .await
    }

    /// Closes this epoch of a live: [`LiveError::NotOpen`] if another one has begun since.
    pub async fn close_epoch(
        &self,
        record: &LiveRecord,
        reason: CloseReason,
    ) -> Result<LiveRecord, LiveError> {
        let parts = self.parts.clone();
        let record = record.clone();
        carry_out(&self.parts.tasks, async move {
            parts.close(&record, reason).await
        })
        .await
    }

    /// Closes this epoch if it is still open. For closes that the gateway itself begins.
    pub async fn close_quietly(&self, record: &LiveRecord, reason: CloseReason) -> StoreResult<()> {
        tracing::info!(
            live_id = %record.live, epoch = %record.epoch, reason = reason.as_str(),
            "closing a live"
        );
        match self.parts.close(record, reason).await {
            Err(LiveError::Store(why)) => Err(why),
            _ => Ok(()),
        }
    }

    /// Finishes a close that this gateway or another one began.
    pub async fn finish(&self, record: LiveRecord) -> StoreResult<()> {
        self.parts.finish(record).await.map(drop)
    }

    /// Ends a room whose epoch the store says is over. `record` is the live's present record.
    pub async fn let_go(&self, room: &Arc<Room>, record: LiveRecord) -> StoreResult<()> {
        self.parts.let_go(room, record).await
    }

    /// Looks at a record that changed, and ends the live's room here if the live is over. Returns
    /// the number of the last removal if the live goes on.
    pub async fn record_changed(&self, live: &LiveId) -> StoreResult<Option<u64>> {
        let parts = &self.parts;
        let Some(room) = parts.core.rooms.get(live) else {
            return Ok(None);
        };
        // A missing record is not a close: a check writes it again.
        let Some(record) = parts.core.store_for_clients.load_live(live).await? else {
            return Ok(None);
        };
        let is_same_epoch = record.epoch == room.record.epoch;
        match record.state {
            _ if record.epoch < room.record.epoch => {}
            LiveState::Open if is_same_epoch => {
                parts.core.rooms.note_changes(&room, &record);
                parts.features.record_read(&room, &record).await?;
                return Ok(Some(record.removals));
            }
            // The gateway that began the close finishes it.
            LiveState::Closing if is_same_epoch => parts.end_closing(&room, record),
            _ => parts.let_go(&room, record).await?,
        }
        Ok(None)
    }

    /// The record of a live, and nothing of its slices.
    pub async fn record(&self, live: &LiveId) -> Result<LiveRecord, LiveError> {
        known_record(
            self.parts.core.store_for_clients.as_ref(),
            &self.parts.core.rooms,
            live,
        )
        .await
    }

    /// The records of lives with their counts, see [`LiveRecord::counted`]: exact for lives that
    /// this gateway has a room of, a few seconds old for others. `None` for a live that was never
    /// opened.
    ///
    /// # Errors
    /// If the store cannot tell about any of them.
    pub async fn counted(&self, lives: &[LiveId]) -> StoreResult<Vec<Option<LiveRecord>>> {
        self.parts.counted(lives).await
    }

    pub async fn view(&self, live: &LiveId) -> Result<LiveView, LiveError> {
        let parts = &self.parts;
        if let Some(room) = parts.core.rooms.get(live) {
            let (record, figures) = parts.as_of_room(&room);
            return Ok(LiveView {
                record,
                figures,
                room: Some(room),
            });
        }
        let record = parts
            .core
            .store_for_clients
            .load_live(live)
            .await?
            .ok_or_else(|| LiveError::NeverOpened(live.clone()))?;
        let mut figures = Figures::default();
        if record.state == LiveState::Open {
            for found in parts.look_at_slices(&record).await? {
                figures.viewers += found.size.card;
                figures.fans += found.size.fans;
                figures.guests += found.size.guests;
            }
        }
        Ok(LiveView {
            record,
            figures,
            room: None,
        })
    }
}

/// Runs `work` in a task of its own, so that a caller that goes away does not stop it half way.
async fn carry_out<T: Send + 'static>(
    tasks: &TaskTracker,
    work: impl Future<Output = Result<T, LiveError>> + Send + 'static,
) -> Result<T, LiveError> {
    match tasks.spawn(work.in_current_span()).await {
        Ok(done) => done,
        Err(_) => Err(LiveError::Store(StoreError::Lost(
            "the task that carried it out ended".to_owned(),
        ))),
    }
}
