//! Owns the look over many lives at a time. Only on one server: in a cluster the keys of lives are in several slots.

use async_trait::async_trait;
use fred::types::Value;

use super::reply::{Reply, nonsense, number};
use super::{RedisStore, keys, scripts};
use crate::clock::millis;
use crate::ids::{LiveId, SliceId};
use crate::store::surveys::LOOKED_FOR;
use crate::store::{StoreResult, Survey, Surveys};

impl RedisStore {
    async fn do_survey(&self, lives: &[LiveId], survey: Survey) -> StoreResult<Vec<bool>> {
        let of_one_slice = |live: &LiveId| keys::gateways(&SliceId { live: live.clone(), index: 1, of: 1 });
        let on = lives.iter().flat_map(|live| [keys::live(live), of_one_slice(live)]);
        let on = on.chain([keys::LEASES.to_owned()]).collect();
        let args = [survey.lease, survey.streamer, LOOKED_FOR].map(|silence| Value::from(millis(silence).to_string()));
        let said = self.door.script(&scripts::SURVEY, on, args.into()).await;
        let mut reply = Reply::of(said.inspect_err(|error| self.note_refusal(error))?)?;
        let mut needy = vec![false; lives.len()];
        while let Some(place) = reply.piece() {
            let live = (number(&place)? as usize).checked_sub(1).and_then(|place| needy.get_mut(place));
            *live.ok_or_else(|| nonsense("a live that was not asked for"))? = true;
        }
        Ok(needy)
    }
}

#[async_trait]
impl Surveys for RedisStore {
    async fn survey(&self, lives: &[LiveId], survey: Survey) -> StoreResult<Vec<bool>> {
        if !self.slots_are_together() {
            return Ok(vec![true; lives.len()]);
        }
        self.door.call("survey", self.do_survey(lives, survey)).await
    }
}
