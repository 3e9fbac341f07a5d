//! Tells the store that this gateway holds a live open, and learns whether it still is. Ends the
//! room if the epoch is over. The flusher and the checker call it.

use std::sync::Arc;

use crate::peers::core::Core;
use crate::presence::Room;
use crate::store::{CloseReason, LiveRecord, RecordStanding, StoreResult};
use crate::sync::catch_up::CatchUp;
use crate::sync::features::Features;
use crate::sync::lives::Lives;

pub struct Keeper {
    pub core: Arc<Core>,
    pub lives: Arc<Lives>,
    pub catch_up: Arc<CatchUp>,
    pub features: Features,
}

impl Keeper {
    /// Tells the store that this gateway holds the live open. A record that the store lost is
    /// written again.
    pub async fn keep(&self, room: &Arc<Room>) -> StoreResult<()> {
        let now = self.core.clock.now();
        let peaks = room.figures.sure_peaks();
        let told = LiveRecord {
            peaks,
            removals: room.seats.bans.last(),
            ..room.record_now()
        };
        let known = told.version;
        let removals = match self
            .core
            .store
            .keep_live(&told, &self.core.to_peers.live_doubted())
            .await?
        {
            RecordStanding::Over(record) => return self.lives.let_go(room, record).await,
            RecordStanding::Open { removals, version } => {
                if version > known {
                    self.read_changes(room).await?;
                }
                self.features.confirmed(room).await?;
                removals
            }
            RecordStanding::Rewritten => {
                tracing::warn!(
                    live_id = %room.record.live,
                    "the store had lost the live; wrote it again"
                );
                self.features.rewritten(room).await?;
                self.core.rooms.publish(room);
                room.schedule.counting.require(now);
                self.core.rooms.record(room);
                // The store lost the bans with the record.
                if room.seats.bans.last() > 0 {
                    u64::MAX
                } else {
                    0
                }
            }
        };
        room.schedule.note_confirmed_open(now);
        room.figures.note_peaks_written(peaks);
        self.catch_up.quietly(room, removals).await;
        Ok(())
    }

    /// Reads what a back end changed since this gateway last heard of it.
    async fn read_changes(&self, room: &Arc<Room>) -> StoreResult<()> {
        let record = self.core.store.load_live(&room.record.live).await?;
        if let Some(record) = record.filter(|record| record.epoch == room.record.epoch) {
            self.core.rooms.note_changes(room, &record);
        }
        Ok(())
    }

    /// Handles a fence that says that the epoch is over. Usually the record says so too. If the
    /// store lost the record's close but kept the fence, the live is closed once more, since its
    /// slices accept no joins.
    pub async fn fence_says_over(&self, room: &Arc<Room>) -> StoreResult<()> {
        self.keep(room).await?;
        if room.end().is_none() {
            tracing::warn!(
                live_id = %room.record.live, epoch = %room.record.epoch,
                "a fence is ahead of the live's record; closing the live"
            );
            self.lives
                .close_quietly(&room.record, CloseReason::Requested)
                .await?;
        }
        Ok(())
    }
}
