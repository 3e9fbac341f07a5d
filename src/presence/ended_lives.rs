//! Lives whose rooms have ended and that need another look: a failover may bring back this
//! gateway's data in the store. Part of the schedule in [`super::checks`]. Nothing here keeps a
//! room in memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::room::Room;
use crate::base::backoff::Backoff;
use crate::base::clock::Moment;
use crate::store::LiveEpoch;
use crate::store::{CloseReason, LiveRecord};

/// The delay before the retry of a look without an answer.
const BACKOFF: Backoff = Backoff {
    first: 1_000,
    longest: 60_000,
};

/// The most lives that wait for another look; further lives get none.
const MOST: usize = 65_536;

/// The data for a look at such a live.
#[derive(Debug, Clone)]
pub struct EndedLive {
    /// The live as it was when the room was made.
    pub record: Arc<LiveRecord>,
    /// Why the live closed; `None` if it goes on without this gateway.
    pub closed: Option<CloseReason>,
    /// The number of looks without an answer.
    unanswered: u32,
}

impl EndedLive {
    /// The live of a room that has ended.
    pub fn new(room: &Room) -> Self {
        Self {
            record: Arc::new(room.record.clone()),
            closed: room.closed().map(|record| close_reason(record)),
            unanswered: 0,
        }
    }
}

fn close_reason(record: &LiveRecord) -> CloseReason {
    match &record.closure {
        Some(closure) => closure.reason,
        None => CloseReason::Requested,
    }
}

/// The lives whose last look had no answer, at most one look for each epoch: a live that is loaded
/// and evicted again and again while one node is away adds no more.
#[derive(Debug, Default)]
pub(super) struct RetriedLooks(HashMap<LiveEpoch, EndedLive>);

impl RetriedLooks {
    /// Adds a look without an answer. Returns when its retry is due; `None` if another look of this
    /// epoch waits.
    pub(super) fn add(&mut self, mut live: EndedLive, now: Moment) -> Option<Moment> {
        let at = now + BACKOFF.wait(live.unanswered);
        live.unanswered += 1;
        match self.0.entry(live.record.live_epoch()) {
            Entry::Vacant(place) => {
                place.insert(live);
                Some(at)
            }
            Entry::Occupied(mut there) => {
                let there = there.get_mut();
                there.closed = there.closed.or(live.closed);
                there.unanswered = there.unanswered.max(live.unanswered);
                None
            }
        }
    }

    /// Whether there is a place for a look at this epoch.
    pub(super) fn takes(&self, of: &LiveEpoch) -> bool {
        self.0.len() < MOST || self.0.contains_key(of)
    }

    pub(super) fn take(&mut self, of: &LiveEpoch) -> Option<EndedLive> {
        self.0.remove(of)
    }
}
