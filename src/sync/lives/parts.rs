//! What opening and closing a live work with, shared with the tasks that carry out closes; and what both read.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use tokio_util::task::TaskTracker;

use super::types::LiveError;
use crate::base::clock::Clock;
use crate::base::ids::LiveId;
use crate::base::metrics::Metrics;
use crate::peers::Outbox;
use crate::presence::Rooms;
use crate::presence::checks::Checks;
use crate::presence::gateways::Gateways;
use crate::store::{GatewayViewers, LiveRecord, SliceReading, Store, StoreResult};

/// Slices closed or read at a time.
pub(super) const SLICES_AT_A_TIME: usize = 32;

pub struct LivesParts {
    /// The store's share for what clients ask.
    pub store: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub checks: Arc<Checks>,
    pub outbox: Arc<Outbox>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    /// Whether new lives keep all their viewers in slices.
    pub exact_viewers: bool,
    /// How long the record of a closed live is kept.
    pub closed_ttl: Duration,
    /// Tasks that must end before the process does.
    pub tasks: TaskTracker,
}

/// The record of a live: the store's or, if the store has lost it, that of the room here.
pub(crate) async fn known_record(store: &dyn Store, rooms: &Rooms, live: &LiveId) -> Result<LiveRecord, LiveError> {
    match store.load_live(live).await? {
        Some(record) => Ok(record),
        None => Ok(rooms.get(live).ok_or_else(|| LiveError::NeverOpened(live.clone()))?.record.clone()),
    }
}

impl LivesParts {
    /// What the gateways said of their viewers; `None` if the store does not answer, which keeps nobody from joining.
    pub(super) async fn viewers(&self, record: &LiveRecord) -> Option<Vec<GatewayViewers>> {
        if record.exact_viewers {
            return Some(Vec::new());
        }
        let said = self.store.view_viewers(&record.live, record.epoch).await;
        said.inspect_err(|why| tracing::debug!(live_id = %record.live, error = %why, "could not read peers' viewers"))
            .ok()
            .flatten()
    }

    /// Each slice by its place, as this gateway sees it.
    pub(super) async fn read_slices(&self, record: &LiveRecord) -> StoreResult<Vec<(usize, SliceReading)>> {
        let own = self.gateways.id();
        stream::iter(record.all_slices().enumerate())
            .map(|(place, slice)| {
                let own = &own;
                async move { Ok((place, self.store.read_slice(&slice, own).await?)) }
            })
            .buffer_unordered(SLICES_AT_A_TIME)
            .try_collect()
            .await
    }
}
