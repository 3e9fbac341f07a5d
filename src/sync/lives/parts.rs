//! The parts that opening and closing a live work with, shared with the tasks that carry out closes,
//! and the reads that both make.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::types::LiveError;
use crate::base::ids::{LiveId, SliceId};
use crate::peers::core::Core;
use crate::presence::{Room, Rooms};
use crate::store::{
    ClaimLimits, Counted, Entries, Figures, LiveRecord, SliceLook, Store, StoreError, StoreResult,
};
use crate::sync::features::Features;

/// Maximum slices that are closed at the same time.
pub(super) const MAX_CONCURRENT_SLICES: usize = 32;

pub struct LivesParts {
    pub core: Arc<Core>,
    pub features: Features,
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
        let at = self.core.clock.unix();
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
            let room = self.core.rooms.get(live);
            found.push(room.map(|room| self.as_of_room(&room).0));
        }
        let places: Vec<usize> = (0..lives.len())
            .filter(|place| found[*place].is_none())
            .collect();
        let elsewhere: Vec<LiveId> = places.iter().map(|place| lives[*place].clone()).collect();
        for (place, record) in places
            .into_iter()
            .zip(self.core.store_for_clients.load_lives(&elsewhere).await)
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

    /// Each slice, as this gateway sees it.
    pub(super) async fn look_at_slices(&self, record: &LiveRecord) -> StoreResult<Vec<SliceLook>> {
        let slices: Vec<SliceId> = record.all_slices().collect();
        let own = self.core.gateways.id();
        let found = self
            .core
            .store_for_clients
            .look(&slices, &own, Entries::All)
            .await;
        found.into_iter().collect()
    }
}
