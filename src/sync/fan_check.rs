//! The fan check: which users follow the streamer, asked in batches, never one by one.
//!
//! The flusher asks before it adds a user to the set, and again when the answer is older than `fan_ttl`. Unknown is not
//! no: while the source is away, known answers are kept and unknown users wait as viewers.

use std::sync::Arc;

use crate::base::ids::UserId;
use crate::config::FanSource;
use crate::store::{Store, StoreResult};

#[derive(Clone)]
pub struct FanCheck {
    source: FanSource,
    store: Arc<dyn Store>,
}

impl FanCheck {
    pub fn new(source: FanSource, store: Arc<dyn Store>) -> Self {
        Self { source, store }
    }

    /// For each of up to [`crate::store::MAX_BATCH`] users, whether they follow the streamer, in the same order; `None`
    /// if the source knows nothing of anybody and need not be asked again.
    ///
    /// # Errors
    /// The source is away: known answers stay valid.
    pub async fn ask(&self, streamer: &UserId, users: &[UserId]) -> StoreResult<Option<Vec<bool>>> {
        match self.source {
            FanSource::Redis => self.store.follows(streamer, users).await.map(Some),
            FanSource::Token => Ok(None),
        }
    }
}
