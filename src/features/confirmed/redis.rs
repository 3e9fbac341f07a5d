//! The call on confirmed viewers in Redis, which also counts them.

use async_trait::async_trait;
use fred::types::Value;

use crate::base::clock::millis;
use crate::base::ids::{Epoch, Group, SliceId, UserId};
use crate::features::confirmed::scripts;
use crate::features::confirmed::store::{Confirmations, WINDOW};
use crate::presence::confirmed::SliceConfirmed;
use crate::store::StoreResult;
use crate::store::redis::keys::CONFIRMED_TTL;
use crate::store::redis::{RedisCalls, args};

#[async_trait]
impl Confirmations for RedisCalls {
    async fn confirm(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        users: &[UserId],
    ) -> StoreResult<SliceConfirmed> {
        let keys = self.keys();
        let on = vec![
            keys.members(slice, Group::All),
            keys.who(slice),
            keys.fence(slice),
            keys.confirmed(slice, epoch),
        ];
        let mut args = args![epoch, millis(WINDOW), CONFIRMED_TTL.as_secs()];
        args.extend(users.iter().map(|user| Value::from(user.as_str())));
        let mut reply = self
            .router
            .script(&scripts::CONFIRM_VIEWERS, on, args)
            .await?;
        Ok(SliceConfirmed {
            slice: slice.index,
            viewers: reply.number()?,
            kept: reply.number()?,
        })
    }
}
