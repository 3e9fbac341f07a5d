//! Which friends of a user are online, or were seen in a span.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rollcall::base::clock::UnixMillis;
use rollcall::features::friends::online::{FriendsOf, friends_seen};
use rollcall::store::MAX_FOLLOWED;

use super::{Platform, on_each_platform};
use crate::conformance::user;

on_each_platform!(
    friends_come_online_first_and_then_the_latest,
    mutual_friends_follow_back,
    only_the_newest_follows_are_looked_at,
    random_histories_agree_with_a_model,
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

/// Random histories: a friend is shown who is online, or was seen since; online ones first, then the
/// latest.
async fn random_histories_agree_with_a_model(platform: Platform) {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut dice = StdRng::seed_from_u64(seed);
    let mut followed = BTreeSet::new();
    // Who is online was seen at the end of time.
    let mut seen: BTreeMap<usize, UnixMillis> = BTreeMap::new();
    for _ in 0..80 {
        let friend = dice.random_range(1..20);
        let one = [user(friend)];
        let at = dice.random_range(1..20);
        let is_online = seen.get(&friend) == Some(&UnixMillis::MAX);
        match dice.random_range(0..4) {
            0 => {
                platform.follow(0, friend).await;
                followed.insert(friend);
            }
            1 => {
                platform.come(&one).await;
                seen.insert(friend, UnixMillis::MAX);
            }
            2 if is_online => {
                platform.go(&one, at).await;
                seen.insert(friend, at);
            }
            _ => {
                platform.see(&one, at).await;
                let last = seen.entry(friend).or_default();
                *last = at.max(*last);
            }
        }
    }
    for since in [0, 5, 10, 19] {
        let mut expected: Vec<usize> = followed
            .iter()
            .copied()
            .filter(|friend| seen.get(friend).is_some_and(|at| *at >= since))
            .collect();
        expected.sort_by_key(|friend| (Reverse(seen[friend]), *friend));
        let found = platform.friends(FriendsOf::Following, since).await;
        assert_eq!(found, expected, "since {since}: {seen:?}");
    }
}
