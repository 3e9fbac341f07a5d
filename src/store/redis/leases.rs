//! Owns the calls on gateways' own leases, and the scripts that look at them beside the keys of a live. What the scripts
//! do is described by [`crate::store::OwnLeases`], which they must agree with.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use super::reply::Reply;
use super::scripts::Script;
use super::{RedisStore, keys, scripts};
use crate::clock::{UnixMillis, millis};
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

    /// Runs a script whose last key is that of the own leases, which it does without where they are in another slot.
    pub(super) async fn script_beside_leases(
        &self,
        script: &Script,
        on: Vec<String>,
        args: Vec<Value>,
    ) -> StoreResult<Value> {
        if self.slots_are_together() {
            let beside = on.iter().cloned().chain([keys::LEASES.to_owned()]).collect();
            let said =
                self.door.script(script, beside, args.clone()).await.inspect_err(|error| self.note_refusal(error));
            // A call that was refused did nothing.
            if said.is_ok() || self.slots_are_together() {
                return said;
            }
        }
        self.door.script(script, on, args).await
    }

    async fn do_renew_own(&self, gateway: &GatewayId, lease: Duration, left: UnixMillis) -> StoreResult<OwnLease> {
        let lifetime = keys::LEASES_TTL.as_secs();
        let args = [gateway.to_string(), millis(lease).to_string(), left.to_string(), lifetime.to_string()];
        let on = vec![keys::LEASES.to_owned()];
        let mut reply = Reply::of(self.door.script(&scripts::OWN_LEASE, on, args.map(Value::from).into()).await?)?;
        Ok(OwnLease { at: reply.number()?, since: reply.number()? })
    }
}

#[async_trait]
impl Leases for RedisStore {
    async fn renew_own_lease(
        &self,
        gateway: &GatewayId,
        lease: Duration,
        left: UnixMillis,
    ) -> StoreResult<Option<OwnLease>> {
        if !self.slots_are_together() {
            return Ok(None);
        }
        self.door.call("renew_own_lease", self.do_renew_own(gateway, lease, left)).await.map(Some)
    }
}
