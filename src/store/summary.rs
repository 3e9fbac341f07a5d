//! The summary of an epoch of a live that is over.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{LiveRecord, Sums};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, LiveId, UserId};

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
