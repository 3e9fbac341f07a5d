//! The fan check: which users follow the streamer, asked in batches, never one by one.
//!
//! The flusher asks before it adds a user to the set, and again when the answer is older than `fan_ttl`. Unknown is not
//! no: while the source is away, known answers are kept and unknown users wait as viewers. With `--fan-source token`
//! the seats ask the viewers' tokens instead, and no check is ever due.

use std::sync::Arc;

use crate::base::ids::UserId;
use crate::store::{Store, StoreResult};

#[derive(Clone)]
pub struct FanCheck {
    store: Arc<dyn Store>,
}

impl FanCheck {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// For each of up to [`crate::store::MAX_BATCH`] users, whether they follow the streamer, in the same order.
    ///
    /// # Errors
    /// The source is away: known answers stay valid.
    pub async fn ask(&self, streamer: &UserId, users: &[UserId]) -> StoreResult<Vec<bool>> {
        self.store.follows(streamer, users).await
    }
}
