//! Tells the rooms of this gateway what the store has of the streams of their lives, and remembers
//! it there: if the store loses a record, the streams are written again.

use std::sync::Arc;

use async_trait::async_trait;

use super::store::{KnownStreams, WriteStreams};
use super::watched_streams::WatchedStreams;
use crate::features::media::store::MediaStore;
use crate::peers::core::Core;
use crate::presence::Room;
use crate::store::{LiveRecord, StoreResult};
use crate::sync::features::Feature;

pub struct RoomStreams {
    pub core: Arc<Core>,
    pub store: Arc<dyn MediaStore>,
    /// The same store, for what clients ask for.
    pub store_for_clients: Arc<dyn MediaStore>,
    pub watched: Arc<WatchedStreams>,
}

/// What the room remembers; `None` if this gateway has read nothing.
fn remembered(room: &Room) -> Option<KnownStreams> {
    room.stream.remembered()?.downcast_ref().cloned()
}

impl RoomStreams {
    fn note(&self, room: &Arc<Room>, known: KnownStreams) {
        // Version 0 is nothing.
        if known.version > 0 {
            let status = known.streams.status(room.record.epoch);
            self.core
                .rooms
                .note_stream(room, known.version, status, Arc::new(known));
        }
    }

    /// Writes what is known of the streams of a live again, after the store lost its record.
    async fn restore(&self, room: &Room) -> StoreResult<()> {
        let Some(remembered) = remembered(room) else {
            return Ok(());
        };
        let live = &room.record.live;
        let known = self.store.load_streams(live).await?;
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
            message: Some(self.core.to_peers.record_changed()),
        };
        // If another gateway wrote meanwhile, it knew more.
        self.store.write_streams(&request).await?;
        Ok(())
    }
}

#[async_trait]
impl Feature for RoomStreams {
    async fn record_read(&self, room: &Arc<Room>, record: &LiveRecord) -> StoreResult<()> {
        self.found_open(record);
        let is_known = remembered(room).is_some() || record.stream.is_none();
        if !is_known || record.stream != room.stream.status() {
            let known = self.store_for_clients.load_streams(&record.live).await?;
            self.note(room, known);
        }
        Ok(())
    }

    fn found_open(&self, record: &LiveRecord) {
        self.watched.note(record, 0, self.core.clock.now());
    }

    async fn confirmed(&self, room: &Arc<Room>) -> StoreResult<()> {
        let Some(remembered) = remembered(room) else {
            return Ok(());
        };
        let known = self.store.load_streams(&room.record.live).await?;
        if known.version < remembered.version {
            return self.restore(room).await;
        }
        self.note(room, known);
        Ok(())
    }

    async fn rewritten(&self, room: &Arc<Room>) -> StoreResult<()> {
        self.restore(room).await
    }
}
