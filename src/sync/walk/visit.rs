//! Visits lives: does for each what its record asks for. Lives are visited in groups, whose records
//! and slices are read together.

use futures_util::{StreamExt, stream};

use super::Walk;
use super::slices::{ReadSlice, WalkedSlice};
use super::state::{Occasion, WalkState};
use crate::base::ids::{LiveId, SliceId};
use crate::store::{LiveRecord, LiveState, StoreError, StoreResult, both};
use crate::sync::count::count_nobody;

/// Maximum lives that are visited at the same time.
const MAX_CONCURRENT_VISITS: usize = 64;

/// A live to visit.
struct Visit {
    live: LiveId,
    record: StoreResult<Option<LiveRecord>>,
    /// The slices of the live if it is open, as they were read.
    slices: Vec<ReadSlice>,
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
        let records = self.store.load_lives(&lives).await;
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
        let slices: Vec<SliceId> = open.iter().flat_map(LiveRecord::all_slices).collect();
        let found = self.store.survey(&slices).await;
        if occasion == Occasion::Regular {
            self.feeds.announce_missing(&open).await;
            self.attendance.begin_missing(&open).await;
        }
        let mut read = slices
            .into_iter()
            .zip(found)
            .map(|(id, found)| ReadSlice { id, found });
        let mut visits = Vec::with_capacity(lives.len());
        for (live, record) in lives.into_iter().zip(records) {
            let slices = match &record {
                Ok(Some(open)) if open.state == LiveState::Open => {
                    read.by_ref().take(open.all_slices().count()).collect()
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
        let mut to_search = Vec::new();
        for (live, visited) in visited {
            let slices = self.note_visited(memory, live, visited);
            if occasion == Occasion::Regular {
                to_search.extend(slices);
            }
        }
        self.search_slices(memory, to_search).await;
    }

    /// Notes the result of a visit. Answers the slices that a regular walk has to search for
    /// strays.
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
                self.outbox.doubt(&live);
                memory.unrecorded.entry(live).or_insert(self.clock.now());
            }
            Ok(Visited::Open(mut slices)) => {
                if !memory.has_strays_turn(&live) {
                    slices.retain(WalkedSlice::is_small);
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
                self.store.delist(&visit.live).await?;
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
        read: Vec<ReadSlice>,
    ) -> StoreResult<Visited> {
        self.lives.found_stream(record);
        let roster = self.gateways.roster();
        let mut result = Ok(());
        let mut slices = Vec::with_capacity(read.len());
        let mut users = 0;
        for slice in read {
            if let Ok(found) = &slice.found {
                // The dead are swept now, or were not yet when the slice was read.
                for part in &found.parts {
                    if !roster.dead.contains(&part.gateway) {
                        users += part.held;
                    }
                }
            }
            match self.close_or_sweep(record, slice).await {
                Ok(walked) => slices.extend(walked),
                Err(why) => result = both(result, Err(why)),
            }
        }
        // The last viewers may have gone with a dead gateway.
        let is_empty = users == 0 && result.is_ok();
        if is_empty
            && let Some(counted) = record.counted
            && !counted.figures.is_zero()
        {
            // If it is too early, the next walk does it.
            let counted = count_nobody(self.store.as_ref(), &record.live, record.epoch).await;
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
            self.absent_streamers.found_present(&record.live);
        } else {
            self.absent_streamers
                .found_absent(&record.live, self.clock.now());
        }
        Ok(())
    }
}
