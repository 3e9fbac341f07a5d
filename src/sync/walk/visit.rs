//! Visits lives: does for each what its record asks for. Lives are visited in groups, whose records
//! and slices are read together.

use futures_util::{StreamExt, stream};

use super::Walk;
use super::slices::{FoundSlice, WalkedSlice};
use super::state::{Occasion, WalkState};
use crate::base::ids::{Epoch, LiveId, SliceId};
use crate::store::{LiveRecord, LiveState, StoreError, StoreResult, both};
use crate::sync::count::count_nobody;

/// Maximum lives that are visited at the same time.
const MAX_CONCURRENT_VISITS: usize = 64;

/// A live to visit.
struct Visit {
    live: LiveId,
    record: StoreResult<Option<LiveRecord>>,
    /// The slices of the live if it is open, as they were found.
    slices: Vec<FoundSlice>,
}

/// The result of a visit.
enum Visited {
    Done,
    /// The live is listed and has no record.
    Unrecorded,
    /// The live is open; its slices.
    Open(Vec<WalkedSlice>),
}

impl Walk {
    /// Visits some lives, and notes those that could not be reached.
    pub(super) async fn visit_lives(
        &self,
        memory: &mut WalkState,
        lives: Vec<LiveId>,
        occasion: Occasion,
    ) {
        let records = self.core.store.load_lives(&lives).await;
        if let Err(why) = self.repair_ranks(&records).await {
            tracing::debug!(error = %why, "ranks were not compared with the records");
        }
        for (live, record) in lives.iter().zip(&records) {
            if !matches!(record, Ok(None)) {
                memory.unrecorded.remove(live);
            }
        }
        let open: Vec<LiveRecord> = records
            .iter()
            .flatten()
            .flatten()
            .filter(|record| record.state == LiveState::Open)
            .cloned()
            .collect();
        self.finish_events(&open).await;
        let mut slices: Vec<(SliceId, Epoch)> = Vec::new();
        for record in &open {
            slices.extend(record.all_slices().map(|slice| (slice, record.epoch)));
        }
        let mut found = self.look(slices).await.into_iter();
        if occasion == Occasion::Regular {
            self.features.walked(&open).await;
        }
        let mut visits = Vec::with_capacity(lives.len());
        for (live, record) in lives.into_iter().zip(records) {
            let slices = match &record {
                Ok(Some(open)) if open.state == LiveState::Open => {
                    found.by_ref().take(open.all_slices().count()).collect()
                }
                _ => Vec::new(),
            };
            visits.push(Visit {
                live,
                record,
                slices,
            });
        }
        let visited: Vec<_> = stream::iter(visits)
            .map(|visit| async move {
                let live = visit.live.clone();
                (live, self.visit_live(visit).await)
            })
            .buffer_unordered(MAX_CONCURRENT_VISITS)
            .collect()
            .await;
        let mut walked = Vec::new();
        for (live, visited) in visited {
            walked.extend(self.note_visited(memory, live, visited));
        }
        if occasion == Occasion::Regular {
            self.compare_in_turn(memory, walked).await;
        }
    }

    /// Notes the result of a visit. Answers the slices of an open live.
    fn note_visited(
        &self,
        memory: &mut WalkState,
        live: LiveId,
        visited: StoreResult<Visited>,
    ) -> Vec<WalkedSlice> {
        match visited {
            Ok(Visited::Done) => {}
            Ok(Visited::Unrecorded) => {
                // A gateway that holds the live writes the record again.
                self.core.to_peers.doubt(&live);
                memory
                    .unrecorded
                    .entry(live)
                    .or_insert(self.core.clock.now());
            }
            Ok(Visited::Open(slices)) => {
                if slices.iter().any(|slice| !slice.size.is_in_order()) {
                    memory.open.push(live);
                }
                return slices;
            }
            // A live that another program garbled will be no better next time.
            Err(why @ StoreError::Nonsense(_)) => {
                tracing::warn!(live_id = %live, error = %why, "cannot look after a live");
            }
            Err(why) => {
                tracing::debug!(
                    live_id = %live, error = %why,
                    "could not look after a live, will try again"
                );
                memory.failed.push(live);
            }
        }
        Vec::new()
    }

    async fn visit_live(&self, visit: Visit) -> StoreResult<Visited> {
        let Some(record) = visit.record? else {
            return Ok(Visited::Unrecorded);
        };
        match record.state {
            LiveState::Closed => {
                self.core.store.delist(&visit.live).await?;
                Ok(Visited::Done)
            }
            LiveState::Closing => {
                tracing::info!(
                    live_id = %visit.live,
                    "finishing a close that another gateway began"
                );
                self.lives.finish(record).await?;
                Ok(Visited::Done)
            }
            LiveState::Open => self.visit_open_live(&record, visit.slices).await,
        }
    }

    /// Visits an open live. Its slices, its record and its streamer's presence may lie on different
    /// nodes, so an error in one of them does not stop the work on the others.
    async fn visit_open_live(
        &self,
        record: &LiveRecord,
        found: Vec<FoundSlice>,
    ) -> StoreResult<Visited> {
        self.features.found_open(record);
        let mut result = Ok(());
        let mut slices = Vec::with_capacity(found.len());
        for slice in found {
            match self.close_or_put_right(record, slice).await {
                Ok(walked) => slices.extend(walked),
                Err(why) => result = both(result, Err(why)),
            }
        }
        // The last viewers may have gone with a dead gateway.
        let is_empty = result.is_ok()
            && slices.iter().all(WalkedSlice::is_empty)
            && slices.iter().any(|slice| slice.size.version > 0);
        if is_empty
            && let Some(counted) = record.counted
            && !counted.figures.is_zero()
        {
            // If it is too early, the next walk does it.
            let counted = count_nobody(self.core.store.as_ref(), &record.live, record.epoch).await;
            result = both(result, counted.map(drop));
        }
        both(result, self.judge_streamer(record).await).map(|()| Visited::Open(slices))
    }

    /// Notes whether the streamer of an open live is connected, if the live has a timeout.
    async fn judge_streamer(&self, record: &LiveRecord) -> StoreResult<()> {
        if self.streamer_timeout.timeout_of(record).is_none() {
            return Ok(());
        }
        if self.streamer_timeout.is_connected(record).await? {
            self.core.absent_streamers.found_present(&record.live);
        } else {
            self.core
                .absent_streamers
                .found_absent(&record.live, self.core.clock.now());
        }
        Ok(())
    }
}
