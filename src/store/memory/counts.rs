//! The counts that other services read, in the embedded store: in the records, and the ranks on the list.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::records::{Records, watched_until};
use crate::base::clock::millis;
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::store::{
    COUNT_EVERY, CountLive, CountReply, Counted, Counts, Figures, HISTORY_STEP, LiveState, MAX_POINTS, Point, Rank,
    RankedLive, StoreResult,
};

#[async_trait]
impl Counts for MemoryStore {
    async fn count_live(&self, request: &CountLive) -> StoreResult<CountReply> {
        let now = self.now();
        let mut lives = self.lives.lock();
        let Records { kept, histories, .. } = &mut *lives;
        let record = kept.get_mut(&request.live).map(|kept| &mut kept.record);
        let Some(record) = record.filter(|record| record.state == LiveState::Open && record.epoch == request.epoch)
        else {
            return Ok(CountReply::NotOpen);
        };
        let is_known =
            record.sums.arrivals.covers(&request.arrivals) && record.peaks.max(request.peaks) == record.peaks;
        if record.counted.map(|counted| counted.figures).unwrap_or_default() == request.figures && is_known {
            return Ok(CountReply::Same);
        }
        let due = record.counted.map_or(0, |counted| counted.at + millis(COUNT_EVERY));
        if now < due {
            return Ok(CountReply::Early(Duration::from_millis(due - now)));
        }
        watched_until(now, record, record.counted);
        record.counted = Some(Counted { figures: request.figures, at: now });
        record.sums.arrivals.merge(&request.arrivals);
        record.peaks = record.peaks.max(request.peaks);
        let point = Point {
            at: now - now % millis(HISTORY_STEP),
            figures: request.figures,
            arrived: record.sums.arrivals.sum(),
        };
        let history = histories.entry(record.live_epoch()).or_default();
        history.insert(point.at, point);
        if history.len() > MAX_POINTS {
            history.pop_first();
        }
        Ok(CountReply::Counted)
    }

    async fn fold_arrivals(&self, live: &LiveId, epoch: Epoch, gone: &[GatewayId]) -> StoreResult<bool> {
        let now = self.now();
        let mut lives = self.lives.lock();
        let record = lives.kept.get_mut(live).map(|kept| &mut kept.record);
        let record = record.filter(|record| record.state == LiveState::Open && record.epoch == epoch);
        Ok(record.is_some_and(|record| record.sums.arrivals.fold(gone, now)))
    }

    async fn rank_lives(&self, figures: &[(LiveId, Figures)]) -> StoreResult<()> {
        let mut lives = self.lives.lock();
        figures.iter().for_each(|(live, figures)| lives.listed.rank(live, *figures));
        Ok(())
    }

    async fn ranked_figures(&self, asked: &[LiveId]) -> StoreResult<Vec<Option<Figures>>> {
        let lives = self.lives.lock();
        Ok(asked.iter().map(|live| lives.listed.ranked(live)).collect())
    }

    async fn top_lives(&self, rank: Rank, after: Option<&RankedLive>, limit: usize) -> StoreResult<Vec<RankedLive>> {
        Ok(self.lives.lock().listed.top(rank, after, limit))
    }
}
