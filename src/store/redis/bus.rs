//! The bus over sharded pub/sub: a message goes to the master of its channel's slot; the [`super::subscriber`] hears
//! it.

use async_trait::async_trait;

use super::reply::number;
use super::{RedisStore, args};
use crate::base::ids::LiveId;
use crate::store::{Bus, BusEvents, Channel, StoreResult};

#[async_trait]
impl Bus for RedisStore {
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<u64> {
        let args = args![self.keys().channel(channel), message];
        self.router.call("tell", async { number(&self.router.command("SPUBLISH", args).await?) }).await
    }

    fn subscribe(&self, live: &LiveId) {
        self.subscriber.subscriptions().add(Channel::Live(live.clone()));
    }

    fn unsubscribe(&self, live: &LiveId) {
        self.subscriber.subscriptions().remove(&Channel::Live(live.clone()));
    }

    fn hear_moves(&self, live: &LiveId) {
        self.subscriber.subscriptions().add(Channel::Moves(live.clone()));
    }

    fn ignore_moves(&self, live: &LiveId) {
        self.subscriber.subscriptions().remove(&Channel::Moves(live.clone()));
    }

    fn ask_ready(&self, channel: &Channel) {
        self.subscriber.subscriptions().renew(channel);
    }

    fn events(&self) -> BusEvents {
        self.subscriber.subscriptions().events()
    }
}
