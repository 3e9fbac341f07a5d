//! The bus over sharded pub/sub: a message goes to the master of its channel's slot; the [`super::subscriber`] hears
//! it.

use async_trait::async_trait;

use super::{RedisStore, args};
use crate::base::ids::LiveId;
use crate::store::{Bus, BusEvents, Channel, StoreResult};

#[async_trait]
impl Bus for RedisStore {
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<()> {
        let args = args![self.keys().channel(channel), message];
        self.router.call("tell", async { self.router.command("SPUBLISH", args).await.map(drop) }).await
    }

    fn subscribe(&self, live: &LiveId) {
        self.subscriber.subscriptions().add(live);
    }

    fn unsubscribe(&self, live: &LiveId) {
        self.subscriber.subscriptions().remove(live);
    }

    fn events(&self) -> BusEvents {
        self.subscriber.subscriptions().events()
    }
}
