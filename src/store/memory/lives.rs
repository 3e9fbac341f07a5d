//! The calls on lives in the embedded store. All of them take one small lock: a live is opened,
//! closed and touched rarely.

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::store::slice::StoredSlice;
use crate::store::{
    ChangeLive, ChangeReply, CloseLive, CloseReply, FinishClose, ListedLive, LiveRecord, LiveState,
    LiveStore, OpenLive, OpenReply, RecordStanding, StoreResult,
};

#[async_trait]
impl LiveStore for MemoryStore {
    async fn open_live(&self, request: &OpenLive) -> StoreResult<OpenReply> {
        let mut floor = Epoch(0);
        for slice in request.all_slices() {
            if let Some(fence) = self.read(&slice, StoredSlice::fence) {
                floor = floor.max(fence.epoch());
            }
        }
        let now = self.now();
        let reply = self.lives.lock().open(request, floor, now);
        if let OpenReply::Opened(_) = reply {
            self.publish_on_live(&request.live, &request.message);
        }
        Ok(reply)
    }

    async fn load_live(&self, live: &LiveId) -> StoreResult<Option<LiveRecord>> {
        Ok(self
            .lives
            .lock()
            .kept
            .get(live)
            .map(|kept| kept.record.clone()))
    }

    async fn load_lives(&self, lives: &[LiveId]) -> Vec<StoreResult<Option<LiveRecord>>> {
        let mut records = Vec::with_capacity(lives.len());
        for live in lives {
            records.push(self.load_live(live).await);
        }
        records
    }

    async fn keep_live(&self, known: &LiveRecord, message: &str) -> StoreResult<RecordStanding> {
        let standing = self.lives.lock().keep(known);
        if standing == RecordStanding::Rewritten {
            self.publish_on_live(&known.live, message);
        }
        Ok(standing)
    }

    async fn change_live(&self, request: &ChangeLive) -> StoreResult<ChangeReply> {
        let now = self.now();
        let reply = self.lives.lock().change(request, now);
        if let ChangeReply::Changed(_) = reply {
            self.publish_on_live(&request.live, &request.message);
        }
        Ok(reply)
    }

    async fn are_listed(&self, lives: &[LiveId]) -> StoreResult<Vec<bool>> {
        let listed = &self.lives.lock().listed;
        Ok(lives
            .iter()
            .map(|live| listed.contains(live.as_str()))
            .collect())
    }

    async fn list_live(&self, live: &LiveId, opened_at: UnixMillis) -> StoreResult<()> {
        self.lives.lock().listed.put(live, opened_at);
        Ok(())
    }

    async fn begin_close(&self, request: &CloseLive) -> StoreResult<CloseReply> {
        let now = self.now();
        let reply = self.lives.lock().begin_close(request, now);
        if let CloseReply::Closing(_) = reply {
            self.publish_on_live(&request.live, &request.message);
        }
        Ok(reply)
    }

    async fn finish_close(&self, request: &FinishClose) -> StoreResult<Option<LiveRecord>> {
        let now = self.now();
        Ok(self.lives.lock().finish_close(request, now))
    }

    async fn lives_page(
        &self,
        after: Option<&ListedLive>,
        limit: usize,
    ) -> StoreResult<Vec<ListedLive>> {
        Ok(self.lives.lock().listed.page(after, limit))
    }

    async fn delist(&self, live: &LiveId) -> StoreResult<()> {
        let mut lives = self.lives.lock();
        let is_over = match lives.kept.get(live) {
            Some(kept) => kept.record.state == LiveState::Closed,
            None => true,
        };
        if is_over {
            lives.listed.take(live);
        }
        Ok(())
    }

    async fn take_walk_turn(
        &self,
        gateway: &GatewayId,
        ttl: Duration,
        dead: &HashSet<GatewayId>,
    ) -> StoreResult<bool> {
        let now = self.now();
        let mut lives = self.lives.lock();
        if let Some((holder, until)) = &lives.turn
            && holder != gateway
            && !dead.contains(holder)
            && *until > now
        {
            return Ok(false);
        }
        lives.turn = Some((gateway.clone(), now + millis(ttl)));
        Ok(true)
    }
}
