//! Owns the look over many lives at a time in the embedded store.

use async_trait::async_trait;

use super::MemoryStore;
use crate::clock::millis;
use crate::ids::{LiveId, SliceId};
use crate::store::surveys::LOOKED_FOR;
use crate::store::{LiveState, OpenedBy, Slices, StoreResult, Survey, Surveys};

/// On more gateways a live is looked at by itself, as Redis has it for the sake of its calls' size.
const MOST_GATEWAYS: usize = 5;

impl MemoryStore {
    /// Whether a live is open and of one slice, and its streamer is not silent.
    fn is_calm(&self, live: &LiveId, survey: Survey) -> bool {
        let now = self.now();
        let lives = self.lives.lock();
        let Some(kept) = lives.kept.get(live) else { return false };
        let record = &kept.record;
        let heard = record.opened_by == OpenedBy::Service || kept.silent(now) < millis(survey.streamer);
        record.state == LiveState::Open && record.slices == 1 && heard
    }
}

#[async_trait]
impl Surveys for MemoryStore {
    async fn survey(&self, lives: &[LiveId], survey: Survey) -> StoreResult<Vec<bool>> {
        let look = self.own_leases.lock().is_anybody_late(survey.lease, LOOKED_FOR, self.now());
        let mut needy = Vec::with_capacity(lives.len());
        for live in lives {
            let slice = SliceId { live: live.clone(), index: 1, of: 1 };
            let few = self.read(&slice, |slice| slice.gateways() <= MOST_GATEWAYS);
            let fresh = self.view_slice(&slice, survey.lease).await?.silent.is_empty();
            needy.push(!(self.is_calm(live, survey) && (!look || few && fresh)));
        }
        Ok(needy)
    }
}
