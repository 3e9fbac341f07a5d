//! The boundary for the lives that streamers open: how many a streamer has open.

use std::time::Duration;

use async_trait::async_trait;

use super::StoreResult;
use crate::base::clock::UnixMillis;
use crate::base::ids::{LiveId, UserId};

/// How many lives a streamer may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimLimits {
    /// At a time.
    pub open: u64,
    /// In a day, and as many at once.
    pub a_day: u64,
}

/// Whether a streamer may open one more live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The streamer may.
    Yes,
    /// So many are open that there is no room; these are the oldest of them. Some may be closed by
    /// now.
    Full(Vec<LiveId>),
    /// The streamer opened so many that the next has to wait for so long.
    TooFast(Duration),
}

/// The time in which [`ClaimLimits::a_day`] counts.
pub(super) const A_DAY: Duration = Duration::from_secs(24 * 3600);

impl ClaimLimits {
    /// What one opening takes of [`A_DAY`], in ms.
    pub(super) fn interval(self) -> u64 {
        A_DAY.as_millis() as u64 / self.a_day.max(1)
    }
}

/// The lives that streamers opened.
#[async_trait]
pub trait Streamers {
    /// Claims an open live for a streamer, before it is opened. A live that is claimed already
    /// takes no more room, but counts as one more opening.
    async fn claim_live(
        &self,
        streamer: &UserId,
        live: &LiveId,
        limits: ClaimLimits,
    ) -> StoreResult<Claimed>;

    /// Gives up a claim after the live closed, unless it was claimed again after `until`.
    async fn release_live(
        &self,
        streamer: &UserId,
        live: &LiveId,
        until: UnixMillis,
    ) -> StoreResult<()>;
}
