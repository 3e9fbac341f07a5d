//! Fans over HTTP: a large list of those online, and those whose ids begin alike. The tests beside
//! the routes tell the rest.

use std::collections::BTreeSet;

use crate::support::stores::{on_memory, on_redis};

on_redis! {
    // The gateway that holds these fans never renews its lease.
    tuned(|config| config.lease = std::time::Duration::from_secs(600))
    async fn a_large_set_is_listed_each_at_most_once_in_bounded_pages(world) {
        world.backend().open_sliced("42", "s1", 2).await;
        // The story writes what a crowd of this size on another gateway leaves in Redis.
        world.redis().ask(&["HSET", "rollcall:leases", "gw-other", "1:1:1:"]).await;
        let epoch = world.epoch("42").await;
        for slice in 1..=2 {
            let fill = "for i = 1, 3000 do \
                  local user = 'user-' .. ARGV[1] .. '-' .. i \
                  redis.call('SADD', KEYS[1], user) redis.call('SADD', KEYS[2], user) \
                  redis.call('HSET', KEYS[3], user, '1 1f') \
                end \
                redis.call('HSET', KEYS[4], 'gw-other', '1:1') \
                return redis.call('SET', KEYS[5], 'open:' .. ARGV[2] .. ':1:1:3000-0:3000:1:1')";
            let set = format!("online-fans:42_slice{slice}");
            let [viewers, who, gateways, fence] =
                ["viewers", "who", "gateways", "fence"].map(|companion| format!("{{{set}}}:{companion}"));
            let (slice, epoch) = (slice.to_string(), epoch.to_string());
            world.redis().ask(&["EVAL", fill, "5", &set, &viewers, &who, &gateways, &fence, &slice, &epoch]).await;
        }
        for limit in [100, 999, 1_000] {
            let fans = world.backend().users("/v1/lives/42/fans", limit).await;
            let distinct: BTreeSet<_> = fans.iter().collect();
            assert_eq!((fans.len(), distinct.len()), (6_000, 6_000), "limit {limit}");
        }
    }
}

on_memory! {
    async fn fans_are_found_by_what_their_ids_begin_with(world) {
        world.open("42").await;
        let ids = ["a", "ann", "ann.b", "anna", "bob", "Ann"];
        world.follow(&ids).await;
        let mut sockets = Vec::new();
        for id in ids {
            sockets.push(world.viewer_in(id, "42").await);
        }
        world.fans_become("42", &ids).await;
        let found = async |prefix: &str, limit| {
            world.backend().users(&format!("/v1/lives/42/fans?prefix={prefix}"), limit).await
        };
        for limit in [1, 2, 100] {
            assert_eq!(found("ann", limit).await, ["ann", "ann.b", "anna"], "pages of {limit}");
        }
        assert_eq!(found("ann.", 10).await, ["ann.b"]);
        assert_eq!((found("", 10).await.len(), found("zz", 10).await.len()), (6, 0));
        let answer = world.backend().get("/v1/lives/42/fans?prefix=a%20b").await;
        assert_eq!(answer.problem(400), "invalid_query");
    }
}
