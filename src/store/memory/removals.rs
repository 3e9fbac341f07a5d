//! Removals in the embedded store: each open record has its [`RemovalLog`], under the records' lock.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::records::Kept;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::store::removals::RemovalLog;
use crate::store::{Ban, LiftBan, LiftReply, LiveState, Moderation, Removals, RemoveReply, RemoveUser, StoreResult};

/// Why nothing can be noted in a live's book.
enum Shut {
    Over,
    Absent,
}

impl MemoryStore {
    /// Opens the book of an open epoch, and keeps the record's number up with it.
    fn with_book<T>(
        &self,
        live: &LiveId,
        epoch: Epoch,
        write: impl FnOnce(&mut RemovalLog, UnixMillis) -> T,
    ) -> Result<T, Shut> {
        let now = self.now();
        let mut lives = self.lives.lock();
        let Kept { record, book, .. } = lives.kept.get_mut(live).ok_or(Shut::Absent)?;
        if record.state != LiveState::Open || record.epoch != epoch {
            return Err(Shut::Over);
        }
        let done = write(book, now);
        record.removals = book.last();
        Ok(done)
    }
}

#[async_trait]
impl Moderation for MemoryStore {
    async fn remove_user(&self, request: &RemoveUser) -> StoreResult<RemoveReply> {
        let done =
            self.with_book(&request.live, request.epoch, |book, now| book.remove(&request.user, request.ban, now));
        if let Ok(RemoveReply::Done { .. }) = done {
            self.publish_on_live(&request.live, &request.message);
        }
        Ok(done.unwrap_or_else(|shut| match shut {
            Shut::Over => RemoveReply::Over,
            Shut::Absent => RemoveReply::Absent,
        }))
    }

    async fn lift_ban(&self, request: &LiftBan) -> StoreResult<LiftReply> {
        let done = self.with_book(&request.live, request.epoch, |book, now| book.lift(&request.user, now));
        if let Ok(LiftReply::Lifted { .. }) = done {
            self.publish_on_live(&request.live, &request.message);
        }
        Ok(done.unwrap_or_else(|shut| match shut {
            Shut::Over => LiftReply::Over,
            Shut::Absent => LiftReply::Absent,
        }))
    }

    async fn removals_since(&self, live: &LiveId, epoch: Epoch, since: u64) -> StoreResult<Option<Removals>> {
        Ok(self.with_book(live, epoch, |book, now| book.since(since, now)).ok())
    }

    async fn bans_page(&self, live: &LiveId, after: Option<&Ban>, limit: usize) -> StoreResult<Vec<Ban>> {
        let lives = self.lives.lock();
        Ok(lives.kept.get(live).map(|kept| kept.book.page(after, limit)).unwrap_or_default())
    }

    async fn restore_bans(&self, live: &LiveId, epoch: Epoch, bans: &[(UserId, Duration)]) -> StoreResult<()> {
        // An epoch that is over needs no bans.
        let _ = self.with_book(live, epoch, |book, now| book.restore(bans, now));
        Ok(())
    }
}
