//! The calls on whereabouts.

use async_trait::async_trait;
use fred::types::Value;

use super::online_users::read_whereabouts;
use super::reply::{Reply, nonsense};
use super::{RedisStore, args, keys, scripts};
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::store::{
    Chain, MAX_WHEREABOUTS, StoreResult, TellWhereabouts, ToldWhereabouts, Whereabouts, WhereaboutsPage,
};

/// Fields of a page.
const PAGE: usize = 250;

impl RedisStore {
    async fn do_tell(&self, call: &TellWhereabouts) -> StoreResult<ToldWhereabouts> {
        let TellWhereabouts { slice, gateway, number, known, users } = call;
        let mut args = args![gateway, number, known, MAX_WHEREABOUTS, keys::SLICE_TTL.as_secs()];
        for (user, lives) in users {
            let lives: Vec<&str> = lives.iter().map(LiveId::as_str).collect();
            args.push(user.as_str().into());
            args.push(lives.join(",").into());
        }
        let on = vec![self.keys().whereabouts(*slice)];
        let mut reply = self.router.script(&scripts::TELL_WHEREABOUTS, on, args).await?;
        match reply.text()?.as_str() {
            "unbroken" => Ok(ToldWhereabouts::Noted(Chain::Unbroken)),
            "broken" => Ok(ToldWhereabouts::Noted(Chain::Broken)),
            "old" => Ok(ToldWhereabouts::Old),
            other => Err(nonsense(format!("whereabouts answered {other}"))),
        }
    }

    async fn read_page(&self, slice: u32, cursor: u64) -> StoreResult<WhereaboutsPage> {
        let args = args![self.keys().whereabouts(slice), cursor, "COUNT", PAGE];
        let mut reply = Reply::of(self.router.command("HSCAN", args).await?)?;
        let next = reply.number()?;
        let mut page = WhereaboutsPage { next: (next != 0).then_some(next), ..WhereaboutsPage::default() };
        for (field, value) in reply.list()?.pairs()? {
            if let Some(gateway) = field.strip_prefix('#') {
                page.gateways.extend(GatewayId::parse(gateway));
            } else if let Ok(user) = UserId::parse(&field) {
                let words = read_whereabouts(&value);
                page.gateways.extend(words.iter().map(|(gateway, _)| gateway.clone()));
                page.said.push((user, words));
            }
        }
        Ok(page)
    }
}

#[async_trait]
impl Whereabouts for RedisStore {
    async fn tell_whereabouts(&self, call: &TellWhereabouts) -> StoreResult<ToldWhereabouts> {
        self.router.call("tell_whereabouts", self.do_tell(call)).await
    }

    async fn whereabouts_page(&self, slice: u32, cursor: u64) -> StoreResult<WhereaboutsPage> {
        self.router.call("whereabouts_page", self.read_page(slice, cursor)).await
    }

    async fn forget_whereabouts(&self, slice: u32, gateways: &[GatewayId], users: &[UserId]) -> StoreResult<()> {
        if gateways.is_empty() {
            return Ok(());
        }
        let on = vec![self.keys().whereabouts(slice)];
        let mut args = args![gateways.len()];
        args.extend(gateways.iter().map(|gateway| Value::from(gateway.as_str())));
        args.extend(users.iter().map(|user| Value::from(user.as_str())));
        let steps = async { self.router.script(&scripts::FORGET_WHEREABOUTS, on, args).await?.number() };
        self.router.call("forget_whereabouts", steps).await.map(drop)
    }
}
