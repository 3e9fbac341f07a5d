//! Owns the words within one process: whoever shares the embedded store hears them at once.

use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use crate::ids::LiveId;
use crate::store::{Channel, Heard, Hearing, StoreResult, Wire};

impl MemoryStore {
    /// Tells a live's channel what changed, in the step that changes it.
    pub(super) fn publish(&self, live: &LiveId, message: &str) {
        self.hand_on(&Channel::Live(live.clone()), message);
    }

    fn hand_on(&self, on: &Channel, message: &str) {
        if self.switchboard.wants(on) {
            self.switchboard.cry(Heard::Word { on: on.clone(), text: Arc::from(message) });
        }
    }
}

#[async_trait]
impl Wire for MemoryStore {
    async fn tell(&self, on: &Channel, word: String) -> StoreResult<()> {
        self.hand_on(on, &word);
        Ok(())
    }

    fn listen(&self, live: &LiveId) {
        if self.switchboard.want(live) {
            self.switchboard.cry(Heard::Ready(Channel::Live(live.clone())));
        }
    }

    fn unlisten(&self, live: &LiveId) {
        self.switchboard.unwant(live);
    }

    fn hear(&self) -> Hearing {
        self.switchboard.hear()
    }
}
