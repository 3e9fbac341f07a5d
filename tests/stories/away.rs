//! Viewers whose tabs are hidden: they count, and are told apart.

use serde_json::json;

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::{on_memory, on_redis};

on_memory! {
    async fn a_hidden_tab_counts_and_is_told_apart_until_it_is_back(world) {
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let mut crowd = world.crowd("u", 2, "42").await;
        dashboard.sees_that("two viewers", |counts| counts.number("viewers") == 2).await;
        crowd[0].say(json!({"type": "away"})).await;
        dashboard.sees_that("one is away", |counts| counts.number("away") == 1).await;
        let listed = world.backend().get("/v1/lives").await.is(200).body["items"][0].clone();
        for shown in [listed, world.backend().live("42").await] {
            assert_eq!((&shown["away"], &shown["quality"]), (&json!(1), &json!("exact")), "{shown}");
        }
        // A heartbeat brings nobody back.
        let ack = crowd[0].heartbeat().await;
        crowd[0].ping().await;
        assert_eq!(ack.viewers, 2);
        crowd[1].say(json!({"type": "away"})).await;
        dashboard.sees_that("both are away", |counts| counts.number("away") == 2).await;
        crowd[0].say(json!({"type": "back"})).await;
        let counts = dashboard.sees_that("one is back", |counts| counts.number("away") == 1).await;
        assert_eq!((counts.number("viewers"), counts.number("joins"), counts.number("leaves")), (2, 2, 0));
        crowd.remove(1).close().await;
        let counts = dashboard.sees_that("the other left", |counts| counts.number("viewers") == 1).await;
        assert_eq!(counts.number("away"), 0);
    }
}

on_memory! {
    async fn a_user_is_away_when_every_tab_is_and_a_join_brings_back(world) {
        world.open("42").await;
        world.open("43").await;
        let mut dashboard = world.dashboard("42").await;
        let (mut one, mut two) = (world.viewer_in("u1", "42").await, world.viewer_in("u1", "42").await);
        let mut other = world.viewer_in("u2", "42").await;
        one.say(json!({"type": "away"})).await;
        // In the order in which the gateway shows them: the first of these two changes nothing.
        other.say(json!({"type": "away"})).await;
        let counts = dashboard.sees_that("somebody is away", |counts| counts.number("away") > 0).await;
        assert_eq!(counts.number("away"), 1, "one tab of two is not enough");
        two.say(json!({"type": "away"})).await;
        dashboard.sees_that("both are away", |counts| counts.number("away") == 2).await;
        one.join("42").await;
        dashboard.sees_that("a join brings back", |counts| counts.number("away") == 1).await;
        two.join("43").await;
        two.join("42").await;
        one.close().await;
        other.close().await;
        let counts = dashboard.sees_that("one tab is left", |counts| counts.number("viewers") == 1).await;
        assert_eq!(counts.number("away"), 0, "the joins brought this one back, too");
    }
}

on_memory! {
    async fn who_switches_to_another_live_is_away_in_neither(world) {
        world.open("42").await;
        world.open("43").await;
        let (mut dashboard, mut other) = (world.dashboard("42").await, world.dashboard("43").await);
        let mut crowd = world.crowd("u", 2, "42").await;
        crowd[0].say(json!({"type": "away"})).await;
        dashboard.sees_that("one is away", |counts| counts.number("away") == 1).await;
        crowd[0].join("43").await;
        other.sees_that("one who looks", |counts| (counts.number("viewers"), counts.number("away")) == (1, 0)).await;
        let counts = dashboard.sees_that("one is left", |counts| counts.number("viewers") == 1).await;
        assert_eq!(counts.number("away"), 0, "that one looks");
    }
}

on_memory! {
    async fn who_says_away_without_a_live_is_not_away_in_the_next_one(world) {
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let mut viewer = world.viewer("u1").await;
        viewer.say(json!({"type": "away"})).await;
        viewer.say(json!({"type": "back"})).await;
        viewer.say(json!({"type": "away"})).await;
        viewer.join("42").await;
        let counts = dashboard.sees_that("a viewer", |counts| counts.number("viewers") == 1).await;
        assert_eq!(counts.number("away"), 0);
    }
}

on_redis! {
    async fn those_who_are_away_are_known_on_every_gateway(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let (mut here, mut there) = (world.crowd("a", 2, "42").await, other.crowd("b", 2, "42").await);
        here[0].say(json!({"type": "away"})).await;
        there[0].say(json!({"type": "away"})).await;
        for gateway in [&world, &other] {
            let mut dashboard = gateway.dashboard("42").await;
            dashboard.sees_that("both are away", |counts| counts.number("away") == 2).await;
        }
        let third = world.another_gateway().await;
        let mut late = third.dashboard("42").await;
        late.sees(viewers(4), fans(0)).await;
        late.sees_that("both are away", |counts| counts.number("away") == 2).await;
        there.clear();
        late.sees_that("the other's viewers are gone", |counts| {
            (counts.number("viewers"), counts.number("away")) == (2, 1)
        })
        .await;
    }
}
