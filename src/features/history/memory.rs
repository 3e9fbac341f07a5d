//! Histories and summaries in the embedded store.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::UserId;
use crate::features::history::store::{History, MAX_PAST_LIVES, PastLive};
use crate::store::LiveEpoch;
use crate::store::PersonalData;
use crate::store::Point;
use crate::store::StoreResult;
use crate::store::Summary;
use crate::store::memory::MemoryStore;
use crate::store::memory::states::{State, StateErasure};

/// The past lives of streamers.
#[derive(Debug, Clone, Default)]
pub(crate) struct PastOfStreamers {
    lives: HashMap<UserId, BTreeMap<(UnixMillis, LiveEpoch), Summary>>,
    /// When each is due to be forgotten, in about that order.
    due: VecDeque<(UnixMillis, UserId, (UnixMillis, LiveEpoch))>,
}

impl PastOfStreamers {
    /// Adds a past live, which is forgotten at `until`. Those of the streamer that closed before
    /// `oldest` go.
    fn add(&mut self, summary: &Summary, oldest: UnixMillis, until: UnixMillis) {
        let place = (summary.closed_at, PastLive::of(summary).of);
        let past = self.lives.entry(summary.streamer_id.clone()).or_default();
        past.insert(place.clone(), summary.clone());
        while let Some(((closed_at, _), _)) = past.first_key_value()
            && (past.len() > MAX_PAST_LIVES || *closed_at < oldest)
        {
            past.pop_first();
        }
        let streamer = summary.streamer_id.clone();
        self.due.push_back((until, streamer, place));
    }

    fn forget(&mut self, now: UnixMillis) {
        while let Some((_, streamer, place)) = self.due.pop_front_if(|(due, ..)| *due < now) {
            if let Some(past) = self.lives.get_mut(&streamer) {
                past.remove(&place);
                if past.is_empty() {
                    self.lives.remove(&streamer);
                }
            }
        }
    }
}

impl State for PastOfStreamers {
    fn erase(&mut self, erasure: &mut StateErasure<'_>) {
        if let Some(past) = self.lives.remove(erasure.user) {
            erasure.step.add(PersonalData::PastLives, past.len() as u64);
        }
    }
}

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
        let now = self.now();
        let mut past = self.states.lock::<PastOfStreamers>();
        past.forget(now);
        past.add(
            summary,
            now.saturating_sub(millis(keep)),
            summary.closed_at + millis(keep),
        );
        Ok(())
    }

    async fn past_lives(
        &self,
        streamer: &UserId,
        after: Option<&PastLive>,
        limit: usize,
    ) -> StoreResult<Vec<Summary>> {
        let mut kept = self.states.lock::<PastOfStreamers>();
        kept.forget(self.now());
        let Some(past) = kept.lives.get(streamer) else {
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
        let mut kept = self.states.lock::<PastOfStreamers>();
        kept.forget(self.now());
        let Some(past) = kept.lives.get(streamer) else {
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
