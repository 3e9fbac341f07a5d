//! The calls on when users were seen last.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::{RedisStore, args};
use crate::base::clock::UnixMillis;
use crate::base::ids::{USERS_SLICES, UserId};
use crate::store::{LastSeen, StoreResult};

#[async_trait]
impl LastSeen for RedisStore {
    async fn note_seen(&self, seen: &[(UserId, UnixMillis)]) -> StoreResult<()> {
        let mut by_key: BTreeMap<u32, Vec<_>> = BTreeMap::new();
        for (user, at) in seen {
            let slice = user.slice_index(USERS_SLICES);
            by_key
                .entry(slice)
                .or_insert_with(|| args![self.keys().last_seen(slice - 1), "GT"])
                .extend(args![at, user]);
        }
        let commands = by_key.into_values().map(|args| ("ZADD", args)).collect();
        let steps = async { self.router.read_all(commands).await.into_iter().try_for_each(|answer| answer.map(drop)) };
        self.router.call("note_seen", steps).await
    }
}
