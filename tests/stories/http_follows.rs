//! The follow graph over HTTP: follow, unfollow, and who follows whom, newest first.

use std::time::Duration;

use serde_json::Value;

use crate::support::stores::{on_memory, on_redis};
use crate::support::world::World;

async fn listed(world: &World, path: &str, limit: usize) -> Vec<String> {
    let items: Vec<Value> = world.backend().list(path, limit).await;
    items
        .iter()
        .map(|item| {
            item["user_id"]
                .as_str()
                .unwrap_or_else(|| panic!("no user_id: {item}"))
                .to_owned()
        })
        .collect()
}

on_memory! {
    async fn follows_are_listed_from_both_ends_newest_first(world) {
        let streamers: Vec<String> = (0..12).map(|i| format!("s{i}")).collect();
        for streamer in &streamers {
            world.backend().follow("u1", streamer).await;
            // The follows are a millisecond apart, so that their order is well defined.
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        for i in 0..5 {
            world.backend().follow(&format!("f{i}"), "star").await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        let newest: Vec<String> = streamers.iter().rev().cloned().collect();
        for limit in [1, 5, 12, 1_000] {
            assert_eq!(listed(&world, "/v1/users/u1/following", limit).await, newest, "limit {limit}");
        }
        assert_eq!(listed(&world, "/v1/users/star/followers", 2).await, ["f4", "f3", "f2", "f1", "f0"]);
        assert_eq!(listed(&world, "/v1/users/nobody/followers", 10).await, [""; 0]);
    }
}

on_memory! {
    async fn following_twice_keeps_the_time_of_the_first(world) {
        for streamer in ["s1", "s2"] {
            world.backend().follow("u1", streamer).await;
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        world.backend().follow("u1", "s1").await;
        assert_eq!(listed(&world, "/v1/users/u1/following", 10).await, ["s2", "s1"]);
    }
}

on_memory! {
    async fn unfollowing_takes_the_edge_out_and_again_is_fine(world) {
        world.follow(&["u1", "u2"]).await;
        world.backend().unfollow("u1", "s1").await;
        world.backend().unfollow("u1", "s1").await;
        assert_eq!(listed(&world, "/v1/users/s1/followers", 10).await, ["u2"]);
        assert_eq!(listed(&world, "/v1/users/u1/following", 10).await, [""; 0]);
    }
}

on_memory! {
    async fn ids_in_the_path_are_checked(world) {
        for bad in ["%7Bu%7D", "a%20b", "u%0A", "u*"] {
            world.backend().put(&format!("/v1/users/{bad}/following/s1"), Value::Null).await.problem(400);
            world.backend().put(&format!("/v1/users/u1/following/{bad}"), Value::Null).await.problem(400);
            world.backend().get(&format!("/v1/users/{bad}/followers")).await.problem(400);
        }
        // A user id may contain a colon and an at sign.
        world.backend().follow("mail@example.org:1", "s1").await;
        assert_eq!(listed(&world, "/v1/users/s1/followers", 10).await, ["mail@example.org:1"]);
    }
}

on_redis! {
    async fn the_graph_stands_in_redis_as_the_platform_knows_it(world) {
        world.follow(&["u1"]).await;
        let redis = world.redis();
        let from_one_end = redis.ask(&["ZSCORE", "followers:s1", "u1"]).await;
        assert_eq!(redis.ask(&["ZSCORE", "following:u1", "s1"]).await, from_one_end);
        assert!(from_one_end.is_string(), "scored by the time of the follow: {from_one_end}");
        world.backend().unfollow("u1", "s1").await;
        assert_eq!(redis.ask(&["EXISTS", "followers:s1", "following:u1"]).await, 0);
    }
}

on_memory! {
    async fn a_star_s_followers_come_page_by_page(world) {
        world.crowd_follows("u", 250).await;
        let mut all = listed(&world, "/v1/users/s1/followers", 40).await;
        assert_eq!(all.len(), 250);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 250, "each once");
    }
}
