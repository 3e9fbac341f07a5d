//! The boundary for the secrets behind sessions without a socket that the gateways made up. Gateways
//! that have no file with a secret share theirs.

use super::StoreResult;
use super::calls::calls;

/// Maximum secrets that are shared. The last ones are dropped.
pub const MAX_SECRETS: usize = 4;

calls! {
    /// The secrets that gateways share.
    pub trait SharedSecrets {
        /// Adds the secrets of a gateway, its present one first, to those that all gateways share.
        /// Answers all that are shared from then on, the one that signs first.
        async fn share_secrets(&self, own: &[String]) -> StoreResult<Vec<String>>, writes;
    }
}
