//! The boundary for the history of a live, which says how its figures moved, and for the summary of
//! each epoch.
//!
//! The figures in the record of an open live ([`crate::store::Counts::count_live`]) are the newest point
//! of the history. One call writes both, so no gateway writes either after the close began, or in
//! another epoch. A point belongs to a bucket of the store's clock, and the last write of a bucket
//! is its point. A bucket in which nothing changed has no point.

use crate::store::Point;
use crate::store::Store;
use crate::store::Summary;
use crate::store::calls::calls;
use std::time::Duration;

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::LiveEpoch;
use crate::store::StoreResult;

/// Maximum past lives of a streamer; the newest are kept.
pub const MAX_PAST_LIVES: usize = 1_000;

/// Where a list of past lives goes on: after this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastLive {
    /// The epoch.
    pub of: LiveEpoch,
    /// When its close began.
    pub closed_at: UnixMillis,
}

impl PastLive {
    /// The place of an epoch in the list of its streamer.
    pub fn of(summary: &Summary) -> Self {
        Self {
            of: LiveEpoch {
                live: summary.live_id.clone(),
                epoch: summary.epoch,
            },
            closed_at: summary.closed_at,
        }
    }
}

calls! {
    /// Histories and summaries.
    pub trait History {
        /// The points of an epoch from one time to another, both included, oldest first.
        async fn history(
            &self,
            of: &LiveEpoch,
            from: UnixMillis,
            to: UnixMillis,
        ) -> StoreResult<Vec<Point>>, reads at Live(&of.live);

        /// Puts an epoch that is over on the list of its streamer, and drops the epochs from the list
        /// whose close began longer ago than `keep`. The call may be repeated.
        async fn add_past_live(&self, summary: &Summary, keep: Duration) -> StoreResult<()>, writes;

        /// Up to `limit` past lives of a streamer, newest first, after the given one. Skips entries
        /// that cannot be read.
        async fn past_lives(
            &self,
            streamer: &UserId,
            after: Option<&PastLive>,
            limit: usize,
        ) -> StoreResult<Vec<Summary>>, reads at User(streamer);

        /// One of a streamer's past lives; `None` if it is not kept, or belonged to another streamer.
        async fn past_live(&self, streamer: &UserId, of: &LiveEpoch) -> StoreResult<Option<Summary>>,
            reads at User(streamer);
    }
}

/// The calls of the core, and those about histories.
pub trait HistoryStore: Store + History {}

impl<T: Store + History + ?Sized> HistoryStore for T {}
