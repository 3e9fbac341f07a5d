//! Histories and summaries in the embedded store.

use std::ops::Bound;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::UserId;
use crate::store::{History, LiveEpoch, MAX_PAST_LIVES, PastLive, Point, StoreResult, Summary};

#[async_trait]
impl History for MemoryStore {
    async fn history(
        &self,
        of: &LiveEpoch,
        from: UnixMillis,
        to: UnixMillis,
    ) -> StoreResult<Vec<Point>> {
        let lives = self.lives.lock();
        match lives.histories.get(of) {
            // The map panics at a range that ends before it begins.
            Some(points) if from <= to => {
                Ok(points.range(from..=to).map(|(_, point)| *point).collect())
            }
            _ => Ok(Vec::new()),
        }
    }

    async fn add_past_live(&self, summary: &Summary, keep: Duration) -> StoreResult<()> {
        let oldest = self.now().saturating_sub(millis(keep));
        let mut lives = self.lives.lock();
        let past = lives.past.entry(summary.streamer_id.clone()).or_default();
        past.insert((summary.closed_at, summary.past().of), summary.clone());
        while let Some(((closed_at, _), _)) = past.first_key_value()
            && (past.len() > MAX_PAST_LIVES || *closed_at < oldest)
        {
            past.pop_first();
        }
        Ok(())
    }

    async fn past_lives(
        &self,
        streamer: &UserId,
        after: Option<&PastLive>,
        limit: usize,
    ) -> StoreResult<Vec<Summary>> {
        let lives = self.lives.lock();
        let Some(past) = lives.past.get(streamer) else {
            return Ok(Vec::new());
        };
        let before = match after {
            Some(last) => Bound::Excluded((last.closed_at, last.of.clone())),
            None => Bound::Unbounded,
        };
        let newest_first = past.range((Bound::Unbounded, before)).rev();
        Ok(newest_first
            .take(limit)
            .map(|(_, summary)| summary.clone())
            .collect())
    }

    async fn past_live(&self, streamer: &UserId, of: &LiveEpoch) -> StoreResult<Option<Summary>> {
        let lives = self.lives.lock();
        let Some(past) = lives.past.get(streamer) else {
            return Ok(None);
        };
        for ((_, past), summary) in past {
            if past == of {
                return Ok(Some(summary.clone()));
            }
        }
        Ok(None)
    }
}
