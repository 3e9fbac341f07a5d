//! The parts that opening and closing a live work with, shared with the tasks that carry out closes,
//! and the reads that both make.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::types::LiveError;
use crate::base::clock::Clock;
use crate::base::ids::{LiveId, SliceId};
use crate::base::metrics::Metrics;
use crate::peers::Outbox;
use crate::presence::absent_streamers::AbsentStreamers;
use crate::presence::checks::Checks;
use crate::presence::erasing::ErasingUsers;
use crate::presence::gateways::Gateways;
use crate::presence::watched_streams::WatchedStreams;
use crate::presence::{Room, Rooms};
use crate::store::{
    ClaimLimits, Counted, Entries, Figures, LiveRecord, SliceLook, Store, StoreError, StoreResult,
};
use crate::sync::social::feeds::Feeds;

/// Maximum slices that are closed at the same time.
pub(super) const MAX_CONCURRENT_SLICES: usize = 32;

pub struct LivesParts {
    /// The store's share for what clients ask.
    pub store: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub checks: Arc<Checks>,
    pub absent_streamers: Arc<AbsentStreamers>,
    pub watched_streams: Arc<WatchedStreams>,
    pub outbox: Arc<Outbox>,
    pub feeds: Arc<Feeds>,
    pub erasing: Arc<ErasingUsers>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    /// Whether to count how many different users come.
    pub uniques: bool,
    /// How long the record of a closed live is kept.
    pub closed_ttl: Duration,
    /// About how many events the stream keeps.
    pub events_kept: u64,
    /// How many lives a streamer's own tokens may open; `None`: none.
    pub claim_limits: Option<ClaimLimits>,
    /// Tasks that must end before the process does.
    pub tasks: TaskTracker,
}

/// The record of a live: the store's or, if the store has lost it, that of the room here.
pub(crate) async fn known_record(
    store: &dyn Store,
    rooms: &Rooms,
    live: &LiveId,
) -> Result<LiveRecord, LiveError> {
    match store.load_live(live).await? {
        Some(record) => Ok(record),
        None => Ok(rooms
            .get(live)
            .ok_or_else(|| LiveError::NeverOpened(live.clone()))?
            .record_now()),
    }
}

impl LivesParts {
    /// The record of a live as its room here has it, with the counts of this moment.
    pub(super) fn as_of_room(&self, room: &Room) -> (LiveRecord, Figures) {
        let figures = room.figures();
        let at = self.clock.unix();
        let counted = Some(Counted { figures, at });
        (
            LiveRecord {
                peaks: room.figures.peaks(),
                counted,
                ..room.record_now()
            },
            figures,
        )
    }

    /// The records of lives with their counts: present counts for lives with a room here, and the
    /// last written counts for others. `None` for a live without a record.
    pub(super) async fn counted(&self, lives: &[LiveId]) -> StoreResult<Vec<Option<LiveRecord>>> {
        let mut found: Vec<Option<LiveRecord>> = Vec::with_capacity(lives.len());
        for live in lives {
            let room = self.rooms.get(live);
            found.push(room.map(|room| self.as_of_room(&room).0));
        }
        let places: Vec<usize> = (0..lives.len())
            .filter(|place| found[*place].is_none())
            .collect();
        let elsewhere: Vec<LiveId> = places.iter().map(|place| lives[*place].clone()).collect();
        for (place, record) in places
            .into_iter()
            .zip(self.store.load_lives(&elsewhere).await)
        {
            found[place] = match record {
                // Another program garbled the record, which must not hide the others.
                Err(StoreError::Nonsense(what)) => {
                    tracing::warn!(live_id = %lives[place], what, "a record cannot be read");
                    None
                }
                record => record?,
            };
        }
        Ok(found)
    }

    /// Notes what a record says of the stream of a live that has a room here.
    pub(super) async fn note_stream(
        &self,
        room: &Arc<Room>,
        record: &LiveRecord,
    ) -> StoreResult<()> {
        self.watched_streams.note(record, 0, self.clock.now());
        let is_known = room.stream.state().is_some() || record.stream.is_none();
        if !is_known || record.stream != room.stream.status() {
            let known = self.store.load_streams(&record.live).await?;
            self.rooms.note_stream(room, &known);
        }
        Ok(())
    }

    /// Each slice, as this gateway sees it.
    pub(super) async fn look_at_slices(&self, record: &LiveRecord) -> StoreResult<Vec<SliceLook>> {
        let slices: Vec<SliceId> = record.all_slices().collect();
        let own = self.gateways.id();
        let found = self.store.look(&slices, &own, Entries::All).await;
        found.into_iter().collect()
    }
}
