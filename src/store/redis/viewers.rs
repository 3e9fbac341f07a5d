//! The calls on the viewers per gateway. The scripts must agree with the model, [`crate::store::AnnouncedViewers`].

use async_trait::async_trait;
use fred::types::Value;

use super::reply::{Reply, next_answer, nonsense, number};
use super::{RedisStore, args, keys, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::store::{AnnounceReply, AnnounceViewers, GatewayViewers, StoreError, StoreResult, Viewers};

/// Reads what each gateway announced. Skips fields that another program wrote.
pub(super) fn read_viewers(fields: Reply) -> StoreResult<Vec<GatewayViewers>> {
    let read = |(name, value): (String, String)| {
        let mut numbers = value.split(':').map(|number| number.parse().ok());
        let (viewers, number) = (numbers.next()??, numbers.next()??);
        let (away, moving) = (numbers.next().unwrap_or(Some(0))?, numbers.next().unwrap_or(Some(0))?);
        Some(GatewayViewers { gateway: GatewayId::parse(&name).ok()?, viewers, away, moving, number })
    };
    Ok(fields.pairs()?.into_iter().filter_map(read).collect())
}

impl RedisStore {
    fn viewers_keys(&self, live: &LiveId) -> Vec<String> {
        vec![self.keys().live(live), self.keys().viewers(live)]
    }

    /// A gateway's first announcement that came too late did nothing. It is made once more, now that the node's time is
    /// known.
    async fn do_announce(&self, call: &AnnounceViewers) -> StoreResult<AnnounceReply> {
        let on = self.viewers_keys(&call.live);
        let mut not_after = self.router.not_after(&on[0]).await?;
        for _ in 0..2 {
            let args = self.announce_args(call, not_after);
            let mut reply = self.change(&call.live, &scripts::ANNOUNCE_VIEWERS, on.clone(), args).await?;
            match reply.text()?.as_str() {
                "announced" => return Ok(AnnounceReply::Announced),
                "not_open" => return Ok(AnnounceReply::NotOpen),
                "late" => not_after = self.router.note_time(&on[0], reply.number()?),
                other => return Err(nonsense(format!("viewers answered {other}"))),
            }
        }
        Err(StoreError::Timeout)
    }

    async fn do_view(&self, live: &LiveId, epoch: Epoch) -> StoreResult<Option<Vec<GatewayViewers>>> {
        let mut reply = self.router.script(&scripts::VIEW_VIEWERS, self.viewers_keys(live), args![epoch]).await?;
        match reply.text()?.as_str() {
            "open" => read_viewers(reply).map(Some),
            "not_open" => Ok(None),
            other => Err(nonsense(format!("viewers answered {other}"))),
        }
    }

    fn announce_args(&self, call: &AnnounceViewers, not_after: UnixMillis) -> Vec<Value> {
        let AnnounceViewers { live, epoch, gateway, viewers, away, moving, number, message } = call;
        let mut args = args![epoch, gateway, viewers, number, not_after, keys::SLICE_TTL.as_secs()];
        args.extend(self.publish_args(live, message));
        args.extend(args![away, moving]);
        args
    }
}

#[async_trait]
impl Viewers for RedisStore {
    async fn announce_viewers(&self, call: &AnnounceViewers) -> StoreResult<AnnounceReply> {
        self.router.call("say_viewers", self.do_announce(call)).await
    }

    async fn view_viewers(&self, live: &LiveId, epoch: Epoch) -> StoreResult<Option<Vec<GatewayViewers>>> {
        self.router.call("view_viewers", self.do_view(live, epoch)).await
    }

    async fn survey_viewers(&self, lives: &[LiveId]) -> Vec<StoreResult<Vec<GatewayViewers>>> {
        let command = |live: &LiveId| vec![("HGETALL", args![self.keys().viewers(live)])];
        let read = |_: &LiveId, answers: &mut dyn Iterator<Item = _>| read_viewers(Reply::of(next_answer(answers)?)?);
        self.router.read_each("survey_viewers", lives, command, read).await
    }

    async fn forget_viewers(&self, live: &LiveId, dead: &[GatewayId]) -> StoreResult<u64> {
        if dead.is_empty() {
            return Ok(0);
        }
        let mut args = args![self.keys().viewers(live)];
        args.extend(dead.iter().map(|gateway| Value::from(gateway.as_str())));
        self.router.call("forget_viewers", async { number(&self.router.command("HDEL", args).await?) }).await
    }
}
