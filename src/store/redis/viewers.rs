//! Owns the calls on the viewers per gateway. What the scripts do is described by [`crate::store::viewers`]'s model,
//! which they must agree with.

use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use super::reply::{Reply, nonsense, number, text};
use super::{RedisStore, keys, scripts};
use crate::clock::millis;
use crate::ids::{Epoch, GatewayId, LiveId};
use crate::store::{GatewayViewers, SayViewers, StoreResult, Viewers, ViewersReply};

fn keys_of(live: &LiveId) -> Vec<String> {
    vec![keys::live_viewers(live), keys::live_viewers_fence(live)]
}

fn read(answer: Value) -> StoreResult<ViewersReply> {
    let mut reply = Reply::of(answer)?;
    match reply.text()?.as_str() {
        "known" => {}
        "over" => return Ok(ViewersReply::Over),
        other => return Err(nonsense(format!("viewers answered {other}"))),
    }
    let begins = reply.number()? == 1;
    let mut gateways = Vec::new();
    while let Some(name) = reply.piece() {
        let (viewers, number, age) = (reply.number()?, reply.number()?, reply.number()?);
        // A field of another program's names no gateway; it is none of the sum's.
        let Ok(gateway) = GatewayId::parse(&text(name)?) else { continue };
        gateways.push(GatewayViewers { gateway, viewers, number, age: Duration::from_millis(age) });
    }
    Ok(ViewersReply::Known { begins, gateways })
}

impl RedisStore {
    async fn ask_viewers(&self, live: &LiveId, epoch: Epoch, said: [String; 3], keep: Duration) -> StoreResult<Value> {
        let [gateway, viewers, number] = said;
        let args = [
            epoch.to_string(),
            gateway,
            viewers,
            number,
            keys::SLICE_TTL.as_secs().to_string(),
            millis(keep).to_string(),
        ];
        self.script_beside_leases(&scripts::VIEWERS, keys_of(live), args.map(Value::from).into()).await
    }
}

#[async_trait]
impl Viewers for RedisStore {
    async fn say_viewers(&self, say: &SayViewers) -> StoreResult<ViewersReply> {
        let said = [say.gateway.to_string(), say.viewers.to_string(), say.number.to_string()];
        let steps = async { read(self.ask_viewers(&say.live, say.epoch, said, say.keep).await?) };
        self.door.call("say_viewers", steps).await
    }

    async fn view_viewers(&self, live: &LiveId, epoch: Epoch, keep: Duration) -> StoreResult<ViewersReply> {
        let nobody = [String::new(), String::new(), String::new()];
        let steps = async { read(self.ask_viewers(live, epoch, nobody, keep).await?) };
        self.door.call("view_viewers", steps).await
    }

    async fn forget_viewers(&self, live: &LiveId, gateway: &GatewayId, last: u64) -> StoreResult<()> {
        let args = vec![Value::from(gateway.as_str()), Value::from(last.to_string())];
        let on = vec![keys::live_viewers(live)];
        let steps = async { number(&self.door.script(&scripts::FORGET_VIEWERS, on, args).await?).map(drop) };
        self.door.call("forget_viewers", steps).await
    }

    async fn close_viewers(&self, live: &LiveId, epoch: Epoch) -> StoreResult<()> {
        let ttl = keys::CLOSED_FENCE_TTL.as_secs().to_string();
        let args = vec![Value::from(epoch.to_string()), Value::from(ttl)];
        let steps = async { number(&self.door.script(&scripts::CLOSE_VIEWERS, keys_of(live), args).await?).map(drop) };
        self.door.call("close_viewers", steps).await
    }
}
