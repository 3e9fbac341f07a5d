//! The counts that other services read, in the embedded store: in the records, and the ranks on the
//! list.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::records::{Records, watched_until};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::LiveId;
use crate::store::{
    COUNT_EVERY, CountLive, CountReply, Counted, Counts, Figures, Rank, RankedLive, StoreResult,
};
use crate::store::{HISTORY_STEP, MAX_POINTS, Point};

/// How long it is too early to write again after the write of `last`; `None` if it is not too
/// early.
pub(crate) fn left_until_due(
    last: Option<Counted>,
    every: Duration,
    now: UnixMillis,
) -> Option<Duration> {
    let due = last?.at + millis(every);
    let left = Duration::from_millis(due.checked_sub(now)?);
    // If more than `every` is left, the clock went back.
    if left.is_zero() || left > every {
        return None;
    }
    Some(left)
}

#[async_trait]
impl Counts for MemoryStore {
    async fn count_live(&self, request: &CountLive) -> StoreResult<CountReply> {
        let now = self.now();
        let mut lives = self.lives.lock();
        let Records {
            kept, histories, ..
        } = &mut *lives;
        let Some(kept) = kept.get_mut(&request.live) else {
            return Ok(CountReply::NotOpen);
        };
        let record = &mut kept.record;
        if !record.is_open_in(request.epoch) {
            return Ok(CountReply::NotOpen);
        }
        let arrived = record.sums.arrived.max(request.arrived);
        let is_known =
            record.sums.arrived == arrived && record.peaks.max(request.peaks) == record.peaks;
        if record.figures() == request.figures && is_known {
            return Ok(CountReply::Same);
        }
        if let Some(left) = left_until_due(record.counted, COUNT_EVERY, now) {
            return Ok(CountReply::Early(left));
        }
        watched_until(now, record, record.counted);
        record.counted = Some(Counted {
            figures: request.figures,
            at: now,
        });
        record.sums.arrived = arrived;
        record.peaks = record.peaks.max(request.peaks);
        let point = Point {
            at: now - now % millis(HISTORY_STEP),
            figures: request.figures,
            arrived,
        };
        let history = histories.entry(record.live_epoch()).or_default();
        history.insert(point.at, point);
        if history.len() > MAX_POINTS {
            history.pop_first();
        }
        Ok(CountReply::Counted)
    }

    async fn rank_lives(&self, figures: &[(LiveId, Figures)]) -> StoreResult<()> {
        let mut lives = self.lives.lock();
        for (live, figures) in figures {
            lives.listed.rank(live, *figures);
        }
        Ok(())
    }

    async fn ranked_figures(&self, asked: &[LiveId]) -> StoreResult<Vec<Option<Figures>>> {
        let lives = self.lives.lock();
        Ok(asked.iter().map(|live| lives.listed.ranked(live)).collect())
    }

    async fn top_lives(
        &self,
        rank: Rank,
        after: Option<&RankedLive>,
        limit: usize,
    ) -> StoreResult<Vec<RankedLive>> {
        Ok(self.lives.lock().listed.top(rank, after, limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_went_back_holds_up_no_write() {
        let every = Duration::from_secs(5);
        let last = Some(Counted {
            figures: Figures::default(),
            at: 100_000,
        });
        assert_eq!(left_until_due(None, every, 0), None);
        assert_eq!(
            left_until_due(last, every, 101_000),
            Some(Duration::from_secs(4))
        );
        assert_eq!(left_until_due(last, every, 105_000), None);
        assert_eq!(left_until_due(last, every, 40_000), None);
    }
}
