//! The calls on the viewers per gateway. What the scripts do is described by [`crate::store::ViewerBoard`], which they
//! must agree with.

use async_trait::async_trait;
use fred::types::Value;

use super::reply::{nonsense, number, text};
use super::slices::seconds;
use super::{RedisStore, args, keys, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::store::{Channel, GatewayViewers, SayReply, SayViewers, StoreError, StoreResult, Viewers};

fn keys_of(live: &LiveId) -> Vec<String> {
    vec![keys::live(live), keys::viewers(live)]
}

/// Reads what a gateway said; `None` for what another program wrote.
pub(super) fn read_said(name: &str, value: &str) -> Option<GatewayViewers> {
    let (viewers, said) = value.split_once(':')?;
    let gateway = GatewayId::parse(name).ok()?;
    Some(GatewayViewers { gateway, viewers: viewers.parse().ok()?, number: said.parse().ok()? })
}

impl RedisStore {
    /// A gateway's first word that came too late did nothing. It is said once more, now that the node's time is known.
    async fn do_say(&self, say: &SayViewers) -> StoreResult<SayReply> {
        let on = keys_of(&say.live);
        let mut not_after = self.not_after(&on[0]).await?;
        for _ in 0..2 {
            let args = say_args(say, not_after);
            let mut reply = self.router.script(&scripts::SAY_VIEWERS, on.clone(), args).await?;
            match reply.text()?.as_str() {
                "said" => return Ok(SayReply::Said),
                "not_open" => return Ok(SayReply::NotOpen),
                "late" => not_after = self.heard_late(&on[0], reply.number()?),
                other => return Err(nonsense(format!("viewers answered {other}"))),
            }
        }
        Err(StoreError::Timeout)
    }

    async fn do_view(&self, live: &LiveId, epoch: Epoch) -> StoreResult<Option<Vec<GatewayViewers>>> {
        let args = args![epoch];
        let mut reply = self.router.script(&scripts::VIEW_VIEWERS, keys_of(live), args).await?;
        match reply.text()?.as_str() {
            "open" => {}
            "not_open" => return Ok(None),
            other => return Err(nonsense(format!("viewers answered {other}"))),
        }
        let mut said = Vec::new();
        while let Some(name) = reply.piece() {
            let (name, value) = (text(name)?, reply.text()?);
            said.extend(read_said(&name, &value));
        }
        Ok(Some(said))
    }
}

fn say_args(say: &SayViewers, not_after: UnixMillis) -> Vec<Value> {
    args![
        say.epoch,
        say.gateway.as_str(),
        say.viewers,
        say.number,
        not_after,
        seconds(keys::SLICE_TTL),
        keys::channel(&Channel::Live(say.live.clone())),
        say.message.as_str()
    ]
}

#[async_trait]
impl Viewers for RedisStore {
    async fn say_viewers(&self, say: &SayViewers) -> StoreResult<SayReply> {
        self.router.call("say_viewers", self.do_say(say)).await
    }

    async fn view_viewers(&self, live: &LiveId, epoch: Epoch) -> StoreResult<Option<Vec<GatewayViewers>>> {
        self.router.call("view_viewers", self.do_view(live, epoch)).await
    }

    async fn forget_viewers(&self, live: &LiveId, dead: &[GatewayId]) -> StoreResult<()> {
        if dead.is_empty() {
            return Ok(());
        }
        let mut args = args![keys::viewers(live)];
        args.extend(dead.iter().map(|gateway| Value::from(gateway.as_str())));
        self.router.call("forget_viewers", async { number(&self.router.command("HDEL", args).await?).map(drop) }).await
    }
}
