//! The lives that one streamer opened, in the embedded store.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::LiveId;
use crate::store::streamers::A_DAY;
use crate::store::{ClaimLimits, Claimed};

#[derive(Debug, Clone, Default)]
pub(crate) struct ClaimedLives {
    /// Each with the time of its last claim.
    open: BTreeMap<LiveId, UnixMillis>,
    /// When the openings so far would end if each took the time of one opening at the allowed pace.
    pace: UnixMillis,
}

impl ClaimedLives {
    pub(crate) fn claim(&mut self, live: &LiveId, limits: ClaimLimits, now: UnixMillis) -> Claimed {
        if !self.open.contains_key(live) && self.open.len() as u64 >= limits.open {
            let mut lives: Vec<(&LiveId, &UnixMillis)> = self.open.iter().collect();
            lives.sort_by_key(|(_, at)| **at);
            return Claimed::Full(lives.into_iter().map(|(live, _)| live.clone()).collect());
        }
        let after = self.pace.max(now) + limits.interval();
        if after - now > millis(A_DAY) {
            return Claimed::TooFast(Duration::from_millis(after - now - millis(A_DAY)));
        }
        self.pace = after;
        self.open.insert(live.clone(), now);
        Claimed::Yes
    }

    pub(crate) fn release(&mut self, live: &LiveId, until: UnixMillis) {
        if self.open.get(live).is_some_and(|at| *at <= until) {
            self.open.remove(live);
        }
    }

    /// Whether the store may forget this.
    pub(crate) fn is_nothing(&self, now: UnixMillis) -> bool {
        self.open.is_empty() && self.pace <= now
    }
}
