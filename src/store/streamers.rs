//! The boundary for the lives that streamers open: how many a streamer has open.

use std::time::Duration;

use super::StoreResult;
use super::calls::{calls, plain_arguments};
use crate::base::clock::UnixMillis;
use crate::base::ids::{LiveId, UserId};

/// How many lives a streamer may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimLimits {
    /// Maximum open lives.
    pub open: u64,
    /// Maximum openings in a day. They may come all at once.
    pub a_day: u64,
}

plain_arguments!(ClaimLimits);

/// Whether a streamer may open one more live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// The streamer may open it.
    Yes,
    /// The maximum number of lives is open. These are the oldest of them; some may be closed by
    /// now.
    Full(Vec<LiveId>),
    /// The streamer opened too many lives, so the next one has to wait for this time.
    TooFast(Duration),
}

/// The time in which [`ClaimLimits::a_day`] counts.
pub(super) const A_DAY: Duration = Duration::from_secs(24 * 3600);

impl ClaimLimits {
    /// The share of [`A_DAY`] that one opening takes, in ms.
    pub(super) fn interval(self) -> u64 {
        A_DAY.as_millis() as u64 / self.a_day.max(1)
    }
}

calls! {
    /// The lives that streamers opened.
    pub trait Streamers {
        /// Claims a live for a streamer, before it is opened. A live that is claimed already does not
        /// count as one more open live, but as one more opening.
        async fn claim_live(
            &self,
            streamer: &UserId,
            live: &LiveId,
            limits: ClaimLimits,
        ) -> StoreResult<Claimed>, writes at User(streamer);

        /// Gives up a claim after the live closed, unless it was claimed again after `until`.
        async fn release_live(
            &self,
            streamer: &UserId,
            live: &LiveId,
            until: UnixMillis,
        ) -> StoreResult<()>, writes at User(streamer);
    }
}
