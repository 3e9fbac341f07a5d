//! Changes an open live for a back end: the information for its clients, its title, its streamer
//! timeout and its hosts. The HTTP API calls it. The script that writes also publishes that the record changed, so
//! every gateway with a room of the live reads it at once.

use std::sync::Arc;

use crate::peers::core::Core;
use crate::store::{ChangeLive, ChangeReply, LiveChange, LiveRecord};
use crate::sync::keep::Keeper;
use crate::sync::lives::LiveError;

pub struct LiveChanger {
    pub core: Arc<Core>,
    pub keeper: Arc<Keeper>,
}

impl LiveChanger {
    /// Changes this epoch of a live. Answers the record as it is then.
    ///
    /// # Errors
    /// The epoch is over, or the store failed: then the live may have changed all the same.
    pub async fn change(
        &self,
        record: &LiveRecord,
        change: LiveChange,
    ) -> Result<LiveRecord, LiveError> {
        let may_end = change.streamer_timeout.is_some() || change.hosts.is_some();
        let wish = ChangeLive {
            live: record.live.clone(),
            epoch: record.epoch,
            change,
            message: self.core.to_peers.record_changed(),
        };
        self.ask_store(record, &wish).await?;
        let changed = match self.core.store_for_clients.load_live(&record.live).await? {
            Some(changed) if changed.epoch == record.epoch => changed,
            _ => return Err(LiveError::NotOpen(record.live.clone())),
        };
        if let Some(room) = self.core.rooms.of_epoch(record) {
            self.core.rooms.note_changes(&room, &changed);
        }
        if may_end && !self.core.rooms.streamers.is_here(&record.streamer) {
            self.core
                .absent_streamers
                .look_now(&record.live, self.core.clock.now());
        }
        Ok(changed)
    }

    /// If the store has lost the record of a live that is open here, the record is written again and
    /// the store asked once more.
    async fn ask_store(&self, record: &LiveRecord, wish: &ChangeLive) -> Result<(), LiveError> {
        let mut reply = self.core.store_for_clients.change_live(wish).await?;
        if reply == ChangeReply::Absent
            && let Some(room) = self.core.rooms.of_epoch(record)
        {
            self.keeper.keep(&room).await?;
            reply = self.core.store_for_clients.change_live(wish).await?;
        }
        match reply {
            ChangeReply::Changed(_) => Ok(()),
            ChangeReply::Over => Err(LiveError::NotOpen(record.live.clone())),
            ChangeReply::Absent => Err(LiveError::NeverOpened(record.live.clone())),
            ChangeReply::Banned(user) => Err(LiveError::BannedHost(user)),
        }
    }
}
