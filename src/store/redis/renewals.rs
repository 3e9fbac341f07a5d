//! Owns the renewal of many lives at a time: which of their parts may go in one script, and what came of each. What a
//! script does is described by [`crate::store::renewals`].

use std::collections::BTreeMap;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::future::join_all;

use super::reply::{Reply, nonsense, number};
use super::slots::slot_of;
use super::{RedisStore, keys, scripts};
use crate::ids::GatewayId;
use crate::store::{HeldSlice, Renewal, Renewals, StoreResult};

/// Parts of one script: it takes some 2 µs each.
const PARTS_A_SCRIPT: usize = 400;

/// Something to look at and to renew, on keys of one slot.
struct Part {
    /// The live's place in the call.
    live: usize,
    keys: Vec<String>,
    expected: Vec<Value>,
}

fn parts(place: usize, live: &Renewal) -> impl Iterator<Item = Part> {
    let part = move |keys, kind: &'static str, numbers: &[u64]| {
        let numbers = numbers.iter().map(|number| Value::from(number.to_string()));
        Part { live: place, keys, expected: std::iter::once(Value::from(kind)).chain(numbers).collect() }
    };
    let heard = u64::from(live.streamer_heard);
    let record = part(vec![keys::live(&live.live)], "record", &[live.epoch.0, live.removals, heard]);
    let viewers = part(vec![keys::live_viewers(&live.live)], "viewers", &[live.viewers, live.word]);
    let slices = live.slices.iter().map(move |HeldSlice { slice, fans, number: last }| match fans {
        0 => part(vec![keys::slice(slice)], "empty", &[]),
        _ => part(vec![keys::slice(slice), keys::gateways(slice)], "slice", &[*fans, *last]),
    });
    [record, viewers].into_iter().chain(slices)
}

impl RedisStore {
    /// What may go together: all of it on one server, the parts of one slot in a cluster.
    fn together(&self, lives: &[Renewal]) -> Vec<Vec<Part>> {
        let cluster = self.door.is_cluster();
        let mut groups: BTreeMap<u16, Vec<Vec<Part>>> = BTreeMap::new();
        for part in lives.iter().enumerate().flat_map(|(place, live)| parts(place, live)) {
            let slot = if cluster { slot_of(part.keys[0].as_bytes()) } else { 0 };
            let scripts = groups.entry(slot).or_default();
            match scripts.last_mut().filter(|script| script.len() < PARTS_A_SCRIPT) {
                Some(script) => script.push(part),
                None => scripts.push(vec![part]),
            }
        }
        groups.into_values().flatten().collect()
    }

    /// Answers the places of the lives that are not as expected.
    async fn renew_parts(&self, gateway: &GatewayId, parts: &[Part]) -> StoreResult<Vec<usize>> {
        let on = parts.iter().flat_map(|part| part.keys.clone()).collect();
        let expected = parts.iter().flat_map(|part| part.expected.clone());
        let args = std::iter::once(Value::from(gateway.as_str())).chain(expected).collect();
        let mut reply = Reply::of(self.door.script(&scripts::RENEW, on, args).await?)?;
        let mut news = Vec::new();
        while let Some(place) = reply.piece() {
            let place = number(&place)? as usize;
            let part = place.checked_sub(1).and_then(|place| parts.get(place));
            news.push(part.ok_or_else(|| nonsense("a part that was not asked for"))?.live);
        }
        Ok(news)
    }
}

#[async_trait]
impl Renewals for RedisStore {
    async fn renew(&self, gateway: &GatewayId, lives: &[Renewal]) -> Vec<bool> {
        let scripts = self.together(lives);
        let answers = scripts.iter().map(|parts| self.door.call("renew", self.renew_parts(gateway, parts)));
        let mut still = vec![true; lives.len()];
        for (parts, answer) in scripts.iter().zip(join_all(answers).await) {
            // Without an answer nothing is known of any of them.
            let news = answer.unwrap_or_else(|_| parts.iter().map(|part| part.live).collect());
            news.into_iter().for_each(|live| still[live] = false);
        }
        still
    }
}
