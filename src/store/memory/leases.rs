//! The leases in the embedded store. There is one gateway, so this serves as the model.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::ids::GatewayId;
use crate::store::{LeaseReply, LeaseStore, RenewLease, StoreResult};

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn renew_lease(&self, renewal: &RenewLease) -> StoreResult<LeaseReply> {
        let now = self.now();
        Ok(self.leases.lock().renew(renewal, now))
    }

    async fn end_lease(&self, gateway: &GatewayId) -> StoreResult<()> {
        let now = self.now();
        self.leases.lock().end(gateway, now);
        Ok(())
    }
}
