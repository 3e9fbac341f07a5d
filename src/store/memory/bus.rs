//! Messages within one process: every gateway that shares the embedded store hears them at once.

use std::sync::Arc;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::ids::LiveId;
use crate::store::{Bus, BusEvent, BusEvents, Channel, StoreResult};

impl MemoryStore {
    pub(crate) fn publish_on_live(&self, live: &LiveId, message: &str) {
        self.deliver(&Channel::Live(live.clone()), message);
    }

    /// Sends a message to the receivers, and returns whether the channel is subscribed to.
    fn deliver(&self, channel: &Channel, message: &str) -> bool {
        let wanted = self.subscriptions.wants(channel);
        if wanted {
            self.subscriptions.send(BusEvent::Message {
                channel: channel.clone(),
                text: Arc::from(message),
            });
        }
        wanted
    }

    fn hear(&self, channel: Channel) {
        if self.subscriptions.add(channel.clone()) {
            self.subscriptions.send(BusEvent::Ready(channel));
        }
    }
}

#[async_trait]
impl Bus for MemoryStore {
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<u64> {
        Ok(self.deliver(channel, &message).into())
    }

    fn subscribe(&self, live: &LiveId) {
        self.hear(Channel::Live(live.clone()));
    }

    fn unsubscribe(&self, live: &LiveId) {
        self.subscriptions.remove(&Channel::Live(live.clone()));
    }

    fn hear_moves(&self, live: &LiveId) {
        self.hear(Channel::Moves(live.clone()));
    }

    fn ignore_moves(&self, live: &LiveId) {
        self.subscriptions.remove(&Channel::Moves(live.clone()));
    }

    fn ask_ready(&self, channel: &Channel) {
        if self.subscriptions.renew(channel) {
            self.subscriptions.send(BusEvent::Ready(channel.clone()));
        }
    }

    fn events(&self) -> BusEvents {
        self.subscriptions.events()
    }
}
