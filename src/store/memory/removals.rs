//! Removals in the embedded store: each open record has its [`RemovalLog`], under the records'
//! lock.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::records::KeptRecord;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::store::{
    Ban, Happened, LiftBan, LiftReply, Moderation, Removals, RemoveReply, RemoveUser, StoreResult,
};

/// Why no removal of a live can be noted.
enum Shut {
    Over,
    Absent,
}

impl MemoryStore {
    /// Changes the removals of an open epoch, and brings the record's number up to date.
    fn with_book<T>(
        &self,
        live: &LiveId,
        epoch: Epoch,
        write: impl FnOnce(&mut KeptRecord, UnixMillis) -> T,
    ) -> Result<T, Shut> {
        let now = self.now();
        let mut lives = self.lives.lock();
        let kept = lives.kept.get_mut(live).ok_or(Shut::Absent)?;
        if !kept.record.is_open_in(epoch) {
            return Err(Shut::Over);
        }
        let done = write(kept, now);
        kept.record.removals = kept.book.last();
        Ok(done)
    }
}

#[async_trait]
impl Moderation for MemoryStore {
    async fn remove_user(&self, request: &RemoveUser) -> StoreResult<RemoveReply> {
        let done = self.with_book(&request.live, request.epoch, |kept, now| {
            if request.is_told && kept.is_crowded() {
                return RemoveReply::Crowded;
            }
            if request.ban.is_some() && kept.record.terms.hosts.contains(&request.user) {
                return RemoveReply::Host;
            }
            let reply = kept.book.remove(&request.user, request.ban, now);
            if let RemoveReply::Done { until, .. } = reply
                && request.is_told
            {
                let user = request.user.clone();
                let what = match until {
                    Some(until) => Happened::Banned(user, until),
                    None => Happened::Removed(user),
                };
                kept.note_by(what, request.by.clone(), now);
            }
            reply
        });
        if let Ok(RemoveReply::Done { .. }) = done {
            self.publish_on_live(&request.live, &request.message);
        }
        match done {
            Ok(reply) => Ok(reply),
            Err(Shut::Over) => Ok(RemoveReply::Over),
            Err(Shut::Absent) => Ok(RemoveReply::Absent),
        }
    }

    async fn lift_ban(&self, request: &LiftBan) -> StoreResult<LiftReply> {
        let done = self.with_book(&request.live, request.epoch, |kept, now| {
            if request.is_told && kept.is_crowded() {
                return LiftReply::Crowded;
            }
            let reply = kept.book.lift(&request.user, now);
            if request.is_told && matches!(reply, LiftReply::Lifted { .. }) {
                let what = Happened::Unbanned(request.user.clone());
                kept.note_by(what, request.by.clone(), now);
            }
            reply
        });
        if let Ok(LiftReply::Lifted { .. }) = done {
            self.publish_on_live(&request.live, &request.message);
        }
        match done {
            Ok(reply) => Ok(reply),
            Err(Shut::Over) => Ok(LiftReply::Over),
            Err(Shut::Absent) => Ok(LiftReply::Absent),
        }
    }

    async fn removals_since(
        &self,
        live: &LiveId,
        epoch: Epoch,
        since: u64,
    ) -> StoreResult<Option<Removals>> {
        Ok(self
            .with_book(live, epoch, |kept, now| kept.book.since(since, now))
            .ok())
    }

    async fn bans_page(
        &self,
        live: &LiveId,
        after: Option<&Ban>,
        limit: usize,
    ) -> StoreResult<Vec<Ban>> {
        let lives = self.lives.lock();
        match lives.kept.get(live) {
            Some(kept) => Ok(kept.book.page(after, limit)),
            None => Ok(Vec::new()),
        }
    }

    async fn restore_bans(
        &self,
        live: &LiveId,
        epoch: Epoch,
        bans: &[(UserId, Duration)],
    ) -> StoreResult<()> {
        // An epoch that is over needs no bans.
        let _ = self.with_book(live, epoch, |kept, now| kept.book.restore(bans, now));
        Ok(())
    }
}
