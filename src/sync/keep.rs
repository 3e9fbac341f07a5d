//! Tells the store that this gateway holds a live open, and learns whether it still is. Ends the
//! room if the epoch is over. The flusher and the checker call it.

use std::sync::Arc;

use crate::base::clock::Clock;
use crate::peers::Outbox;
use crate::presence::{Room, Rooms};
use crate::store::{CloseReason, LiveRecord, Standing, Store, StoreResult};
use crate::sync::catch_up::CatchUp;
use crate::sync::lives::Lives;
use crate::sync::streams;

pub struct Keeper {
    pub store: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub outbox: Arc<Outbox>,
    pub lives: Arc<Lives>,
    pub catch_up: Arc<CatchUp>,
    pub clock: Clock,
}

impl Keeper {
    /// Tells the store that this gateway holds the live open. A record that the store lost is
    /// written again.
    pub async fn keep(&self, room: &Arc<Room>) -> StoreResult<()> {
        let now = self.clock.now();
        let peaks = room.figures.sure_peaks();
        let told = LiveRecord {
            peaks,
            removals: room.seats.bans.last(),
            ..room.record_now()
        };
        let known = told.version;
        let removals = match self
            .store
            .keep_live(&told, &self.outbox.live_doubted())
            .await?
        {
            Standing::Over(record) => return self.lives.let_go(room, record).await,
            Standing::Open { removals, version } => {
                if version > known {
                    self.read_changes(room).await?;
                }
                let message = self.outbox.record_changed();
                streams::confirm(self.store.as_ref(), &self.rooms, room, message).await?;
                removals
            }
            Standing::Rewritten => {
                tracing::warn!(
                    live_id = %room.record.live,
                    "the store had lost the live; wrote it again"
                );
                // The store lost the bans with the record.
                if room.record.terms.attendance {
                    self.store
                        .begin_attendance(&room.record.live_epoch(), &room.record.attended())
                        .await?;
                }
                streams::restore(self.store.as_ref(), room, self.outbox.record_changed()).await?;
                self.rooms.publish(room);
                room.schedule.counting.require(now);
                self.rooms.record(room);
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
        let record = self.store.load_live(&room.record.live).await?;
        if let Some(record) = record.filter(|record| record.epoch == room.record.epoch) {
            self.rooms.note_changes(room, &record);
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
