//! The boundary for the history of a live, which says how its figures moved, and for the summary of
//! each epoch.
//!
//! The figures in the record of an open live ([`super::Counts::count_live`]) are the newest point
//! of the history. One call writes both, so no gateway writes either after the close began, or in
//! another epoch. A point belongs to a bucket of the store's clock, and the last write of a bucket
//! is its point. A bucket in which nothing changed has no point.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Arrived, Figures, LiveEpoch, LiveRecord, StoreResult, Sums};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, LiveId, UserId};

/// How long a bucket is.
pub const HISTORY_STEP: Duration = Duration::from_secs(10);

/// Maximum points of an epoch, approximately; the newest are kept. They last for a day in which the
/// figures change in every bucket.
pub const MAX_POINTS: usize = 10_000;

/// Maximum past lives of a streamer; the newest are kept.
pub const MAX_PAST_LIVES: usize = 1_000;

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

/// What is left of an epoch when it is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    /// The live.
    pub live_id: LiveId,
    /// Which opening of it.
    #[schema(value_type = u64, example = 3)]
    pub epoch: Epoch,
    /// Who owned it.
    pub streamer_id: UserId,
    /// Its title; null if it had none.
    pub title: Option<String>,
    /// When it opened, in Unix milliseconds.
    #[schema(value_type = u64)]
    pub opened_at: UnixMillis,
    /// When its close began.
    #[schema(value_type = u64)]
    pub closed_at: UnixMillis,
    /// How long it lasted.
    pub duration_ms: u64,
    /// Why it closed: `requested`, `streamer_timeout`, `moderated`.
    #[schema(example = "requested")]
    pub reason: String,
    /// Most viewers at once.
    pub peak_viewers: u64,
    /// Most fans at once.
    pub peak_fans: u64,
    /// How many different viewers came; null if they were not counted.
    pub unique_viewers: Option<u64>,
    /// How many different fans came; null if they were not counted.
    pub unique_fans: Option<u64>,
    /// For how long all viewers were there together.
    #[schema(example = 750_000)]
    pub watched_ms: u64,
    /// How often somebody came: to the first gateway, however many followed.
    pub joins: u64,
}

impl LiveRecord {
    /// The summary of the epoch, once a close has begun.
    pub fn summary(&self) -> Option<Summary> {
        let closure = self.closure?;
        let Sums {
            arrived,
            watched_ms,
            uniques,
        } = &self.sums;
        Some(Summary {
            live_id: self.live.clone(),
            epoch: self.epoch,
            streamer_id: self.streamer.clone(),
            title: self.terms.title.clone(),
            opened_at: self.opened_at,
            closed_at: closure.at,
            duration_ms: closure.at.saturating_sub(self.opened_at),
            reason: closure.reason.as_str().to_owned(),
            peak_viewers: self.peaks.viewers,
            peak_fans: self.peaks.fans,
            unique_viewers: uniques.map(|uniques| uniques.viewers),
            unique_fans: uniques.map(|uniques| uniques.fans),
            watched_ms: *watched_ms,
            joins: arrived.joins,
        })
    }
}

/// Where a list of past lives goes on: after this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastLive {
    /// The epoch.
    pub of: LiveEpoch,
    /// When its close began.
    pub closed_at: UnixMillis,
}

impl Summary {
    /// Its place in the list of its streamer.
    pub fn past(&self) -> PastLive {
        PastLive {
            of: LiveEpoch {
                live: self.live_id.clone(),
                epoch: self.epoch,
            },
            closed_at: self.closed_at,
        }
    }
}

/// Histories and summaries.
#[async_trait]
pub trait History: Sync {
    /// The points of an epoch from one time to another, both included, oldest first.
    async fn history(
        &self,
        of: &LiveEpoch,
        from: UnixMillis,
        to: UnixMillis,
    ) -> StoreResult<Vec<Point>>;

    /// Puts an epoch that is over on the list of its streamer, and drops the epochs from the list
    /// whose close began longer ago than `keep`. The call may be repeated.
    async fn add_past_live(&self, summary: &Summary, keep: Duration) -> StoreResult<()>;

    /// Up to `limit` past lives of a streamer, newest first, after the given one. Skips entries
    /// that cannot be read.
    async fn past_lives(
        &self,
        streamer: &UserId,
        after: Option<&PastLive>,
        limit: usize,
    ) -> StoreResult<Vec<Summary>>;

    /// One of a streamer's past lives; `None` if it is not kept, or belonged to another streamer.
    async fn past_live(&self, streamer: &UserId, of: &LiveEpoch) -> StoreResult<Option<Summary>>;
}
