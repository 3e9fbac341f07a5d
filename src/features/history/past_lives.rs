//! Keeps the summaries of lives that are over.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::features::history::store::HistoryStore;
use crate::store::{LiveRecord, StoreResult};
use crate::sync::features::Feature;

pub struct PastLives {
    /// The store's share for what clients ask.
    pub store: Arc<dyn HistoryStore>,
    /// How long a summary is kept.
    pub keep: Duration,
}

#[async_trait]
impl Feature for PastLives {
    async fn closing(&self, record: &LiveRecord) -> StoreResult<()> {
        match record.summary() {
            Some(summary) => self.store.add_past_live(&summary, self.keep).await,
            None => Ok(()),
        }
    }
}
