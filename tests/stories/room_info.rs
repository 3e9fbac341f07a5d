//! What a back end writes about a live reaches its clients in messages that they get anyway, each
//! version once.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::backend::Answer;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, SLACK, same, until};
use crate::support::world::World;

/// The information in a message, with its version.
fn told(message: &Value) -> Option<(Value, u64)> {
    let version = message.get("info_version")?.as_u64().expect("a number");
    Some((message["info"].clone(), version))
}

/// Says heartbeats, not too many, until one is acknowledged with information.
async fn hears_info(viewer: &mut Viewer, within: Duration) -> (Value, u64) {
    let deadline = Instant::now() + within;
    loop {
        let ack = viewer.heartbeat_json().await;
        match told(&ack) {
            Some(told) => return told,
            None => assert!(
                Instant::now() < deadline,
                "no information within {within:?}, last {ack}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
}

on_both_stores! {
    async fn each_version_is_told_once_per_socket_with_what_comes_first(world) {
        let backend = world.backend();
        world.open("42").await;
        let mut early = world.viewer("u1").await;
        assert_eq!(told(&early.join("42").await), None);
        assert_eq!(told(&early.heartbeat_json().await), None);
        let mut dashboard = world.dashboard("42").await;
        let goods = json!({"goods": [{"id": 1, "price": 1.5}], "pinned": "Hallo \u{1f44b}"});
        let first = backend.tell("42", goods.clone()).await;
        assert_eq!(told(&early.heartbeat_json().await), Some((goods.clone(), first)));
        assert_eq!(told(&early.heartbeat_json().await), None, "once");
        let seen = dashboard.sees_that("the information", |counts| told(&counts.json).is_some()).await;
        assert_eq!(told(&seen.json), Some((goods.clone(), first)));
        let mut late = world.viewer("u2").await;
        assert_eq!(told(&late.join("42").await), Some((goods.clone(), first)));
        assert_eq!(told(&late.heartbeat_json().await), None, "it came with the answer to the join");
        // Sockets that are behind get the newest version only.
        backend.tell("42", json!(1)).await;
        let cleared = backend.tell("42", Value::Null).await;
        assert!(cleared > first);
        for viewer in [&mut early, &mut late] {
            assert_eq!(told(&viewer.heartbeat_json().await), Some((Value::Null, cleared)));
            assert_eq!(told(&viewer.heartbeat_json().await), None);
        }
        let seen = dashboard.sees_that("the last version", |counts| told(&counts.json).is_some_and(|t| t.1 == cleared));
        seen.await;
        // An acknowledgement with an id takes the same way.
        let last = backend.tell("42", json!("x")).await;
        assert_eq!(told(&early.ask(json!({"type": "heartbeat"})).await), Some((json!("x"), last)));
    }
}

on_memory! {
    async fn a_socket_that_changes_lives_gets_the_information_of_the_other(world) {
        for live in ["a", "b"] {
            world.open(live).await;
        }
        let in_a = world.backend().tell("a", json!("in a")).await;
        let in_b = world.backend().tell("b", json!("in b")).await;
        let mut viewer = world.viewer("u1").await;
        for (live, info, version) in [("a", "in a", in_a), ("b", "in b", in_b), ("a", "in a", in_a)] {
            assert_eq!(told(&viewer.join(live).await), Some((json!(info), version)));
            assert_eq!(told(&viewer.heartbeat_json().await), None);
        }
    }
}

on_memory! {
    async fn information_ends_with_its_epoch(world) {
        let backend = world.backend();
        world.open("42").await;
        backend.tell("42", json!("of the first epoch")).await;
        backend.close("42").await;
        let late = backend.put("/v1/lives/42/info", json!(1)).await;
        assert_eq!(late.problem(409), "live_not_open");
        assert_eq!(backend.put("/v1/lives/43/info", json!(1)).await.problem(404), "live_not_found");
        world.open("42").await;
        let mut viewer = world.viewer("u1").await;
        assert_eq!(told(&viewer.join("42").await), None);
        assert_eq!(told(&viewer.heartbeat_json().await), None);
    }
}

on_memory! {
    async fn information_that_is_too_long_or_no_json_is_refused(world) {
        world.open("42").await;
        let put = async |body: &str| {
            let path = "/v1/lives/42/info";
            world.backend().send(reqwest::Method::PUT, path, Some(body)).await
        };
        let longest = format!("\"{}\"", "x".repeat(1_022));
        put(&longest).await.is(200);
        put(&format!("  {longest}\n")).await.is(200);
        assert_eq!(put(&format!("\"{}\"", "x".repeat(1_023))).await.problem(413), "body_too_large");
        for bad in ["", "{", "nul", "{\"a\":1}x", "\"\\ud800\"", "1e999", &"[".repeat(500)] {
            assert_eq!(put(bad).await.problem(400), "bad_message", "{bad}");
        }
        let mut viewer = world.viewer("u1").await;
        assert_eq!(told(&viewer.join("42").await).unwrap().0, json!("x".repeat(1_022)));
    }
}

on_redis! {
    /// Only a message can tell the other gateway in time.
    tuned(|config| config.check_every = Duration::from_secs(60))
    async fn every_gateway_tells_it_at_once(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut viewers = [world.viewer_in("u1", "42").await, other.viewer_in("u2", "42").await];
        world.live_is_heard_by("42", 2).await;
        for info in [json!({"n": 1}), json!({"n": 2}), Value::Null] {
            let version = world.backend().tell("42", info.clone()).await;
            for viewer in &mut viewers {
                assert_eq!(hears_info(viewer, SLACK).await, (info.clone(), version));
            }
        }
    }
}

on_redis! {
    async fn information_whose_message_was_lost_comes_with_the_next_check(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        // As if another gateway had written it, and no message came.
        let version = 9_000_000_000_000_u64;
        let text = version.to_string();
        let fields = ["HSET", "live:42", "info", "[1]", "info_version", &text, "version", &text];
        world.redis().ask(&fields).await;
        let within = world.config.check_every * 3 / 2 + SLACK;
        assert_eq!(hears_info(&mut viewer, within).await, (json!([1]), version));
    }
}

/// Redis loses everything; the gateway gives back what it knows, and whoever comes later is told.
#[test]
fn information_outlives_the_loss_of_redis_data() {
    story(async {
        let redis = Redis::start().await;
        let world = World::beside(redis.clone(), |_| ()).await;
        let terms = json!({"streamer_id": "s1", "title": "a title", "streamer_timeout_s": 0});
        world.backend().put("/v1/lives/42", terms).await.is(201);
        let _viewer = world.viewer_in("u1", "42").await;
        let version = world.backend().tell("42", json!("kept")).await;
        redis.ask(&["FLUSHALL"]).await;
        until("the record is back", PATIENCE, async || {
            let fields = [
                "HMGET",
                "live:42",
                "info",
                "info_version",
                "title",
                "streamer_timeout_s",
            ];
            same(
                redis.ask(&fields).await,
                json!(["\"kept\"", version.to_string(), "a title", "0"]),
            )
        })
        .await;
        let other = World::beside(redis, |_| ()).await;
        let mut late = other.viewer("u2").await;
        assert_eq!(told(&late.join("42").await), Some((json!("kept"), version)));
        let next = other.backend().tell("42", json!("later")).await;
        assert!(next > version);
    });
}

on_memory! {
    async fn what_a_back_end_writes_keeps_each_digit_of_its_numbers(world) {
        const WRITTEN: &str = r#"{"sku":12345678901234567890123, "price":1.10,"e":1E2}"#;
        let backend = world.backend();
        let has_it = |answer: &Answer| assert!(answer.text.contains(WRITTEN), "{answer:?}");
        world.open("42").await;
        let path = "/v1/lives/42/info";
        has_it(&backend.send(Method::PUT, path, Some(WRITTEN)).await.is(200));
        has_it(&backend.get(path).await.is(200));
        let begun = world.tries_to_call("user_id=u1", json!({"live_id": "42"})).await.is(201);
        has_it(&begun);
        let session = begun.body["session_id"].as_str().unwrap();
        backend.send(Method::PUT, path, Some(WRITTEN)).await.is(200);
        has_it(&backend.send(Method::POST, &format!("/v1/presence/{session}"), None).await.is(200));

        let profile = json!({"login": "s1", "name": "S"});
        backend.put("/v1/users/s1", profile).await.is(201);
        let status = format!(r#"{{"data": {WRITTEN} ,"text":"Tomorrow"}}"#);
        let path = "/v1/users/s1/statuses";
        let posted = backend.send(Method::POST, path, Some(&status)).await.is(201);
        has_it(&posted);
        let status = posted.body["status_id"].as_str().unwrap();
        has_it(&backend.get(&format!("/v1/users/s1/statuses/{status}")).await.is(200));
        has_it(&backend.get("/v1/users/s1/profile").await.is(200));
    }
}
