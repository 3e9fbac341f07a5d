//! Owns the gateway's own lease in the embedded store. There is one gateway, so this is the model more than a need.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::clock::UnixMillis;
use crate::ids::GatewayId;
use crate::store::{Leases, OwnLease, StoreResult};

#[async_trait]
impl Leases for MemoryStore {
    async fn renew_own_lease(
        &self,
        gateway: &GatewayId,
        lease: Duration,
        left: UnixMillis,
    ) -> StoreResult<Option<OwnLease>> {
        let now = self.now();
        Ok(Some(self.own_leases.lock().renew(gateway, lease, left, now)))
    }
}
