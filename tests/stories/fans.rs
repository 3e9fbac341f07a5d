//! A fan is a viewer who follows the streamer now; every other viewer is a viewer only.

use std::time::Duration;

use rollcall::config::FanKey;

use crate::support::stores::{on_both_stores, on_memory, on_redis};
use crate::support::wait::SLACK;

on_memory! {
    async fn a_viewer_who_does_not_follow_is_no_fan(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        world.backend().follow("u2", "another-streamer").await;
        let mut stranger = world.viewer_in("u2", "42").await;
        let _fan = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        world.acks_become(&mut stranger, Some(false), 2, 1).await;
        world.fans_stay("42", &["u1"], world.config.flush * 4).await;
    }
}

on_both_stores! {
    async fn a_follow_during_the_stream_counts_at_once(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.acks_become(&mut viewer, Some(false), 1, 0).await;
        world.follow(&["u1"]).await;
        world.fans_become_within("42", &["u1"], world.config.flush * 2 + SLACK).await;
        world.acks_become(&mut viewer, Some(true), 1, 1).await;
    }
}

on_memory! {
    async fn an_unfollow_during_the_stream_counts_at_once(world) {
        world.open("42").await;
        world.follow(&["u1", "u2"]).await;
        let mut crowd = world.crowd("u", 3, "42").await;
        world.fans_become("42", &["u1", "u2"]).await;
        world.backend().unfollow("u1", "s1").await;
        world.fans_become_within("42", &["u2"], world.config.flush * 2 + SLACK).await;
        world.acks_become(&mut crowd[1], Some(false), 3, 1).await;
    }
}

on_memory! {
    async fn the_last_follow_or_unfollow_decides(world) {
        world.open("42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        for _ in 0..10 {
            world.backend().follow("u1", "s1").await;
            world.backend().unfollow("u1", "s1").await;
        }
        world.follow(&["u1"]).await;
        world.fans_become("42", &["u1"]).await;
        world.fans_stay("42", &["u1"], Duration::from_millis(600)).await;
    }
}

on_redis! {
    async fn a_follow_is_seen_by_every_gateway(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut viewer = other.viewer_in("u1", "42").await;
        other.acks_become(&mut viewer, Some(false), 1, 0).await;
        world.follow(&["u1"]).await;
        world.fans_become_within("42", &["u1"], world.config.flush * 2 + SLACK).await;
        world.backend().unfollow("u1", "s1").await;
        world.fans_become_within("42", &[], world.config.flush * 2 + SLACK).await;
    }
}

on_redis! {
    tuned(|config| config.fan_ttl = Duration::from_millis(800))
    async fn a_follow_that_the_platform_writes_itself_is_seen_within_fan_ttl(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.acks_become(&mut viewer, Some(false), 1, 0).await;
        world.redis().ask(&["ZADD", "followers:s1", "1", "u1"]).await;
        world.fans_become_within("42", &["u1"], world.config.fan_ttl + SLACK).await;
        world.redis().ask(&["ZREM", "followers:s1", "u1"]).await;
        world.fans_become_within("42", &[], world.config.fan_ttl + SLACK).await;
    }
}

on_redis! {
    async fn each_fan_is_in_the_slice_that_the_contract_names(world) {
        world.backend().open_sliced("42", "s1", 8).await;
        world.crowd_follows("u", 40).await;
        let _crowd = world.crowd("u", 40, "42").await;
        world.card_becomes("42", 40, SLACK * 3).await;
        for i in 0..40 {
            let user = format!("u{i}");
            let slice = 1 + xxhash_rust::xxh3::xxh3_64(user.as_bytes()) % 8;
            let key = format!("online-fans:42_slice{slice}");
            assert_eq!(world.redis().ask(&["SISMEMBER", &key, &user]).await, 1, "{user} in {key}");
        }
        assert_eq!(world.redis().slices("42").await.len(), 8);
    }
}

on_memory! {
    tuned(|config| config.fan_key = FanKey::Following)
    async fn with_fan_key_following_each_viewers_own_key_is_asked(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut crowd = world.crowd("u", 3, "42").await;
        world.fans_become("42", &["u1"]).await;
        world.acks_become(&mut crowd[2], Some(false), 3, 1).await;
        world.follow(&["u2"]).await;
        world.fans_become_within("42", &["u1", "u2"], world.config.flush * 2 + SLACK).await;
        world.backend().unfollow("u1", "s1").await;
        world.fans_become_within("42", &["u2"], world.config.flush * 2 + SLACK).await;
    }
}

on_redis! {
    tuned(|config| (config.fan_key, config.fan_ttl) = (FanKey::Following, Duration::from_millis(800)))
    async fn with_fan_key_following_the_platform_need_not_write_followers(world) {
        world.open("42").await;
        // An old entry from the other end says nothing.
        world.redis().ask(&["ZADD", "followers:s1", "1", "u0"]).await;
        let _crowd = world.crowd("u", 3, "42").await;
        world.redis().ask(&["ZADD", "following:u1", "1", "s1", "1", "s2"]).await;
        world.redis().ask(&["ZADD", "following:u2", "1", "s2"]).await;
        world.fans_become_within("42", &["u1"], world.config.fan_ttl + SLACK).await;
        world.redis().ask(&["ZREM", "following:u1", "s1"]).await;
        world.fans_become_within("42", &[], world.config.fan_ttl + SLACK).await;
    }
}
