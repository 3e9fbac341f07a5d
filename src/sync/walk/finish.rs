//! Finishes work that a gateway left half done: changes of several keys, events that wait in
//! records, and ranks that differ from the records.

use super::Walk;
use crate::base::clock::Millis;
use crate::base::ids::LiveId;
use crate::store::{Counted, Figures, FinishedChanges, LiveRecord, LiveState, StoreResult};
use crate::sync::events::announce;

/// Ranks are repaired if the record was written this long ago, in ms: a gateway ranks a live after
/// it wrote the record.
const RANKED_BY_NOW: Millis = 10_000;

impl Walk {
    /// Finishes follows and other changes of several keys that a gateway left half done.
    pub(super) async fn finish_changes(&self) {
        let finished = match self.core.store.finish_changes().await {
            Ok(finished) => finished,
            Err(why) => FinishedChanges {
                failed: Some(why),
                ..FinishedChanges::default()
            },
        };
        for (user, streamer) in &finished.follows {
            self.follows.tell(user, streamer);
        }
        if finished.count > 0 {
            tracing::info!(
                changes = finished.count,
                "finished changes that a gateway left"
            );
        }
        if let Some(why) = finished.failed {
            tracing::debug!(error = %why, "a change that a gateway left could not be finished");
        }
    }

    /// Writes events of open lives that a gateway left pending.
    pub(super) async fn finish_events(&self, open: &[LiveRecord]) {
        if let Err(why) =
            announce(self.core.store.as_ref(), open, self.core.config.events_kept).await
        {
            tracing::warn!(
                error = %why,
                "events that wait in records were not written, will try again"
            );
        }
        let Some(count_events) = &self.count_events else {
            return;
        };
        for record in open {
            if figures_of(record.counted) != figures_of(record.events.told) {
                count_events.changed(&record.live, record.epoch);
            }
        }
    }

    /// Ranks lives whose ranks differ from the figures in the record: a gateway died between the
    /// two writes, or the store lost some ranks.
    pub(super) async fn repair_ranks(
        &self,
        records: &[StoreResult<Option<LiveRecord>>],
    ) -> StoreResult<()> {
        let now = self.core.clock.unix();
        let mut lives: Vec<LiveId> = Vec::new();
        let mut figures: Vec<Figures> = Vec::new();
        for record in records.iter().flatten().flatten() {
            let was_just_written = record
                .counted
                .is_some_and(|counted| counted.at + RANKED_BY_NOW >= now);
            if record.state == LiveState::Open && !was_just_written {
                lives.push(record.live.clone());
                figures.push(figures_of(record.counted).ranked());
            }
        }
        let ranked = self.core.store.ranked_figures(&lives).await?;
        let mut wrong: Vec<(LiveId, Figures)> = Vec::new();
        for ((live, figures), ranked) in lives.into_iter().zip(figures).zip(ranked) {
            if ranked != Some(figures) {
                wrong.push((live, figures));
            }
        }
        if wrong.is_empty() {
            Ok(())
        } else {
            self.core.store.rank_lives(&wrong).await
        }
    }
}

fn figures_of(counted: Option<Counted>) -> Figures {
    match counted {
        Some(counted) => counted.figures,
        None => Figures::default(),
    }
}
