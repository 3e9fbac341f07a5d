//! The boundary for counts that other services read: the figures in a live's record, and the ranks
//! of open lives by them. The gateways' own counts come from the slices; these follow a few seconds
//! behind.
//!
//! One gateway at a time writes the figures of a live, on change and at most once per
//! [`COUNT_EVERY`]. The ranks lie beside the list of open lives, which may be on another node than
//! the record. So a gateway writes the record first and the ranks next, and the walk repairs ranks
//! that differ from the record.

use std::time::Duration;

use super::calls::{calls, plain_arguments};
use super::{Arrived, StoreResult};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, LiveId};

/// Minimum time between two writes of a live's figures.
pub const COUNT_EVERY: Duration = Duration::from_secs(5);

/// The counts of a live over all gateways.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Viewers online, fans and guests among them.
    pub viewers: u64,
    /// Fans online.
    pub fans: u64,
    /// Guests online: the viewers without an account.
    pub guests: u64,
}

impl Figures {
    /// The figures by which lives are ranked: nothing ranks them by guests.
    #[must_use]
    pub fn ranked(self) -> Self {
        Self { guests: 0, ..self }
    }

    /// Whether no user is there.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// The highest counts of one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Peaks {
    /// Most viewers online at once.
    pub viewers: u64,
    /// Most fans online at once.
    pub fans: u64,
}

impl Peaks {
    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            viewers: self.viewers.max(other.viewers),
            fans: self.fans.max(other.fans),
        }
    }
}

/// The figures in the record of an open live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The counts.
    pub figures: Figures,
    /// When they were written, by the store's clock.
    pub at: UnixMillis,
}

/// A request to write the figures of an open live. They are the newest point of its history.
///
/// The peaks go along, so that whichever gateway closes the live finds them in the record.
#[derive(Debug, Clone)]
pub struct CountLive {
    /// The live.
    pub live: LiveId,
    /// Which epoch; no other is touched, however late the call arrives.
    pub epoch: Epoch,
    /// The counts.
    pub figures: Figures,
    /// The highest counts that the caller knows of; the store keeps higher ones.
    pub peaks: Peaks,
    /// How many came and left, as far as the caller knows; the store keeps higher ones.
    pub arrived: Arrived,
}

/// The outcome of a [`CountLive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountReply {
    /// They are written.
    Counted,
    /// The record has these figures, and the same numbers of users who came and left. Figures that
    /// were never written are zero. Nothing was done.
    Same,
    /// The last write was less than [`COUNT_EVERY`] ago. Nothing was done; the call would succeed
    /// after this time.
    Early(Duration),
    /// The epoch is not open, or the record is lost. Nothing was done.
    NotOpen,
}

/// The figure by which open lives are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rank {
    /// Most viewers first.
    Viewers,
    /// Most fans first.
    Fans,
}

plain_arguments!(Rank);

/// A live with a figure, as it is ranked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedLive {
    /// The live.
    pub live: LiveId,
    /// Its viewers, or its fans.
    pub figure: u64,
}

calls! {
    /// Counts that other services read.
    pub trait Counts {
        /// Writes the figures of an open live into its record, see [`CountLive`].
        async fn count_live(&self, request: &CountLive) -> StoreResult<CountReply>,
            writes at Live(&request.live);

        /// Ranks lives by these figures. A live that is not on the list of open lives is left out.
        async fn rank_lives(&self, figures: &[(LiveId, Figures)]) -> StoreResult<()>, writes;

        /// The figures by which these lives are ranked; `None` for a live that is not ranked.
        async fn ranked_figures(&self, lives: &[LiveId]) -> StoreResult<Vec<Option<Figures>>>, reads;

        /// Up to `limit` lives of the list, highest figure first, after the given one. Among equal
        /// figures, the higher id comes first.
        async fn top_lives(
            &self,
            rank: Rank,
            after: Option<&RankedLive>,
            limit: usize,
        ) -> StoreResult<Vec<RankedLive>>, reads;
    }
}

/// How long a bucket is.
pub const HISTORY_STEP: Duration = Duration::from_secs(10);

/// Maximum points of an epoch, approximately; the newest are kept. They last for a day in which the
/// figures change in every bucket.
pub const MAX_POINTS: usize = 10_000;

/// The figures of an epoch at the end of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// When the bucket begins.
    pub at: UnixMillis,
    /// The counts.
    pub figures: Figures,
    /// How many had come and left since the opening.
    pub arrived: Arrived,
}
