//! Closes lives and ends their rooms. The order of a close makes it final: the record says
//! `closing`, every slice's fence is closed and its keys are unlinked, the record says `closed`,
//! and only then is the close answered.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};

use super::parts::{LivesParts, MAX_CONCURRENT_SLICES};
use super::types::LiveError;
use crate::base::ids::{Epoch, LiveId, SliceId};
use crate::base::metrics::Metrics;
use crate::presence::{Room, Rooms};
use crate::store::{
    CloseLive, CloseReason, CloseReply, Closure, FinishClose, LiveRecord, LiveState, OpenedBy,
    SliceTotals, Store, StoreError, StoreResult, Sums, both,
};
use crate::sync::events::announce;
use crate::sync::features::Features;

impl LivesParts {
    /// Closes the epoch of `asked`, and no other. If the store has lost the record of an open live,
    /// the record is written again first, so that the close reaches every gateway.
    pub(super) async fn close(
        &self,
        asked: &LiveRecord,
        reason: CloseReason,
    ) -> Result<LiveRecord, LiveError> {
        let live = &asked.live;
        let mut rewritten = false;
        loop {
            let room = self.core.rooms.of_epoch(asked);
            let peaks = room
                .as_ref()
                .map(|room| room.figures.note_peaks())
                .unwrap_or_default();
            let message = self.core.to_peers.record_changed();
            let wish = CloseLive {
                live: live.clone(),
                epoch: asked.epoch,
                reason,
                peaks,
                uniques: self.core.config.uniques,
                message,
            };
            match self.core.store_for_clients.begin_close(&wish).await? {
                CloseReply::Closing(record) => return Ok(self.finish(record).await?),
                CloseReply::Closed(record) => {
                    if let Some(room) = room {
                        self.end(&room, record.clone());
                    }
                    return Ok(record);
                }
                CloseReply::OtherEpoch(_) => return Err(LiveError::NotOpen(live.clone())),
                CloseReply::Absent if asked.state == LiveState::Open && !rewritten => {
                    rewritten = true;
                    self.core
                        .store_for_clients
                        .keep_live(asked, &self.core.to_peers.record_changed())
                        .await?;
                }
                CloseReply::Absent => return Err(LiveError::NeverOpened(live.clone())),
            }
        }
    }

    /// Brings a close from `closing` to `closed`: ends the room, closes every slice, then the
    /// record.
    pub(super) async fn finish(&self, record: LiveRecord) -> StoreResult<LiveRecord> {
        if let Some(room) = self.core.rooms.of_epoch(&record) {
            self.end_closing(&room, record.clone());
        }
        let finished = finish_in_store(
            self.core.store_for_clients.as_ref(),
            &self.features,
            &record,
            self.core.config.closed_ttl,
            self.core.config.events_kept,
        )
        .await?;
        self.features.closed();
        if let Some(closure) = record.closure {
            Metrics::count(&self.core.metrics.lives_closed, closure.reason.as_str());
        }
        // The record may belong to a newer epoch by now; the answer is about this close.
        let finished = finished.filter(|finished| finished.epoch == record.epoch);
        Ok(finished.unwrap_or(LiveRecord {
            state: LiveState::Closed,
            ..record
        }))
    }

    /// Ends a room whose epoch the store says is over, and closes the slices in which this gateway
    /// is registered. A close that has only begun is finished. `record` is the live's present
    /// record.
    pub(super) async fn let_go(&self, room: &Arc<Room>, record: LiveRecord) -> StoreResult<()> {
        if record.epoch == room.record.epoch && record.state == LiveState::Closing {
            return self.finish(record).await.map(drop);
        }
        let slices = room
            .slices()
            .iter()
            .filter(|slice| slice.lock().desired().is_registered());
        let registered: Vec<SliceId> = slices.map(|slice| slice.id.clone()).collect();
        if record.epoch == room.record.epoch {
            self.end(room, record);
        } else {
            self.end_superseded(room);
            self.features.superseded(&room.record).await?;
        }
        // This removes what this gateway wrote after the store lost the fence. A newer epoch's
        // slices stay as they are.
        close_slices(
            self.core.store_for_clients.as_ref(),
            registered.into_iter(),
            room.record.epoch,
        )
        .await
        .map(drop)
    }

    /// Ends the room of an epoch whose close has begun.
    pub(super) fn end_closing(&self, room: &Arc<Room>, record: LiveRecord) {
        let peaks = record.peaks.max(room.figures.peaks());
        self.end(room, LiveRecord { peaks, ..record });
    }

    /// Ends a room whose epoch was replaced by a newer one; this gateway never saw the record of
    /// its close.
    pub(super) fn end_superseded(&self, room: &Arc<Room>) {
        let closure = Closure {
            reason: CloseReason::Requested,
            at: self.core.clock.unix(),
        };
        let peaks = room.figures.peaks();
        self.end(
            room,
            LiveRecord {
                state: LiveState::Closed,
                closure: Some(closure),
                peaks,
                ..room.record_now()
            },
        );
    }

    /// Ends a room. A task of its own tells the sockets slice by slice: a million of them take
    /// seconds, and neither the slices' fences nor the answer wait for that.
    fn end(&self, room: &Arc<Room>, record: LiveRecord) {
        if !room.close(record) {
            return;
        }
        self.core.rooms.remove(room);
        leave_channel(
            self.core.store_for_clients.as_ref(),
            &self.core.rooms,
            &room.record.live,
        );
        self.core.checks.recheck_ended(room);
        let room = room.clone();
        let metrics = self.core.metrics.clone();
        self.tasks.spawn(async move {
            for place in 0..room.slices().len() {
                let released = room.release(place);
                metrics.leaves_by("closed", released as u64);
                tokio::task::yield_now().await;
            }
            room.release_listeners();
        });
    }
}

/// Leaves the channel of a live whose room has ended. Another room of the live, made meanwhile,
/// needs the channel.
pub(crate) fn leave_channel(store: &dyn Store, rooms: &Rooms, live: &LiveId) {
    store.unsubscribe(live);
    store.ignore_moves(live);
    if rooms.get(live).is_some() {
        store.subscribe(live);
    }
    // The friends task looks whether anybody in that room wants to hear of moves.
    if let Some(room) = rooms.get(live) {
        rooms.update_friends(&room);
    }
}

/// The store's part of a close, from `closing` to `closed`: closes every slice, has the features do
/// their part, writes the events, then closes the record, which the store keeps for `keep`. Returns
/// the record as it is then, which may belong to a newer epoch.
pub(crate) async fn finish_in_store(
    store: &dyn Store,
    features: &Features,
    record: &LiveRecord,
    keep: Duration,
    events_kept: u64,
) -> StoreResult<Option<LiveRecord>> {
    let totals = close_slices(store, record.all_slices(), record.epoch).await?;
    // Arrivals that were counted before the store lost a slice stay counted.
    let arrived = record.sums.arrived.max(totals.arrived);
    let uniques = record.sums.uniques.and(Some(totals.uniques));
    let record = &LiveRecord {
        sums: Sums {
            arrived,
            uniques,
            ..record.sums.clone()
        },
        ..record.clone()
    };
    // Before the event, so that a reader of the event finds what the features keep of the live; and
    // before the record says that all is done: a gateway that finds it `closing` does this again.
    features.closing(record).await?;
    announce(store, [record], events_kept).await?;
    if let Some(closure) = record.closure
        && record.opened_by == OpenedBy::Streamer
    {
        store
            .release_live(&record.streamer, &record.live, closure.at)
            .await?;
    }
    store
        .finish_close(&FinishClose {
            live: record.live.clone(),
            epoch: record.epoch,
            arrived,
            uniques,
            keep,
        })
        .await
}

/// Closes slices, and adds up what they counted. A slice without an answer ends this early, because
/// the close will be done again. A garbled slice does not.
async fn close_slices(
    store: &dyn Store,
    slices: impl Iterator<Item = SliceId> + Send,
    epoch: Epoch,
) -> StoreResult<SliceTotals> {
    let mut closes = stream::iter(slices)
        .map(|slice| async move { store.close_slice(&slice, epoch).await })
        .buffer_unordered(MAX_CONCURRENT_SLICES);
    let mut totals = SliceTotals::default();
    let mut result = Ok(());
    while let Some(closed) = closes.next().await {
        match closed {
            Ok(slice) => {
                totals.arrived = totals.arrived.plus(slice.arrived);
                totals.uniques.viewers += slice.uniques.viewers;
                totals.uniques.fans += slice.uniques.fans;
            }
            Err(why) => result = both(result, Err(why)),
        }
        if result.as_ref().is_err_and(StoreError::is_worth_a_retry) {
            break;
        }
    }
    result.map(|()| totals)
}
