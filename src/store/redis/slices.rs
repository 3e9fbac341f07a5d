//! Owns the calls on slices: which script, with which keys, and what its answer means. What the scripts do is described
//! by [`crate::store::slice`], which they must agree with.

use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use super::reply::{Reply, flag, nonsense, number, text};
use super::{RedisStore, keys, scripts};
use crate::clock::millis;
use crate::ids::{Epoch, GatewayId, SliceId, UserId};
use crate::store::slice::Fence;
use crate::store::{
    Apply, ApplyReply, CheckSlice, CheckedPage, Entry, HeldPage, MAX_BATCH, MemberPage, SliceView, Slices, StoreResult,
    Strays, Swept,
};

fn word(entry: Entry) -> &'static str {
    match entry {
        Entry::Keep => "keep",
        Entry::Register => "register",
        Entry::Release => "release",
    }
}

fn lease_ms(lease: Duration) -> Value {
    Value::from(millis(lease).to_string())
}

fn seconds(lifetime: Duration) -> Value {
    Value::from(lifetime.as_secs().to_string())
}

fn apply_args(call: &Apply) -> Vec<Value> {
    let mut args = vec![
        Value::from(call.epoch.to_string()),
        Value::from(call.gateway.as_str()),
        Value::from(call.number.to_string()),
        Value::from(word(call.entry)),
        lease_ms(call.lease),
        seconds(keys::SLICE_TTL),
        Value::from(keys::held_prefix(&call.slice)),
        Value::from(call.joins.len().to_string()),
    ];
    args.extend(call.joins.iter().chain(&call.leaves).map(|user| Value::from(user.as_str())));
    args
}

fn apply_reply(answer: Value) -> StoreResult<ApplyReply> {
    let mut reply = Reply::of(answer)?;
    Ok(match reply.text()?.as_str() {
        "done" => {
            let (card, held, at) = (reply.number()?, reply.number()?, reply.number()?);
            ApplyReply::Done(SliceView { card, held, at, silent: reply.silent()? })
        }
        "closed" => ApplyReply::Closed,
        "newer" => ApplyReply::Newer(Epoch(reply.number()?)),
        "stale" => ApplyReply::Stale,
        "unknown" => ApplyReply::Unknown,
        other => return Err(nonsense(format!("a change answered {other}"))),
    })
}

/// Reads `open:<epoch>` or `closed:<epoch>`.
pub(super) fn fence_epoch(answer: Value) -> StoreResult<Option<Epoch>> {
    if answer.is_null() {
        return Ok(None);
    }
    Ok(read_fence_word(&text(answer)?)?.map(Fence::epoch))
}

/// Reads a fence; empty is none.
pub(super) fn read_fence_word(word: &str) -> StoreResult<Option<Fence>> {
    let read = || match word.split_once(':')? {
        ("open", epoch) => Some(Fence::Open(Epoch(epoch.parse().ok()?))),
        ("closed", epoch) => Some(Fence::Closed(Epoch(epoch.parse().ok()?))),
        _ => None,
    };
    if word.is_empty() {
        return Ok(None);
    }
    read().map(Some).ok_or_else(|| nonsense("a fence without an epoch"))
}

/// What is no user id was put there by another program; it can be neither asked for nor taken out by name.
fn users(members: Reply) -> Vec<UserId> {
    members.texts().filter_map(|member| UserId::parse(&member).ok()).collect()
}

impl RedisStore {
    pub(super) async fn read_fence(&self, slice: &SliceId) -> StoreResult<Option<Epoch>> {
        fence_epoch(self.door.command("GET", vec![Value::from(keys::fence(slice))]).await?)
    }

    async fn scan(&self, key: String, cursor: u64) -> StoreResult<MemberPage> {
        let args = vec![
            Value::from(key),
            Value::from(cursor.to_string()),
            Value::from("COUNT"),
            Value::from(MAX_BATCH.to_string()),
        ];
        let mut reply = Reply::of(self.door.command("SSCAN", args).await?)?;
        let next = reply.number()?;
        let members = Reply::of(reply.piece().ok_or_else(|| nonsense("a page without members"))?)?;
        Ok(MemberPage { users: users(members), next: (next != 0).then_some(next) })
    }

    async fn read_held(&self, slice: &SliceId, gateway: &GatewayId, cursor: u64) -> StoreResult<HeldPage> {
        let on = vec![keys::slice(slice), keys::held(slice, gateway)];
        let args = vec![Value::from(cursor.to_string()), Value::from(MAX_BATCH.to_string())];
        let mut reply = Reply::of(self.door.script(&scripts::HELD, on, args).await?)?;
        let next = reply.number()?;
        let mut list = || Reply::of(reply.piece().ok_or_else(|| nonsense("a page without members"))?).map(users);
        Ok(HeldPage { users: list()?, missing: list()?, next: (next != 0).then_some(next) })
    }

    async fn do_check(&self, check: &CheckSlice) -> StoreResult<CheckedPage> {
        let CheckSlice { slice, holder, cursor, strays } = check;
        let args = vec![
            Value::from(holder.as_ref().map_or("", GatewayId::as_str)),
            Value::from(cursor.to_string()),
            Value::from(MAX_BATCH.to_string()),
            Value::from(keys::held_prefix(slice)),
            Value::from(match strays {
                Strays::Count => "count",
                Strays::Drop => "drop",
            }),
        ];
        let on = vec![keys::slice(slice), keys::gateways(slice)];
        let mut reply = Reply::of(self.door.script(&scripts::CHECK, on, args).await?)?;
        let next = reply.number()?;
        let (looked, strays) = (reply.number()?, reply.number()?);
        let (card, held, at) = (reply.number()?, reply.number()?, reply.number()?);
        Ok(CheckedPage { looked, strays, names: users(reply), next: (next != 0).then_some(next), card, held, at })
    }
}

#[async_trait]
impl Slices for RedisStore {
    async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply> {
        let on = vec![
            keys::slice(&call.slice),
            keys::held(&call.slice, &call.gateway),
            keys::gateways(&call.slice),
            keys::fence(&call.slice),
        ];
        let steps = async { apply_reply(self.script_beside_leases(&scripts::APPLY, on, apply_args(call)).await?) };
        self.door.call("apply", steps).await
    }

    async fn view_slice(&self, slice: &SliceId, lease: Duration) -> StoreResult<SliceView> {
        let on = vec![keys::slice(slice), keys::gateways(slice)];
        let steps = async {
            let mut reply = Reply::of(self.script_beside_leases(&scripts::VIEW, on, vec![lease_ms(lease)]).await?)?;
            let (card, at) = (reply.number()?, reply.number()?);
            Ok(SliceView { card, held: 0, at, silent: reply.silent()? })
        };
        self.door.call("view_slice", steps).await
    }

    async fn sweep(&self, slice: &SliceId, gateway: &GatewayId, lease: Duration) -> StoreResult<Swept> {
        let on = vec![keys::slice(slice), keys::held(slice, gateway), keys::gateways(slice)];
        let args = vec![
            Value::from(gateway.as_str()),
            lease_ms(lease),
            Value::from(MAX_BATCH.to_string()),
            Value::from(keys::held_prefix(slice)),
        ];
        let steps = async {
            let mut reply = Reply::of(self.script_beside_leases(&scripts::SWEEP, on, args).await?)?;
            let (released, done) = (reply.number()?, reply.number()? == 1);
            Ok(Swept { released, done, card: reply.number()?, at: reply.number()? })
        };
        self.door.call("sweep", steps).await
    }

    async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<()> {
        let on = vec![keys::slice(slice), keys::gateways(slice), keys::fence(slice)];
        let args = vec![
            Value::from(epoch.to_string()),
            seconds(keys::CLOSED_FENCE_TTL),
            Value::from(keys::held_prefix(slice)),
        ];
        let steps = async { number(&self.door.script(&scripts::CLOSE, on, args).await?).map(|_| ()) };
        self.door.call("close_slice", steps).await
    }

    async fn fence(&self, slice: &SliceId) -> StoreResult<Option<Epoch>> {
        self.door.call("fence", self.read_fence(slice)).await
    }

    async fn held_page(&self, slice: &SliceId, gateway: &GatewayId, cursor: u64) -> StoreResult<HeldPage> {
        self.door.call("held_page", self.read_held(slice, gateway, cursor)).await
    }

    async fn check_slice(&self, check: &CheckSlice) -> StoreResult<CheckedPage> {
        self.door.call("check_slice", self.do_check(check)).await
    }

    async fn fans_page(&self, slice: &SliceId, cursor: u64) -> StoreResult<MemberPage> {
        self.door.call("fans_page", self.scan(keys::slice(slice), cursor)).await
    }

    async fn is_fan_online(&self, slice: &SliceId, user: &UserId) -> StoreResult<bool> {
        let args = vec![Value::from(keys::slice(slice)), Value::from(user.as_str())];
        let steps = async { flag(&self.door.command("SISMEMBER", args).await?) };
        self.door.call("is_fan_online", steps).await
    }
}
