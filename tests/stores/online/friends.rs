//! Which friends were there: the answer agrees with the two ways of the textbooks, on one Redis,
//! for random histories.
//!
//! One way adds everybody seen to a set a minute and joins the last sets. The other copies the
//! sorted set of all times, cuts the copy, and intersects it with the friends.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rollcall::base::clock::UnixMillis;
use rollcall::store::{FriendsOf, MAX_FOLLOWED, friends_seen};

use super::{Platform, on_each_platform};
use crate::conformance::user;

const MINUTE: UnixMillis = 60_000;
/// The sets of a window.
const WINDOW: u64 = 10;
const USERS: usize = 30;

on_each_platform!(
    friends_come_online_first_and_then_the_latest,
    mutual_friends_follow_back,
    only_the_newest_follows_are_looked_at,
);

impl Platform {
    /// The friends of user 0, in order.
    async fn friends(&self, of: FriendsOf, since: UnixMillis) -> Vec<usize> {
        let seen = friends_seen(self.store.as_ref(), &user(0), of, since)
            .await
            .unwrap();
        assert!(!seen.partial);
        seen.friends
            .iter()
            .map(|friend| friend.user.as_str()[1..].parse().unwrap())
            .collect()
    }

    async fn follow(&self, follower: usize, followed: usize) {
        self.store
            .follow(&user(follower), &user(followed))
            .await
            .unwrap();
    }
}

async fn friends_come_online_first_and_then_the_latest(platform: Platform) {
    for friend in 1..=6 {
        platform.follow(0, friend).await;
    }
    platform.see(&[user(1)], 100).await;
    platform.see(&[user(2)], 300).await;
    platform.see(&[user(3), user(4)], 200).await;
    platform.see(&[user(9)], 300).await;
    platform.come(&[user(6), user(5), user(8)]).await;
    assert_eq!(
        platform.friends(FriendsOf::Following, 0).await,
        [5, 6, 2, 3, 4, 1]
    );
    assert_eq!(
        platform.friends(FriendsOf::Following, 200).await,
        [5, 6, 2, 3, 4]
    );
    assert_eq!(platform.friends(FriendsOf::Following, 301).await, [5, 6]);
}

async fn mutual_friends_follow_back(platform: Platform) {
    platform.come(&[user(1), user(2), user(3)]).await;
    for (follower, followed) in [(0, 1), (0, 2), (2, 0), (3, 0)] {
        platform.follow(follower, followed).await;
    }
    assert_eq!(platform.friends(FriendsOf::Following, 0).await, [1, 2]);
    assert_eq!(platform.friends(FriendsOf::Mutual, 0).await, [2]);
}

async fn only_the_newest_follows_are_looked_at(platform: Platform) {
    for first in (1..=MAX_FOLLOWED + 1).step_by(100) {
        let followed: Vec<usize> = (first..(first + 100).min(MAX_FOLLOWED + 2)).collect();
        futures_util::future::join_all(followed.iter().map(|n| platform.follow(0, *n))).await;
        platform
            .see(&followed.into_iter().map(user).collect::<Vec<_>>(), 5)
            .await;
    }
    let seen = friends_seen(platform.store.as_ref(), &user(0), FriendsOf::Following, 0)
        .await
        .unwrap();
    assert_eq!((seen.friends.len(), seen.partial), (MAX_FOLLOWED, true));
    platform.store.unfollow(&user(0), &user(1)).await.unwrap();
    let seen = friends_seen(platform.store.as_ref(), &user(0), FriendsOf::Following, 0)
        .await
        .unwrap();
    assert_eq!((seen.friends.len(), seen.partial), (MAX_FOLLOWED, false));
}

/// What happened: who follows whom, and who was seen in which minute; at the end some are online.
#[derive(Debug, Clone)]
struct History {
    follows: BTreeSet<usize>,
    seen: Vec<(usize, u64)>,
    online: BTreeSet<usize>,
    now: u64,
}

fn histories() -> impl Strategy<Value = History> {
    let users = || prop::collection::btree_set(1..USERS, 0..USERS);
    let seen = prop::collection::vec((1..USERS, 0..25_u64), 0..60);
    (users(), seen, users(), 20..25_u64).prop_map(|(follows, seen, online, now)| History {
        follows,
        // Nobody is seen in the future.
        seen: seen
            .into_iter()
            .map(|(user, minute)| (user, minute.min(now)))
            .collect(),
        online,
        now,
    })
}

fn names(answer: &str) -> BTreeSet<String> {
    answer
        .lines()
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

async fn agrees(platform: &Platform, history: &History) -> Result<(), TestCaseError> {
    platform.empty();
    let History {
        follows,
        seen,
        online,
        now,
    } = history;
    let redis = |command: &str, key: &str, more: &[&str]| platform.redis(command, key, more);
    for friend in follows {
        platform.follow(0, *friend).await;
        redis("SADD", "{way}:friends", &[user(*friend).as_str()]);
    }
    let at_end = online.iter().map(|user| (*user, *now));
    for (who, minute) in seen.iter().copied().chain(at_end) {
        let (name, time) = (user(who), (minute * MINUTE).to_string());
        platform
            .see(std::slice::from_ref(&name), minute * MINUTE)
            .await;
        redis("SADD", &format!("{{way}}:minute{minute}"), &[name.as_str()]);
        redis("ZADD", "{way}:all", &["GT", &time, name.as_str()]);
    }
    platform
        .come(&online.iter().map(|n| user(*n)).collect::<Vec<_>>())
        .await;
    let first = now + 1 - WINDOW;

    let minutes: Vec<String> = (first..=*now)
        .map(|minute| format!("{{way}}:minute{minute}"))
        .collect();
    let minutes: Vec<&str> = minutes.iter().map(String::as_str).collect();
    redis("SUNIONSTORE", "{way}:recent", &minutes);
    let by_minutes = names(&redis("SINTER", "{way}:recent", &["{way}:friends"]));

    redis("ZUNIONSTORE", "{way}:copy", &["1", "{way}:all"]);
    redis(
        "ZREMRANGEBYSCORE",
        "{way}:copy",
        &["-inf", &format!("({}", first * MINUTE)],
    );
    redis(
        "ZINTERSTORE",
        "{way}:found",
        &["2", "{way}:copy", "{way}:friends", "WEIGHTS", "1", "0"],
    );
    let by_copy: Vec<String> = redis("ZRANGE", "{way}:found", &["0", "-1", "WITHSCORES"])
        .lines()
        .map(str::to_owned)
        .collect();

    let found = friends_seen(
        platform.store.as_ref(),
        &user(0),
        FriendsOf::Following,
        first * MINUTE,
    )
    .await
    .unwrap();
    let ours: BTreeSet<String> = found
        .friends
        .iter()
        .map(|friend| friend.user.to_string())
        .collect();
    prop_assert_eq!(&ours, &by_minutes);
    let mut times: Vec<(UnixMillis, String)> = Vec::new();
    for friend in &found.friends {
        // Who is online was seen now, as the copy has it.
        times.push((
            friend.presence.last_seen.unwrap_or(now * MINUTE),
            friend.user.to_string(),
        ));
        prop_assert_eq!(
            friend.presence.online,
            online.iter().any(|n| user(*n) == friend.user)
        );
    }
    times.sort();
    let ours: Vec<String> = times
        .into_iter()
        .flat_map(|(at, name)| [name, at.to_string()])
        .collect();
    prop_assert_eq!(ours, by_copy);
    Ok(())
}

#[test]
fn the_answer_agrees_with_both_textbook_ways() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let platform = runtime.block_on(Platform::on_redis());
    let config = Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    };
    let agreed = TestRunner::new(config).run(&histories(), |history| {
        runtime.block_on(agrees(&platform, &history))
    });
    if let Err(error) = agreed {
        panic!("{error}");
    }
}
