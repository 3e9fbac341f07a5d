//! Owns the words within one process: whoever shares the embedded store hears them at once.

use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use crate::ids::LiveId;
use crate::store::{Channel, Heard, Hearing, StoreResult, Wire};

#[async_trait]
impl Wire for MemoryStore {
    async fn tell(&self, on: &Channel, word: String) -> StoreResult<()> {
        if self.switchboard.wants(on) {
            self.switchboard.cry(Heard::Word { on: on.clone(), text: Arc::from(word) });
        }
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
