//! What the rows about users of the whole platform share: user ids that fit four bytes, and a Redis
//! full of users.

use std::collections::BTreeMap;

use fred::interfaces::{HashesInterface, SetsInterface};
use futures_util::{StreamExt, TryStreamExt, stream};
use rollcall::base::ids::{USERS_SLICES, UserId};

use crate::bench::servers::Redis;

const AT_ONCE: usize = 32;
const USERS_A_CALL: usize = 1_000;

/// The n-th user: a number of up to ten digits, each once, in no order.
pub(super) fn user(n: usize) -> UserId {
    let number = (n as u32).wrapping_mul(2_654_435_761);
    UserId::parse(&number.to_string()).unwrap_or_else(|_| unreachable!("a number is an id"))
}

/// Puts users 0 to `count` into the set that `key` names for their slice.
pub(super) async fn seed_sets(
    redis: &Redis,
    count: usize,
    key: impl Fn(u32) -> String,
) -> anyhow::Result<()> {
    let mut slices: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for user in (0..count).map(user) {
        slices
            .entry(user.slice_index(USERS_SLICES))
            .or_default()
            .push(user.to_string());
    }
    let calls = slices.into_iter().flat_map(|(slice, users)| {
        let key = key(slice);
        let chunks: Vec<Vec<String>> = users.chunks(USERS_A_CALL).map(<[String]>::to_vec).collect();
        chunks.into_iter().map(move |users| (key.clone(), users))
    });
    stream::iter(calls.map(|(key, users)| redis.client.sadd::<(), _, _>(key, users)))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

/// Writes the same claims on users 0 to `count`, as those of one gateway.
pub(super) async fn seed_claims(redis: &Redis, count: usize, claims: &str) -> anyhow::Result<()> {
    let mut slices: BTreeMap<u32, Vec<(String, String)>> = BTreeMap::new();
    for user in (0..count).map(user) {
        slices
            .entry(user.slice_index(USERS_SLICES))
            .or_default()
            .push((user.to_string(), claims.to_owned()));
    }
    for (slice, users) in slices {
        let key = format!("{{online-users_slice{slice}}}:who");
        for some in users.chunks(USERS_A_CALL) {
            redis.client.hset::<(), _, _>(&key, some.to_vec()).await?;
        }
    }
    Ok(())
}
