//! Writes what a back end says about an open live: the information for its clients, its title and
//! its streamer timeout. The HTTP API calls it. The script that writes also publishes that the
//! record changed, so every gateway with a room of the live reads it at once.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::Clock;
use crate::peers::Outbox;
use crate::presence::Rooms;
use crate::presence::absent_streamers::AbsentStreamers;
use crate::store::{ChangeTerms, Info, InfoReply, LiveRecord, Store, StoreResult, WriteInfo};
use crate::sync::keep::Keeper;
use crate::sync::lives::LiveError;

pub struct InfoWriter {
    pub store: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub outbox: Arc<Outbox>,
    pub keeper: Arc<Keeper>,
    pub absent_streamers: Arc<AbsentStreamers>,
    pub clock: Clock,
}

/// The changes to an open live; `None` changes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewTerms {
    pub title: Option<Option<String>>,
    pub streamer_timeout: Option<Option<Duration>>,
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
        let version = self
            .ask_store(record, || self.store.write_info(&wish))
            .await?;
        self.read_here(record).await;
        Ok(Info { version, json })
    }

    /// Changes this epoch's title or streamer timeout. Answers the record as it is then.
    ///
    /// # Errors
    /// As [`InfoWriter::write`].
    pub async fn change(
        &self,
        record: &LiveRecord,
        new: NewTerms,
    ) -> Result<LiveRecord, LiveError> {
        let LiveRecord { live, epoch, .. } = record;
        let message = self.outbox.record_changed();
        let wish = ChangeTerms {
            live: live.clone(),
            epoch: *epoch,
            title: new.title,
            streamer_timeout: new.streamer_timeout,
            message,
        };
        self.ask_store(record, || self.store.change_terms(&wish))
            .await?;
        let changed = match self.store.load_live(live).await? {
            Some(changed) if changed.epoch == *epoch => changed,
            _ => return Err(LiveError::NotOpen(live.clone())),
        };
        if let Some(room) = self.rooms.of_epoch(record) {
            self.rooms.note_info(&room, &changed);
        }
        let has_timeout = matches!(wish.streamer_timeout, Some(Some(_)));
        if has_timeout && !self.rooms.streamers.is_here(&record.streamer) {
            // The time begins now, and not when the next walk finds the streamer gone.
            self.absent_streamers.found_absent(live, self.clock.now());
        }
        Ok(changed)
    }

    /// Asks the store to write. If the store has lost the record of a live that is open here, the
    /// record is written again and the store asked once more. Answers the version of what is
    /// written.
    async fn ask_store<F: Future<Output = StoreResult<InfoReply>>>(
        &self,
        record: &LiveRecord,
        ask: impl Fn() -> F,
    ) -> Result<u64, LiveError> {
        let mut reply = ask().await?;
        if matches!(reply, InfoReply::Absent)
            && let Some(room) = self.rooms.of_epoch(record)
        {
            self.keeper.keep(&room).await?;
            reply = ask().await?;
        }
        match reply {
            InfoReply::Written(version) => Ok(version),
            InfoReply::Over => Err(LiveError::NotOpen(record.live.clone())),
            InfoReply::Absent => Err(LiveError::NeverOpened(record.live.clone())),
        }
    }

    /// Reads what was written, and what others wrote meanwhile, for the room here. If the read
    /// fails, the next check of the room makes up for it.
    async fn read_here(&self, record: &LiveRecord) {
        let Some(room) = self.rooms.of_epoch(record) else {
            return;
        };
        match self.store.load_live(&record.live).await {
            Ok(Some(read)) if read.epoch == record.epoch => self.rooms.note_info(&room, &read),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(live_id = %record.live, %error, "could not read what was just written")
            }
        }
    }
}
