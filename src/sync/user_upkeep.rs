//! Upkeep of the users of the platform, by the gateway that walks: it forgets users who were seen
//! too long ago.

use std::sync::Arc;

use crate::base::clock::millis;
use crate::base::ids::USERS_SLICES;
use crate::peers::core::Core;
use crate::store::{MAX_BATCH, Span, Store, StoreResult};

pub struct UserUpkeep {
    pub core: Arc<Core>,
}

/// One round forgets about this many users at most.
const FORGOTTEN_A_ROUND: usize = 20_000;

impl UserUpkeep {
    /// Does one round.
    pub async fn run_round(&self) -> StoreResult<()> {
        self.forget_old().await?;
        // A store that lost its data is told again how ids are written.
        let fixed = self
            .core
            .store
            .fix_seen_ids(self.core.config.last_seen_ids)
            .await?;
        if fixed != self.core.config.last_seen_ids {
            tracing::error!(
                wanted = self.core.config.last_seen_ids.as_str(),
                fixed = fixed.as_str(),
                "another gateway fixed another form of last-seen-ids; stop one of them"
            );
        }
        Ok(())
    }

    async fn forget_old(&self) -> StoreResult<()> {
        let before = self
            .core
            .clock
            .unix()
            .saturating_sub(millis(self.core.config.remember));
        let old = Span {
            from: 0,
            to: before.saturating_sub(1),
        };
        if self.core.store.count_online(old).await?.seen == 0 {
            return Ok(());
        }
        forget_before(self.core.store.as_ref(), before, FORGOTTEN_A_ROUND)
            .await
            .map(drop)
    }
}

/// Forgets users who were seen before a time, up to about `most`. Answers how many, and whether
/// there may be more.
pub async fn forget_before(
    store: &dyn Store,
    before: u64,
    most: usize,
) -> StoreResult<(u64, bool)> {
    let mut forgotten = 0;
    for slice in 1..=USERS_SLICES {
        loop {
            if forgotten >= most as u64 {
                return Ok((forgotten, true));
            }
            let some = store.forget_seen(slice, before).await?;
            forgotten += some;
            if some < MAX_BATCH as u64 {
                break;
            }
        }
    }
    Ok((forgotten, false))
}
