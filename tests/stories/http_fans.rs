//! Fans over HTTP: the list of those online, page by page, and whether one user is among them.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::stores::{on_memory, on_redis};
use crate::support::wait::{PATIENCE, same, until};
use crate::support::world::World;

on_memory! {
    async fn the_fans_online_are_listed_each_once(world) {
        world.backend().open_sliced("42", "s1", 4).await;
        world.crowd_follows("u", 40).await;
        let _crowd = world.crowd("u", 45, "42").await;
        let wanted: BTreeSet<String> = (0..40).map(|i| format!("u{i}")).collect();
        let backend = world.backend();
        until("the fans in the API", PATIENCE, || async { same(backend.fans("42").await, wanted.clone()) }).await;
        for limit in [1, 3, 16, 40, 1_000] {
            let items = backend.list("/v1/lives/42/fans", limit).await;
            let listed: BTreeSet<_> = items.iter().map(|fan| fan["user_id"].as_str().unwrap().to_owned()).collect();
            assert_eq!(items.len(), 40, "each once, with limit {limit}: {items:?}");
            assert_eq!(listed, wanted, "limit {limit}");
        }
    }
}

on_memory! {
    async fn whether_one_user_is_online(world) {
        world.open("42").await;
        world.follow(&["u1", "u2"]).await;
        let fan = world.viewer_in("u1", "42").await;
        let _stranger = world.viewer_in("u3", "42").await;
        world.fans_become("42", &["u1"]).await;
        is_online(&world, "u1", true).await;
        is_online(&world, "u2", false).await;
        is_online(&world, "u3", false).await;
        fan.close().await;
        world.fans_become("42", &[]).await;
        is_online(&world, "u1", false).await;
    }
}

async fn is_online(world: &World, user: &str, online: bool) {
    let answer = world
        .backend()
        .get(&format!("/v1/lives/42/fans/{user}"))
        .await
        .is(200);
    assert_eq!(answer.body, json!({"online": online}), "{user}");
}

on_memory! {
    async fn a_live_with_nobody_and_a_closed_one_list_nobody(world) {
        world.open("42").await;
        let page = world.backend().get("/v1/lives/42/fans").await.is(200).body;
        assert_eq!(page, json!({"items": [], "cursor": null}));
        world.backend().close("42").await;
        let closed = world.backend().get("/v1/lives/42/fans").await;
        assert!(closed.status == 200 || closed.status == 404, "{closed:?}");
        if closed.status == 200 {
            assert_eq!(closed.body, json!({"items": [], "cursor": null}));
        }
    }
}

on_memory! {
    async fn limits_and_cursors_that_make_no_sense_are_refused(world) {
        world.open("42").await;
        for path in ["/v1/lives", "/v1/lives/42/fans", "/v1/users/u1/following", "/v1/users/s1/followers"] {
            for query in ["limit=0", "limit=-1", "limit=x", "limit=1001", "limit=99999999999999999999"] {
                world.backend().get(&format!("{path}?{query}")).await.problem(400);
            }
            for query in ["cursor=%00", "cursor=%7B%7D", "cursor=not-a-cursor"] {
                world.backend().get(&format!("{path}?{query}")).await.problem(400);
            }
        }
    }
}

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
            let items = world.backend().list("/v1/lives/42/fans", limit).await;
            let distinct: BTreeSet<_> = items.iter().map(|fan| fan["user_id"].as_str().unwrap()).collect();
            assert_eq!((items.len(), distinct.len()), (6_000, 6_000), "limit {limit}");
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
            let fans = world.backend().list(&format!("/v1/lives/42/fans?prefix={prefix}"), limit).await;
            fans.iter().map(|fan| fan["user_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
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
