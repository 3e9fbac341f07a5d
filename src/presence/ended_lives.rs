//! Lives whose rooms have ended, to be looked at again: a failover may bring back what this gateway
//! had in the store. Part of the schedule in [`super::checks`]. Nothing here keeps a room in
//! memory.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::room::Room;
use crate::base::backoff::Backoff;
use crate::base::clock::Millis;
use crate::store::{CloseReason, LiveEpoch, LiveRecord};

/// A look without an answer is made again.
const BACKOFF: Backoff = Backoff {
    first: 1_000,
    longest: 60_000,
};

/// The most lives that wait for another look; of further ones there is none.
const MOST: usize = 65_536;

/// What a look at such a live needs.
#[derive(Debug, Clone)]
pub struct EndedLive {
    /// The live as it was when the room was made.
    pub record: Arc<LiveRecord>,
    /// Why the live closed; `None` if it goes on without this gateway.
    pub closed: Option<CloseReason>,
    /// How many looks had no answer.
    unanswered: u32,
}

impl EndedLive {
    /// The live of a room that has ended.
    pub fn new(room: &Room) -> Self {
        let reason = |closed: &Arc<LiveRecord>| {
            closed
                .closure
                .map_or(CloseReason::Requested, |closure| closure.reason)
        };
        let (record, closed) = (Arc::new(room.record.clone()), room.closed().map(reason));
        Self {
            record,
            closed,
            unanswered: 0,
        }
    }
}

/// The lives whose last look had no answer, at most one look for each epoch: a live that is loaded
/// and evicted again and again while one node is away adds no more.
#[derive(Debug, Default)]
pub(super) struct RetriedLooks(HashMap<LiveEpoch, EndedLive>);

impl RetriedLooks {
    /// Takes in a look that had no answer. Returns when it is due again; `None` if another one of
    /// this epoch waits.
    pub(super) fn add(&mut self, mut live: EndedLive, now: Millis) -> Option<Millis> {
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
