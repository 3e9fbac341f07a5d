//! The bus over sharded pub/sub. A message goes to the master of its channel's slot, and the
//! [`super::subscriber`] hears it there.

use std::collections::BTreeSet;

use async_trait::async_trait;
use fred::types::Value;
use tokio::sync::watch;

use super::node::Share;
use super::reply::{Reply, number};
use super::scripts::Script;
use super::{RedisCalls, RedisStore, args};
use crate::base::ids::{GatewayId, LiveId};
use crate::store::{Bus, BusEvents, Channel, Doubt, StoreError, StoreResult};

impl RedisCalls {
    /// Runs a script that publishes its change on the channel of a live.
    pub(crate) async fn change(
        &self,
        live: &LiveId,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> StoreResult<Reply> {
        let reply = self.router.script(script, keys, args).await?;
        self.take_refusal(&Channel::Live(live.clone()), reply)
    }

    /// The answer of a script that publishes on a channel, without what Redis says if it refuses the
    /// message.
    pub(crate) fn take_refusal(&self, on: &Channel, mut reply: Reply) -> StoreResult<Reply> {
        if let Some(why) = reply.take_refusal()? {
            let why = StoreError::Refused(why);
            self.router.count_error("tell", &why);
            let name = self.keys().channel(on);
            self.subscriber.echo().note_refusal(&name, &why);
        }
        Ok(reply)
    }
}

#[async_trait]
impl Bus for RedisStore {
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<u64> {
        let name = self.keys().channel(channel);
        let args = args![name.as_str(), message];
        let said = self
            .router
            .call("tell", async {
                number(&self.router.command("SPUBLISH", args).await?)
            })
            .await;
        if let Err(why) = &said {
            self.calls.subscriber.echo().note_refusal(&name, why);
        }
        said
    }

    fn subscribe(&self, live: &LiveId) {
        self.calls
            .subscriber
            .subscriptions()
            .add(Channel::Live(live.clone()));
    }

    fn unsubscribe(&self, live: &LiveId) {
        self.calls
            .subscriber
            .subscriptions()
            .remove(&Channel::Live(live.clone()));
    }

    fn hear_moves(&self, live: &LiveId) {
        self.calls
            .subscriber
            .subscriptions()
            .add(Channel::Moves(live.clone()));
    }

    fn ignore_moves(&self, live: &LiveId) {
        self.calls
            .subscriber
            .subscriptions()
            .remove(&Channel::Moves(live.clone()));
    }

    fn ask_ready(&self, channel: &Channel) {
        self.calls.subscriber.subscriptions().renew(channel);
    }

    fn events(&self) -> BusEvents {
        self.calls.subscriber.subscriptions().events()
    }

    fn echo(&self, gateway: &GatewayId, renewal: u64) -> BTreeSet<u32> {
        let router = self.router.with_share(Share::Lease);
        self.calls.subscriber.echo().send(&router, gateway, renewal)
    }

    fn unheard(&self) -> watch::Receiver<Option<Doubt>> {
        self.calls.subscriber.echo().unheard()
    }
}
