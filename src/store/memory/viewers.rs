//! The viewers per gateway in the embedded store: each record has its board, under the records' lock.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::store::{AnnounceReply, AnnounceViewers, AnnouncedViewers, GatewayViewers, LiveState, StoreResult, Viewers};

impl MemoryStore {
    fn with_board<T>(&self, live: &LiveId, epoch: Epoch, with: impl FnOnce(&mut AnnouncedViewers) -> T) -> Option<T> {
        let mut lives = self.lives.lock();
        let kept = lives.kept.get_mut(live)?;
        let open = kept.record.state == LiveState::Open && kept.record.epoch == epoch;
        open.then(|| with(&mut kept.board))
    }
}

#[async_trait]
impl Viewers for MemoryStore {
    async fn announce_viewers(&self, call: &AnnounceViewers) -> StoreResult<AnnounceReply> {
        let now = self.now();
        // No call is delayed here, so none is late.
        let announced = self.with_board(&call.live, call.epoch, |board| board.announce(call, now, now));
        if announced.is_none() {
            return Ok(AnnounceReply::NotOpen);
        }
        self.publish_on_live(&call.live, &call.message);
        Ok(AnnounceReply::Announced)
    }

    async fn view_viewers(&self, live: &LiveId, epoch: Epoch) -> StoreResult<Option<Vec<GatewayViewers>>> {
        Ok(self.with_board(live, epoch, |board| board.view()))
    }

    async fn survey_viewers(&self, lives: &[LiveId]) -> Vec<StoreResult<Vec<GatewayViewers>>> {
        let kept = &self.lives.lock().kept;
        lives.iter().map(|live| Ok(kept.get(live).map(|kept| kept.board.view()).unwrap_or_default())).collect()
    }

    async fn forget_viewers(&self, live: &LiveId, dead: &[GatewayId]) -> StoreResult<u64> {
        Ok(self.lives.lock().kept.get_mut(live).map_or(0, |kept| kept.board.forget(dead)))
    }
}
