//! The call on the secrets that gateways share: a string with a line for each.

use async_trait::async_trait;

use super::{RedisCalls, args, scripts};
use crate::store::{MAX_SECRETS, SharedSecrets, StoreResult};

#[async_trait]
impl SharedSecrets for RedisCalls {
    async fn share_secrets(&self, own: &[String]) -> StoreResult<Vec<String>> {
        let keys = vec![self.keys().presence_secret()];
        let mut args = args![MAX_SECRETS];
        for secret in own {
            args.extend(args![secret]);
        }
        let script = &scripts::SHARE_SECRETS;
        let all = self.router.script(script, keys, args).await?;
        Ok(all.texts().collect())
    }
}
