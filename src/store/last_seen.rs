//! The boundary for when users of the platform were seen last.

use async_trait::async_trait;

use super::StoreResult;
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;

/// When users were seen last.
#[async_trait]
pub trait LastSeen: Sync {
    /// Notes that users were seen at these times, up to [`super::MAX_BATCH`] of them. Of two times of a user the later
    /// one stays.
    async fn note_seen(&self, seen: &[(UserId, UnixMillis)]) -> StoreResult<()>;
}
