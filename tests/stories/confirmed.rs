//! A back end confirms who really watches: the third figure has those of the viewers who are there, and
//! whose confirmation is not older than a minute.

use rollcall::base::clock::unix_now;
use serde_json::{Value, json};

use crate::support::backend::Answer;
use crate::support::stores::{on_both_stores, on_redis};
use crate::support::wait::{PATIENCE, becomes, names, same, throughout};
use crate::support::world::World;

async fn confirm(world: &World, users: &[&str]) -> Answer {
    let path = "/v1/lives/42/confirmed";
    world.backend().post(path, json!({"user_ids": users})).await
}

async fn confirmed(world: &World) -> Value {
    world.backend().live("42").await["confirmed"].clone()
}

on_both_stores! {
    async fn viewers_who_are_there_count_once_and_until_they_leave(world) {
        world.backend().open_sliced("42", "s1", 4).await;
        let mut crowd = world.crowd("u", 5, "42").await;
        let second_device = world.viewer_in("u1", "42").await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees_that("all are there", |counts| counts.number("viewers") == 5).await;
        assert!(dashboard.log.iter().all(|counts| counts.json["confirmed"].is_null()), "nobody is confirmed");
        assert_eq!(confirmed(&world).await, 0);
        // Users who are in the store are confirmed; the store may be a moment behind.
        becomes("three of these are there", json!(3), async || {
            confirm(&world, &["u0", "u1", "u2", "nobody", "u1"]).await.is(200).body["confirmed"].clone()
        }).await;
        dashboard.sees_that("three are confirmed", |counts| counts.json["confirmed"] == 3).await;
        assert_eq!(confirmed(&world).await, 3);
        let listed = world.backend().get("/v1/lives").await.is(200).body["items"][0]["confirmed"].clone();
        assert_eq!(listed, 3);
        second_device.close().await;
        crowd.remove(0).close().await;
        dashboard.sees_that("one left", |counts| counts.json["confirmed"] == 2).await;
        let _back = world.viewer_in("u0", "42").await;
        dashboard.sees_that("the viewer is back", |counts| counts.number("viewers") == 5).await;
        throughout("coming back confirms nobody", world.config.flush * 6, async || {
            same(confirmed(&world).await, json!(2))
        }).await;
        becomes("confirmed again", json!(3), async || {
            confirm(&world, &["u0"]).await.is(200).body["confirmed"].clone()
        }).await;
        world.backend().close("42").await;
        assert_eq!(confirm(&world, &["u0"]).await.problem(409), "live_not_open");
    }
}

on_both_stores! {
    async fn a_call_that_cannot_be_meant_names_what_is_wrong(world) {
        assert_eq!(confirm(&world, &["u1"]).await.problem(404), "live_not_found");
        world.open("42").await;
        let many: Vec<String> = (0..1_001).map(|n| format!("u{n}")).collect();
        let path = "/v1/lives/42/confirmed";
        for (body, code, pointer) in [
            (json!({"user_ids": many}), "bad_message", "/user_ids"),
            (json!({"user_ids": ["u1", "a b"]}), "invalid_id", "/user_ids/1"),
            (json!({"user_ids": "u1"}), "bad_message", "/user_ids"),
        ] {
            let refused = world.backend().post(path, body).await;
            assert_eq!((refused.problem(400).as_str(), &refused.body["pointer"]), (code, &json!(pointer)));
        }
        let unknown = world.backend().post(path, json!({"users": ["u1"]})).await;
        assert_eq!(unknown.problem(400), "unknown_field");
        let none = confirm(&world, &[]).await.is(200).body;
        assert_eq!((&none["live_id"], &none["confirmed"]), (&json!("42"), &json!(0)));
    }
}

on_redis! {
    async fn any_gateway_confirms_and_all_that_hold_the_live_show_it(world) {
        world.backend().open_sliced("42", "s1", 2).await;
        let (there, apart) = (world.another_gateway().await, world.another_gateway().await);
        let _one = world.viewer_in("u1", "42").await;
        let _two = there.viewer_in("u2", "42").await;
        let mut dashboards = [world.dashboard("42").await, there.dashboard("42").await];
        for dashboard in &mut dashboards {
            dashboard.sees_that("both are there", |counts| counts.number("viewers") == 2).await;
        }
        // This gateway does not hold the live.
        assert!(confirmed(&apart).await.is_null());
        becomes("both are confirmed", json!(2), async || {
            confirm(&apart, &["u1", "u2"]).await.is(200).body["confirmed"].clone()
        }).await;
        for dashboard in &mut dashboards {
            dashboard.sees_that("both are confirmed", |counts| counts.json["confirmed"] == 2).await;
        }
        assert_eq!(confirm(&apart, &[]).await.is(200).body["confirmed"], 2);
    }
}

async fn key(world: &World) -> String {
    format!("{{online-fans:42}}:confirmed@{}", world.epoch("42").await)
}

on_redis! {
    async fn a_confirmation_is_good_for_a_minute_and_leaves_nothing_behind(world) {
        world.open("42").await;
        let _crowd = world.crowd("u", 3, "42").await;
        let mut dashboard = world.dashboard("42").await;
        becomes("all are confirmed", json!(3), async || {
            confirm(&world, &["u0", "u1", "u2"]).await.is(200).body["confirmed"].clone()
        }).await;
        let redis = world.redis();
        let key = key(&world).await;
        // As if it had come 59 s ago, and as if it had come a while ago.
        let at = |ago: u64| (unix_now() - ago).to_string();
        redis.ask(&["ZADD", &key, &at(59_000), "u0", &at(90_000), "u1"]).await;
        dashboard.sees_that("one is left", |counts| counts.json["confirmed"] == 1).await;
        becomes("the store keeps no old one", json!(1), async || redis.ask(&["ZCARD", &key]).await).await;
        redis.ask(&["ZADD", &key, &at(59_000), "u2"]).await;
        dashboard.sees_that("nobody is left", |counts| counts.json["confirmed"].is_null()).await;
        assert_eq!(redis.ask(&["EXISTS", &key]).await, 0);
    }
}

on_redis! {
    /// Another program wrote there, or took everything away.
    async fn whatever_others_write_the_next_confirmation_counts(world) {
        world.open("42").await;
        let _crowd = world.crowd("u", 2, "42").await;
        let redis = world.redis();
        let key = key(&world).await;
        redis.ask(&["SET", &key, "x"]).await;
        becomes("both are confirmed", json!(2), async || {
            confirm(&world, &["u0", "u1"]).await.is(200).body["confirmed"].clone()
        }).await;
        redis.ask(&["SET", &key, "x"]).await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees_that("they are lost", |counts| counts.json["confirmed"].is_null()).await;
        redis.say("FLUSHALL").await;
        world.viewers_are_back(&["u0", "u1"]).await;
        becomes("they are confirmed again", json!(2), async || {
            let answer = confirm(&world, &["u0", "u1"]).await;
            answer.body["confirmed"].clone()
        }).await;
        world.backend().close("42").await;
        assert_eq!(redis.ask(&["EXISTS", &key]).await, 0, "the close takes it away");
    }
}

impl World {
    /// After Redis lost its data, the set of viewers has these again.
    async fn viewers_are_back(&self, users: &[&str]) {
        let wanted = names(users);
        crate::support::wait::until("the viewers are back", PATIENCE, async || {
            let set = self
                .redis()
                .ask(&["SMEMBERS", "{online-fans:42}:viewers"])
                .await;
            let there = set.as_array().into_iter().flatten();
            same(
                there
                    .map(|user| user.as_str().unwrap().to_owned())
                    .collect(),
                wanted.clone(),
            )
        })
        .await;
    }
}
