//! The secrets that gateways on the embedded store share.

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::{MAX_SECRETS, SharedSecrets, StoreResult};

#[async_trait]
impl SharedSecrets for MemoryStore {
    async fn share_secrets(&self, own: &[String]) -> StoreResult<Vec<String>> {
        let mut all = self.secrets.lock();
        for secret in own {
            if !all.contains(secret) && all.len() < MAX_SECRETS {
                all.push(secret.clone());
            }
        }
        Ok(all.clone())
    }
}
