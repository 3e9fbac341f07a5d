//! Messages within one process: every gateway that shares the embedded store hears them at once.

use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::ids::LiveId;
use crate::store::{Bus, BusEvent, BusEvents, Channel, StoreResult};

impl MemoryStore {
    pub(super) fn publish_on_live(&self, live: &LiveId, message: &str) {
        self.deliver(&Channel::Live(live.clone()), message);
    }

    fn deliver(&self, channel: &Channel, message: &str) {
        if self.subscriptions.wants(channel) {
            self.subscriptions.send(BusEvent::Message { channel: channel.clone(), text: Arc::from(message) });
        }
    }
}

#[async_trait]
impl Bus for MemoryStore {
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<()> {
        self.deliver(channel, &message);
        Ok(())
    }

    fn subscribe(&self, live: &LiveId) {
        if self.subscriptions.add(live) {
            self.subscriptions.send(BusEvent::Ready(Channel::Live(live.clone())));
        }
    }

    fn unsubscribe(&self, live: &LiveId) {
        self.subscriptions.remove(live);
    }

    fn events(&self) -> BusEvents {
        self.subscriptions.events()
    }
}
