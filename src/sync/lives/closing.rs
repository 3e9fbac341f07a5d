//! Closes lives and ends their rooms. The order of a close makes it final: the record says `closing`, every slice's
//! fence is closed and its keys are unlinked, the record says `closed`, and only then is the close answered.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};

use super::parts::{Parts, SLICES_AT_A_TIME};
use super::types::LiveError;
use crate::base::ids::{Epoch, SliceId};
use crate::base::metrics::Metrics;
use crate::presence::Room;
use crate::store::{CloseLive, CloseReason, CloseReply, Closure, LiveRecord, LiveState, Store, StoreResult};

/// How the close of an epoch ended.
pub(super) enum CloseOutcome {
    Closed(LiveRecord),
    /// Another epoch has begun.
    OtherEpoch,
    /// The store has no record of the live.
    NeverOpened,
}

impl CloseOutcome {
    pub(super) fn closed(self, asked: &LiveRecord) -> Result<LiveRecord, LiveError> {
        match self {
            Self::Closed(record) => Ok(record),
            Self::OtherEpoch => Err(LiveError::NotOpen(asked.live.clone())),
            Self::NeverOpened => Err(LiveError::NeverOpened(asked.live.clone())),
        }
    }
}

impl Parts {
    /// Closes the epoch of `asked`, and no other. If the store has lost the record of an open live, the record is
    /// written again first, so that the close reaches every gateway.
    pub(super) async fn close(&self, asked: &LiveRecord, reason: CloseReason) -> StoreResult<CloseOutcome> {
        let live = &asked.live;
        let mut rewritten = false;
        loop {
            let room = self.rooms.get(live).filter(|room| room.record.epoch == asked.epoch);
            let peaks = room.as_ref().map(|room| room.peaks()).unwrap_or_default();
            let message = self.outbox.record_changed();
            let wish = CloseLive { live: live.clone(), epoch: asked.epoch, reason, peaks, message };
            match self.store.begin_close(&wish).await? {
                CloseReply::Closing(record) => return self.finish(record).await.map(CloseOutcome::Closed),
                CloseReply::Closed(record) => {
                    if let Some(room) = room {
                        self.end(&room, record.clone());
                    }
                    return Ok(CloseOutcome::Closed(record));
                }
                CloseReply::OtherEpoch(_) => return Ok(CloseOutcome::OtherEpoch),
                CloseReply::Absent if asked.state == LiveState::Open && !rewritten => {
                    rewritten = true;
                    self.store.keep_live(asked, &self.outbox.record_changed()).await?;
                }
                CloseReply::Absent => return Ok(CloseOutcome::NeverOpened),
            }
        }
    }

    /// Brings a close from `closing` to `closed`: ends the room, closes every slice, then the record.
    pub(super) async fn finish(&self, record: LiveRecord) -> StoreResult<LiveRecord> {
        if let Some(room) = self.rooms.get(&record.live)
            && room.record.epoch == record.epoch
        {
            self.end_closing(&room, record.clone());
        }
        let finished = finish_in_store(self.store.as_ref(), &record, self.closed_ttl).await?;
        if let Some(closure) = record.closure {
            Metrics::count(&self.metrics.lives_closed, closure.reason.as_str());
        }
        // The record may belong to a newer epoch by now; the answer is about this close.
        let finished = finished.filter(|finished| finished.epoch == record.epoch);
        Ok(finished.unwrap_or(LiveRecord { state: LiveState::Closed, ..record }))
    }

    /// Ends a room whose epoch the store says is over, and closes the slices in which this gateway is registered.
    pub(super) async fn let_go(&self, room: &Arc<Room>, record: LiveRecord) -> StoreResult<()> {
        let slices = room.slices().iter().filter(|slice| slice.lock().desired().is_registered());
        let registered: Vec<SliceId> = slices.map(|slice| slice.id.clone()).collect();
        if record.epoch == room.record.epoch {
            self.end(room, record);
        } else {
            self.end_superseded(room);
        }
        // This removes what this gateway wrote after the store lost the fence. A newer epoch's slices stay as they are.
        close_slices(self.store.as_ref(), registered.into_iter(), room.record.epoch).await
    }

    /// Ends the room of an epoch whose close has begun.
    pub(super) fn end_closing(&self, room: &Arc<Room>, record: LiveRecord) {
        let peaks = record.peaks.max(room.peaks());
        self.end(room, LiveRecord { peaks, ..record });
    }

    /// Ends a room whose epoch was replaced by a newer one; this gateway never saw the record of its close.
    pub(super) fn end_superseded(&self, room: &Arc<Room>) {
        let closure = Closure { reason: CloseReason::Requested, at: self.clock.unix() };
        let (state, peaks) = (LiveState::Closed, room.peaks());
        self.end(room, LiveRecord { state, closure: Some(closure), peaks, ..room.record.clone() });
    }

    /// Ends a room. A task of its own tells the sockets slice by slice: a million of them take seconds, and neither the
    /// slices' fences nor the answer wait for that.
    fn end(&self, room: &Arc<Room>, record: LiveRecord) {
        if !room.close(record) {
            return;
        }
        self.rooms.remove(room);
        self.store.unsubscribe(&room.record.live);
        if self.rooms.get(&room.record.live).is_some() {
            // Another room of the live was made meanwhile, and needs its channel.
            self.store.subscribe(&room.record.live);
        }
        self.checks.recheck_ended(room);
        let (room, metrics) = (room.clone(), self.metrics.clone());
        self.tasks.spawn(async move {
            for slice in room.slices() {
                let released = room.release(slice);
                metrics.leaves_by("closed", released as u64);
                tokio::task::yield_now().await;
            }
            room.release_listeners();
        });
    }
}

/// The store's part of a close, from `closing` to `closed`: closes every slice, then the record. Returns the record as
/// it is then, which may belong to a newer epoch.
pub(crate) async fn finish_in_store(
    store: &dyn Store,
    record: &LiveRecord,
    keep: Duration,
) -> StoreResult<Option<LiveRecord>> {
    close_slices(store, SliceId::all(&record.live, record.slices), record.epoch).await?;
    store.finish_close(&record.live, record.epoch, keep).await
}

async fn close_slices(
    store: &dyn Store,
    slices: impl Iterator<Item = SliceId> + Send,
    epoch: Epoch,
) -> StoreResult<()> {
    stream::iter(slices)
        .map(|slice| async move { store.close_slice(&slice, epoch).await })
        .buffer_unordered(SLICES_AT_A_TIME)
        .try_collect()
        .await
}
