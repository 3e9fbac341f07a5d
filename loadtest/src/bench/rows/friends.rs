//! Which friends are online: 1,000 followed, a million users online in one Redis, over HTTP. And
//! how many users are online. How long an answer takes, how many calls it costs, and whether any
//! call keeps Redis busy for long.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::ensure;
use fred::interfaces::SortedSetsInterface;
use reqwest::Method;
use rollcall::base::clock::unix_now;
use rollcall::base::ids::{LiveId, OnlineSet, PLATFORM_EPOCH, USERS_SLICES, UserId};
use rollcall::store::LastSeen;
use rollcall::store::redis::RedisStore;

use super::answers::AnswerTimes;
use super::holder::{LeaseHolder, by_slice, platform_user as user};
use crate::bench::servers::Redis;
use crate::bench::settings::Bench;

const FOLLOWED: usize = 1_000;
/// Of the followed users, this many are online. Half of the others were online within the window.
const FRIENDS_ONLINE: usize = 500;
const FRIENDS_BEFORE: usize = 250;
const CALLS: &str = "rollcall_store_calls_total";
/// Redis notes calls that take longer, in µs.
const SLOW: &str = "1000";

pub(super) async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let flags = ["--track-online", "on"];
    let (redis, gateway) = bench.place(0, 0, &flags).await?;
    let users = bench.pick(1_000_000, 5_000);
    let store = redis.store().await?;
    let live = LiveId::parse("42")?;
    let friends: HashSet<UserId> = friends_online().collect();
    let everybody = by_slice(&OnlineSet::Users, USERS_SLICES, (0..users).map(user));
    let _holder = LeaseHolder::start(&store, PLATFORM_EPOCH, everybody, |user| {
        if friends.contains(user) {
            vec![live.clone()]
        } else {
            Vec::new()
        }
    })
    .await?;
    seed(&redis, &store, users).await?;
    let friends = format!("/v1/users/{}/friends/online?limit=1000", user(0));
    let all_friends = FRIENDS_ONLINE + FRIENDS_BEFORE;
    let everybody = format!("\"online_users\":{users},");
    let times = bench.pick(2_000, 50);
    for _ in 0..bench.rounds().min(3) {
        for (what, path, part, count) in [
            (
                "friends of 1,000 followed",
                &*friends,
                "user_id",
                all_friends,
            ),
            (
                "users online, counted",
                "/v1/online/count?window_s=300",
                &*everybody,
                1,
            ),
        ] {
            let first = gateway.call(Method::GET, path, None).await?;
            ensure!(
                first.matches(part).count() == count,
                "a wrong answer to {path}: {}",
                first.get(..300).unwrap_or(&first)
            );
            let before = gateway.metric(CALLS).await?;
            let answers = AnswerTimes::of(&gateway, &redis, path, times, SLOW).await?;
            let calls = gateway.metric(CALLS).await? - before;
            answers.note(bench, what);
            bench.ours(&format!("{what}: calls to Redis"), calls / times as f64);
            let slow = answers.slow.iter().sum::<f64>() / calls;
            bench.ours(&format!("{what}: calls over 1 ms in Redis, of all"), slow);
        }
    }
    Ok(())
}

/// The followed users who are online, in live 42.
fn friends_online() -> impl Iterator<Item = UserId> {
    (1..=FRIENDS_ONLINE).map(user)
}

/// Users 1 to `users` are online. User 0 follows some of them, and some who are not.
async fn seed(redis: &Redis, store: &RedisStore, users: usize) -> anyhow::Result<()> {
    let now = unix_now();
    let mut away: Vec<(UserId, u64)> = Vec::new();
    for n in 0..users / 4 {
        let seen = if n < FRIENDS_BEFORE {
            now
        } else {
            now - 3_600_000
        };
        away.push((user(users + n), seen));
    }
    for some in away.chunks(20_000) {
        store.note_seen(some, Duration::ZERO).await?;
    }
    let followed: Vec<UserId> = friends_online()
        .chain(away.into_iter().map(|(user, _)| user))
        .take(FOLLOWED)
        .collect();
    let edges: Vec<(f64, String)> = followed
        .iter()
        .map(|user| (1.0, user.to_string()))
        .collect();
    redis
        .client
        .zadd::<(), _, _>(
            format!("following:{}", user(0)),
            None,
            None,
            false,
            false,
            edges,
        )
        .await?;
    Ok(())
}
