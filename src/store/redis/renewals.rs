//! Owns the renewal of many lives at a time: which of their parts go in one script, and what came of each. What a script
//! does is described by [`crate::store::renewals`].
//!
//! Only on one server. In a cluster the parts of a live are in several slots, and one script may not touch them: there a
//! renewal would take as many calls as the refresh does, and one node that hangs would hold up the others' leases.

use async_trait::async_trait;
use fred::types::Value;
use futures_util::future::join_all;

use super::reply::{Reply, nonsense, number};
use super::{RedisStore, keys, scripts};
use crate::ids::GatewayId;
use crate::store::{Found, HeldSlice, Renewal, Renewals, StoreResult};

/// Parts of one script: it takes some 2 µs each.
const PARTS_A_SCRIPT: usize = 400;

/// Scripts of one call under way at a time: a live may have 256 slices.
const SCRIPTS_AT_A_TIME: usize = 16;

/// Something to look at and to renew.
struct Part {
    /// The live's place in the call.
    live: usize,
    keys: Vec<String>,
    expected: Vec<Value>,
}

fn parts<'a>(gateway: &'a GatewayId, place: usize, live: &'a Renewal) -> impl Iterator<Item = Part> + 'a {
    let part = move |keys, kind: &'static str, numbers: &[u64]| {
        let numbers = numbers.iter().map(|number| Value::from(number.to_string()));
        Part { live: place, keys, expected: std::iter::once(Value::from(kind)).chain(numbers).collect() }
    };
    let heard = u64::from(live.streamer_heard);
    let record = part(vec![keys::live(&live.live)], "record", &[live.epoch.0, live.removals, heard]);
    let viewers = part(vec![keys::live_viewers(&live.live)], "viewers", &[live.viewers, live.word]);
    let held = live.slices.iter().filter(|held| !live.glance && held.fans > 0);
    let companions = held.map(move |held| {
        let on = vec![keys::held(&held.slice, gateway), keys::fence(&held.slice)];
        part(on, "companions", &[])
    });
    let slices = live.slices.iter().map(move |HeldSlice { slice, fans, number: last }| {
        if live.glance || *fans == 0 {
            part(vec![keys::slice(slice)], "fans", &[*fans])
        } else {
            part(vec![keys::slice(slice), keys::gateways(slice)], "slice", &[*fans, *last])
        }
    });
    std::iter::once(record).chain((!live.glance).then_some(viewers)).chain(slices).chain(companions)
}

impl RedisStore {
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

    /// Like a touch, after the record was found open: no open live is unlisted for long.
    async fn list_again(&self, lives: impl Iterator<Item = &Renewal>) -> StoreResult<()> {
        let mut args = vec![Value::from(keys::LIVES), Value::from("NX")];
        for (live, at) in lives.filter_map(|live| live.relist.map(|at| (live, at))) {
            args.push(Value::from(at.to_string()));
            args.push(Value::from(live.live.as_str()));
        }
        if args.len() > 2 {
            self.door.call("relist", self.door.command("ZADD", args)).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Renewals for RedisStore {
    async fn renew(&self, gateway: &GatewayId, lives: &[Renewal]) -> Vec<Found> {
        if !self.slots_are_together() {
            return vec![Found::Nothing; lives.len()];
        }
        let all: Vec<Part> = lives.iter().enumerate().flat_map(|(place, live)| parts(gateway, place, live)).collect();
        let scripts: Vec<&[Part]> = all.chunks(PARTS_A_SCRIPT).collect();
        let mut found = vec![Found::Still; lives.len()];
        for some in scripts.chunks(SCRIPTS_AT_A_TIME) {
            let answers = some.iter().map(|parts| self.door.call("renew", self.renew_parts(gateway, parts)));
            for (parts, answer) in some.iter().zip(join_all(answers).await) {
                match answer {
                    Ok(news) => news.into_iter().for_each(|live| found[live] = Found::News),
                    Err(error) => {
                        self.note_refusal(&error);
                        for part in *parts {
                            found[part.live] = found[part.live].max(Found::Nothing);
                        }
                    }
                }
            }
        }
        let still = lives.iter().zip(&found).filter(|(_, found)| **found == Found::Still).map(|(live, _)| live);
        if let Err(error) = self.list_again(still).await {
            tracing::debug!(%error, "lives were not listed again, will try again");
            // Their touch does it.
            let listed = lives.iter().zip(&mut found).filter(|(live, _)| live.relist.is_some());
            listed.for_each(|(_, found)| *found = (*found).max(Found::Nothing));
        }
        found
    }
}
