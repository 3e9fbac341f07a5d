//! Owns the calls on gateways' own leases, and the scripts that look at them beside the keys of a live. What the scripts
//! do is described by [`crate::store::OwnLeases`], which they must agree with.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use super::reply::Reply;
use super::scripts::Script;
use super::{RedisStore, keys, scripts};
use crate::clock::millis;
use crate::ids::GatewayId;
use crate::store::{Leases, OwnLease, StoreError, StoreResult};

impl RedisStore {
    /// Whether one script may look at keys of several slots.
    pub(super) fn slots_are_together(&self) -> bool {
        !self.door.is_cluster() && !self.slots_apart.load(Ordering::Relaxed)
    }

    /// A server that was named as one by itself and refuses keys of several slots is one of a cluster.
    pub(super) fn note_refusal(&self, error: &StoreError) {
        if error.to_string().contains("CROSSSLOT") {
            self.slots_apart.store(true, Ordering::Relaxed);
        }
    }

    /// Runs a script whose last key is that of the own leases, which it does without where they are in another slot. That
    /// they are is learnt from a refusal: whoever called tries again anyway.
    pub(super) async fn script_beside_leases(
        &self,
        script: &Script,
        mut on: Vec<String>,
        args: Vec<Value>,
    ) -> StoreResult<Value> {
        if self.slots_are_together() {
            on.push(keys::LEASES.to_owned());
        }
        self.door.script(script, on, args).await.inspect_err(|error| self.note_refusal(error))
    }

    async fn do_renew_own(&self, gateway: &GatewayId, lease: Duration) -> StoreResult<OwnLease> {
        let args = [gateway.to_string(), millis(lease).to_string(), keys::LEASES_TTL.as_secs().to_string()];
        let on = vec![keys::LEASES.to_owned()];
        let mut reply = Reply::of(self.door.script(&scripts::OWN_LEASE, on, args.map(Value::from).into()).await?)?;
        let (at, since, before) = (reply.number()?, reply.number()?, reply.number()?);
        Ok(OwnLease { since, before: (before != 0).then_some(before), at })
    }
}

#[async_trait]
impl Leases for RedisStore {
    async fn renew_own_lease(&self, gateway: &GatewayId, lease: Duration) -> StoreResult<Option<OwnLease>> {
        if !self.slots_are_together() {
            return Ok(None);
        }
        self.door.call("renew_own_lease", self.do_renew_own(gateway, lease)).await.map(Some)
    }
}
