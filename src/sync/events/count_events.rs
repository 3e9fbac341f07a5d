//! Notes `live.counts` for lives whose figures were written: the first change at once, later ones
//! at most every ten seconds per live, and always the last. The store keeps the time, so it does not
//! matter which gateways write a live's figures. The walk finds the changes that a dead gateway did
//! not note.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::announce;
use crate::base::backoff::RETRY_DELAY_MS;
use crate::base::clock::{Moment, millis};
use crate::base::ids::{Epoch, LiveId};
use crate::peers::core::Core;
use crate::store::{LiveRecord, NotedCounts, StoreResult};

/// How often the due changes are noted.
const TICK: Duration = Duration::from_millis(250);

const MAX_CONCURRENT_CALLS: usize = 64;

/// Lives whose figures changed. At most one entry for each live that this gateway writes figures
/// of, or walks over.
pub struct CountEvents {
    pub core: Arc<Core>,
    pub due: Mutex<HashMap<LiveId, DueCounts>>,
}

/// A change of a live's figures that is to be noted.
#[derive(Debug, Clone, Copy)]
pub struct DueCounts {
    epoch: Epoch,
    at: Moment,
}

impl CountEvents {
    /// The figures of this live may differ from those that were told.
    pub fn changed(&self, live: &LiveId, epoch: Epoch) {
        let mut due = self.due.lock();
        let change = DueCounts {
            epoch,
            at: Moment::START,
        };
        let known = due.entry(live.clone()).or_insert(change);
        if known.epoch < epoch {
            *known = change;
        }
    }

    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            let now = self.core.clock.now();
            let due: Vec<_> = self
                .due
                .lock()
                .extract_if(|_, change| change.at <= now)
                .collect();
            if !due.is_empty() {
                self.note(due).await;
            }
        }
    }

    async fn note(&self, due: Vec<(LiveId, DueCounts)>) {
        let looks = stream::iter(due).map(|(live, change)| async move {
            let noted = self.core.store.note_counts(&live, change.epoch).await;
            (live, change.epoch, noted)
        });
        let looked: Vec<_> = looks.buffer_unordered(MAX_CONCURRENT_CALLS).collect().await;
        let mut records = Vec::new();
        for (live, epoch, noted) in looked {
            if let Some(record) = self.noted(live, epoch, noted) {
                records.push(record);
            }
        }
        if let Err(why) = announce(
            self.core.store.as_ref(),
            &records,
            self.core.config.events_kept,
        )
        .await
        {
            // They are pending in the records.
            tracing::warn!(
                lives = records.len(), error = %why,
                "counts were not written as events; the walk will"
            );
        }
    }

    /// The record whose events wait, if any.
    fn noted(
        &self,
        live: LiveId,
        epoch: Epoch,
        noted: StoreResult<NotedCounts>,
    ) -> Option<LiveRecord> {
        let wait = match noted {
            Ok(NotedCounts::Noted(record)) => return Some(*record),
            Ok(NotedCounts::Same | NotedCounts::Over) => return None,
            Ok(NotedCounts::Early(left)) => millis(left),
            Err(why) => {
                tracing::debug!(
                    live_id = %live, error = %why,
                    "counts were not noted as an event, will try again"
                );
                RETRY_DELAY_MS
            }
        };
        let at = self.core.clock.now() + wait;
        self.due
            .lock()
            .entry(live)
            .or_insert(DueCounts { epoch, at });
        None
    }
}
