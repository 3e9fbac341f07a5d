//! Writes the information that a back end gives to the clients of an open live. The HTTP API calls
//! it. The script that writes also publishes that the record changed, so every gateway with a room
//! of the live reads it at once.

use std::sync::Arc;

use crate::peers::Outbox;
use crate::presence::Rooms;
use crate::store::{Info, InfoReply, LiveRecord, Store, WriteInfo};
use crate::sync::keep::Keeper;
use crate::sync::lives::LiveError;

pub struct InfoWriter {
    pub store: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub outbox: Arc<Outbox>,
    pub keeper: Arc<Keeper>,
}

impl InfoWriter {
    /// Writes the information about this epoch; `None` clears it. Answers what is written now.
    ///
    /// # Errors
    /// The epoch is over, or the store failed: then the information may have been written all the
    /// same.
    pub async fn write(
        &self,
        record: &LiveRecord,
        json: Option<Arc<str>>,
    ) -> Result<Info, LiveError> {
        let LiveRecord { live, epoch, .. } = record;
        let message = self.outbox.record_changed();
        let wish = WriteInfo {
            live: live.clone(),
            epoch: *epoch,
            json: json.clone(),
            message,
        };
        let mut reply = self.store.write_info(&wish).await?;
        let room = self.rooms.of_epoch(record);
        if matches!(reply, InfoReply::Absent)
            && let Some(room) = &room
        {
            // The store has lost the record of a live that is open here.
            self.keeper.keep(room).await?;
            reply = self.store.write_info(&wish).await?;
        }
        match reply {
            InfoReply::Written(version) => {
                let info = Info { version, json };
                if let Some(room) = room {
                    self.rooms.note_info(&room, &info);
                }
                Ok(info)
            }
            InfoReply::Over => Err(LiveError::NotOpen(live.clone())),
            InfoReply::Absent => Err(LiveError::NeverOpened(live.clone())),
        }
    }
}
