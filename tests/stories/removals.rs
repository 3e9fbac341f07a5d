//! A moderator removes a viewer: out of the live on every gateway, at once or with the next lease
//! refresh, and kept out for as long as the ban says, whatever happens to messages, gateways and
//! Redis.

use std::time::Duration;

use reqwest::Method;
use rollcall::config::Config;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::dashboard::{fans, viewers};
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, SLACK, same, until};
use crate::support::world::World;

const REMOVED: u16 = 4_003;

fn join(live: &str) -> Value {
    json!({"type": "join", "live_id": live})
}

async fn is_banned(world: &World, user: &str, live: &str) {
    world
        .viewer(user)
        .await
        .is_refused(join(live), "banned")
        .await;
}

/// Tries to join, each time on a new socket, until the user is let in.
async fn is_let_in(world: &World, user: &str, live: &str, within: Duration) -> Viewer {
    let deadline = Instant::now() + within;
    loop {
        let mut viewer = world.viewer(user).await;
        let answer = viewer.ask(join(live)).await;
        match answer["code"].as_str() {
            None => return viewer,
            Some(code) => assert_eq!(code, "banned", "{answer}"),
        }
        assert!(
            Instant::now() < deadline,
            "{user} is still kept out of {live}"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The refresh is so slow that only a message can do the work in time.
fn no_refresh(config: &mut Config) {
    config.lease_refresh = Duration::from_secs(20);
    config.lease = Duration::from_secs(60);
}

on_memory! {
    async fn all_devices_of_the_user_are_closed_and_nobody_else_is(world) {
        world.open("42").await;
        world.open("43").await;
        world.follow(&["u1", "u2"]).await;
        let mut devices = [world.viewer("u1").await, world.viewer("u1").await];
        for device in &mut devices {
            device.join("42").await;
        }
        let mut elsewhere = world.viewer_in("u1", "43").await;
        let mut other = world.viewer_in("u2", "42").await;
        world.fans_become("42", &["u1", "u2"]).await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees(viewers(2), fans(2)).await;
        let answer = world.backend().remove("42", "u1").await.is(200).body;
        let epoch = world.epoch("42").await;
        assert_eq!(answer, json!({"live_id": "42", "epoch": epoch, "user_id": "u1", "ban_ends_at": null}));
        for device in &mut devices {
            device.expect_closed(REMOVED).await;
        }
        dashboard.sees(viewers(1), fans(1)).await;
        world.fans_become("42", &["u2"]).await;
        assert!(other.is_connected().await && elsewhere.is_connected().await);
        world.fans_become("43", &["u1"]).await;
        let metrics = world.backend().get("/metrics").await.text;
        for line in [
            "rollcall_removals_total{why=\"removed\"} 1",
            "rollcall_sockets_closed_total{why=\"removed\"} 2",
            "rollcall_leaves_total{why=\"removed\"} 2",
        ] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
        // Without a ban the viewer may come back, and stays.
        let mut again = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1", "u2"]).await;
        again.hears_no("error", world.config.lease_refresh * 3).await;
        dashboard.sees(viewers(2), fans(2)).await;
    }
}

on_both_stores! {
    async fn a_ban_refuses_joins_and_nothing_else(world) {
        world.open("42").await;
        world.open("43").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let answer = world.backend().ban("42", "u1", 600).await;
        assert!(answer["ban_ends_at"].as_u64().unwrap() > 1_600_000_000_000, "{answer}");
        viewer.expect_closed(REMOVED).await;
        // Joins by message and by query are refused. The socket stays open and keeps its other
        // live.
        let mut back = world.viewer_in("u1", "43").await;
        let refused = back.is_refused(join("42"), "banned").await;
        assert!(refused["message"].as_str().unwrap().contains(" s"), "{refused}");
        assert_eq!(back.heartbeat_json().await["live_id"], "43");
        let mut by_query = world.person("u1", "viewer", "&live_id=42").await;
        by_query.expect_error("banned").await;
        assert!(by_query.is_connected().await);
        // A ban does not keep a socket from watching, which is no join.
        let mut service = world.person("u1", "service", "&watch=42").await;
        service.expect("counts").await;
        service.is_refused(join("42"), "banned").await;
        assert_eq!(world.backend().live("42").await["viewers"], 0);
        let bans = world.backend().list("/v1/lives/42/bans", 10).await;
        assert_eq!(bans, [json!({"user_id": "u1", "ban_ends_at": answer["ban_ends_at"]})]);
    }
}

on_both_stores! {
    async fn a_ban_ends_after_its_time_or_when_it_is_lifted(world) {
        world.open("42").await;
        world.backend().ban("42", "u1", 1).await;
        world.backend().ban("42", "u2", 600).await;
        let banned = Instant::now();
        is_banned(&world, "u1", "42").await;
        is_banned(&world, "u2", "42").await;
        let lifted = world.backend().delete("/v1/lives/42/bans/u2").await.is(200).body;
        assert_eq!(lifted, json!({"banned": false, "changed": true}));
        world.viewer("u2").await.join("42").await;
        let _in = is_let_in(&world, "u1", "42", Duration::from_secs(1) + SLACK).await;
        assert!(banned.elapsed() > Duration::from_millis(800), "after {:?}", banned.elapsed());
        for user in ["u1", "u2", "u3"] {
            let lifted = world.backend().delete(&format!("/v1/lives/42/bans/{user}")).await.is(200).body;
            assert_eq!(lifted, json!({"banned": false, "changed": false}), "{user}");
        }
        assert!(world.backend().list("/v1/lives/42/bans", 10).await.is_empty());
    }
}

on_memory! {
    async fn a_removed_viewer_who_vanished_loses_the_seat_too(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        viewer.vanish();
        let vanished = Instant::now();
        until("the socket is gone and its seat is kept", PATIENCE, || async {
            let metrics = world.backend().get("/metrics").await.text;
            let kept = ["rollcall_sockets 0\n", "rollcall_members 1\n"].iter().all(|line| metrics.contains(line));
            if kept { Ok(()) } else { Err(metrics) }
        })
        .await;
        world.backend().remove("42", "u1").await.is(200);
        world.fans_become("42", &[]).await;
        assert_eq!(world.backend().live("42").await["viewers"], 0);
        assert!(vanished.elapsed() < world.config.timeout, "its silence did not do it");
    }
}

on_redis! {
    async fn a_ban_is_of_one_opening(world) {
        world.open("42").await;
        world.backend().ban("42", "u1", 600).await;
        world.backend().close("42").await;
        let keys = world.redis().keys("{live:*").await;
        assert!(keys.is_empty(), "{keys:?}");
        assert_eq!(world.backend().remove("42", "u1").await.problem(409), "live_not_open");
        assert_eq!(world.backend().delete("/v1/lives/42/bans/u1").await.problem(409), "live_not_open");
        assert!(world.backend().list("/v1/lives/42/bans", 10).await.is_empty());
        world.open("42").await;
        world.viewer("u1").await.join("42").await;
        assert!(world.backend().list("/v1/lives/42/bans", 10).await.is_empty());
    }
}

on_memory! {
    async fn impossible_removals_are_refused(world) {
        let backend = world.backend();
        assert_eq!(backend.remove("41", "u1").await.problem(404), "live_not_found");
        assert_eq!(backend.get("/v1/lives/41/bans").await.problem(404), "live_not_found");
        world.open("42").await;
        assert_eq!(backend.remove("42", "s1").await.problem(403), "forbidden");
        assert_eq!(backend.remove("42", "u%201").await.problem(400), "invalid_id");
        let ban = |user: &str, body: &str| {
            let (path, body) = (format!("/v1/lives/42/bans/{user}"), body.to_owned());
            async move { backend.send(Method::PUT, &path, Some(&body)).await }
        };
        assert_eq!(ban("s1", r#"{"ban_s":5}"#).await.problem(403), "forbidden");
        for body in ["", "null", "{}", "[]", "7", "{", r#"{"ban_s":null}"#, r#"{"ban_s":0}"#, r#"{"ban_s":-1}"#,
            r#"{"ban_s":1.5}"#, r#"{"ban_s":"600"}"#, r#"{"ban_s":true}"#, r#"{"ban_s":2592001}"#,
            r#"{"ban_s":18446744073709551615}"#, r#"{"ban_s":1e99}"#, r#"{"ban_s":600,"ban_s":5}"#] {
            assert_eq!(ban("u1", body).await.problem(400), "bad_message", "{body}");
        }
        let large = format!("{{\"ban_s\":5,\"more\":\"{}\"}}", "x".repeat(70_000));
        assert_eq!(ban("u1", &large).await.problem(413), "body_too_large");
        // A misspelt ban must not pass for none, and a removal bans nobody.
        for body in [r#"{"ban":600}"#, r#"{"why":"spam"}"#] {
            assert_eq!(ban("u1", body).await.problem(400), "unknown_field", "{body}");
        }
        let remove = async |body: &str| backend.send(Method::DELETE, "/v1/lives/42/viewers/u1", Some(body)).await;
        assert_eq!(remove(r#"{"ban":600}"#).await.problem(400), "unknown_field");
        assert_eq!(remove(r#"{"ban_s":"600"}"#).await.problem(400), "bad_message");
        for body in ["", "null", "{}", r#"{"ban_s":null}"#, r#"{"ban_s":0}"#] {
            assert_eq!(remove(body).await.is(200).body["ban_ends_at"], Value::Null, "{body}");
        }
        assert!(backend.list("/v1/lives/42/bans", 10).await.is_empty());
        // A removal may ban as well.
        assert!(remove(r#"{"ban_s":5}"#).await.is(200).body["ban_ends_at"].is_u64());
        backend.delete("/v1/lives/42/bans/u1").await.is(200);
        assert_eq!(backend.remove("42", "u1").await.is(200).body["ban_ends_at"], Value::Null);
        assert_eq!(backend.send(Method::GET, "/v1/lives/42/viewers/u1", None).await.problem(405), "method_not_allowed");
        for seconds in [1_000, 2_592_000] {
            assert!(backend.ban("42", "u1", seconds).await["ban_ends_at"].is_u64());
        }
    }
}

on_memory! {
    async fn bans_are_listed_by_their_end_in_pages(world) {
        world.open("42").await;
        for n in [5, 3, 1, 4, 2] {
            world.backend().ban("42", &format!("u{n}"), n * 100).await;
        }
        for limit in [1, 2, 5, 100] {
            let users = world.backend().users("/v1/lives/42/bans", limit).await;
            assert_eq!(users, ["u1", "u2", "u3", "u4", "u5"], "in pages of {limit}");
        }
    }
}

on_redis! {
    tuned(no_refresh)
    async fn a_removal_reaches_two_devices_on_two_gateways_at_once(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let other = world.another_gateway().await;
        let third = world.another_gateway().await;
        let mut here = world.viewer_in("u1", "42").await;
        let mut there = other.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        world.live_is_heard_by("42", 2).await;
        // The story asks a gateway that has no room for the live.
        let removed = Instant::now();
        third.backend().ban("42", "u1", 600).await;
        here.expect_closed(REMOVED).await;
        there.expect_closed(REMOVED).await;
        world.fans_become("42", &[]).await;
        assert!(removed.elapsed() < Duration::from_secs(2), "after {:?}", removed.elapsed());
        let later = world.another_gateway().await;
        for gateway in [&world, &other, &third, &later] {
            is_banned(gateway, "u1", "42").await;
        }
        // Lifting the ban reaches all gateways, too.
        world.live_is_heard_by("42", 4).await;
        third.backend().delete("/v1/lives/42/bans/u1").await.is(200);
        for gateway in [&world, &other, &third, &later] {
            is_let_in(gateway, "u1", "42", PATIENCE).await.close().await;
        }
    }
}

on_redis! {
    async fn a_removal_whose_word_is_lost_comes_with_a_check(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        world.redis().ask(&["ACL", "SETUSER", "default", "resetchannels"]).await;
        world.redis().ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        world.live_is_heard_by("42", 0).await;
        let mut removed = other.viewer_in("u1", "42").await;
        let mut banned = other.viewer_in("u2", "42").await;
        let asked = Instant::now();
        world.backend().remove("42", "u1").await.is(200);
        world.backend().ban("42", "u2", 600).await;
        removed.expect_closed(REMOVED).await;
        banned.expect_closed(REMOVED).await;
        let took = asked.elapsed();
        assert!(took < world.config.lease_refresh * 3 + SLACK, "after {took:?}");
        is_banned(&other, "u2", "42").await;
        // A viewer who comes back later than that stays.
        let mut back = other.viewer_in("u1", "42").await;
        back.hears_no("error", world.config.lease_refresh * 3).await;
        world.backend().delete("/v1/lives/42/bans/u2").await.is(200);
        is_let_in(&other, "u2", "42", world.config.lease_refresh * 3 + SLACK).await;
    }
}

on_redis! {
    tuned(no_refresh)
    async fn a_word_that_lies_about_removals_removes_nobody(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.live_is_heard_by("42", 1).await;
        for _ in 0..3 {
            let word = json!({"v": 4, "gateway": "gw-liar", "type": "record"});
            assert_eq!(world.redis().ask(&["SPUBLISH", "rollcall:{live:42}", &word.to_string()]).await, 1);
        }
        viewer.hears_no("closed", Duration::from_millis(300)).await;
        // A real ban afterwards still works.
        let other = world.another_gateway().await;
        other.backend().ban("42", "u1", 600).await;
        viewer.expect_closed(REMOVED).await;
    }
}

on_redis! {
    tuned(no_refresh)
    async fn many_removals_at_once_reach_everybody(world) {
        const USERS: usize = 40;
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut crowd = other.crowd("u", USERS, "42").await;
        world.live_is_heard_by("42", 2).await;
        let backend = world.backend();
        let bans = (0..USERS).map(|n| async move { backend.ban("42", &format!("u{n}"), 600).await });
        futures_util::future::join_all(bans).await;
        for viewer in &mut crowd {
            viewer.expect_closed(REMOVED).await;
        }
        assert_eq!(backend.list("/v1/lives/42/bans", 7).await.len(), USERS);
    }
}

on_redis! {
    async fn bans_outlive_the_data_of_redis(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let _here = world.crowd("a", 1, "42").await;
        let _there = other.crowd("b", 1, "42").await;
        world.backend().ban("42", "u1", 600).await;
        world.backend().ban("42", "u2", 600).await;
        world.backend().delete("/v1/lives/42/bans/u2").await.is(200);
        is_banned(&other, "u1", "42").await;
        world.redis().ask(&["FLUSHALL"]).await;
        until("the ban is noted again", world.config.lease_refresh * 2 + SLACK, || async {
            let bans = world.redis().ask(&["ZRANGE", "{live:42}:bans", "0", "-1"]).await;
            same(bans, json!(["u1"]))
        })
        .await;
        let later = world.another_gateway().await;
        for gateway in [&world, &other, &later] {
            is_banned(gateway, "u1", "42").await;
            gateway.viewer("u2").await.join("42").await;
        }
        // Removals go on, on every gateway, with numbers that no gateway has seen.
        let mut viewer = other.viewer_in("u3", "42").await;
        world.backend().ban("42", "u3", 600).await;
        viewer.expect_closed(REMOVED).await;
        world.backend().delete("/v1/lives/42/bans/u1").await.is(200);
        for gateway in [&world, &other, &later] {
            is_let_in(gateway, "u1", "42", PATIENCE).await.close().await;
            is_banned(gateway, "u3", "42").await;
        }
    }
}

on_redis! {
    tuned(no_refresh)
    async fn a_removal_finds_a_record_that_was_lost(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.redis().ask(&["FLUSHALL"]).await;
        world.backend().ban("42", "u1", 600).await;
        viewer.expect_closed(REMOVED).await;
        is_banned(&world, "u1", "42").await;
    }
}

#[test]
fn a_gateway_that_was_cut_off_carries_out_the_removal_when_it_is_back() {
    story(async {
        let redis = Redis::start().await;
        let (far, link) = World::over_a_link(&redis, |_| ()).await;
        let near = World::beside(redis, |_| ()).await;
        near.open("42").await;
        let mut behind = far.crowd("u", 3, "42").await;
        link.cut();
        far.readyz_becomes(503).await;
        near.backend().remove("42", "u0").await.is(200);
        near.backend().ban("42", "u1", 600).await;
        assert_eq!(
            far.backend().remove("42", "u2").await.problem(503),
            "store_unavailable"
        );
        assert!(behind[0].is_connected().await);
        link.heal();
        // How soon a gateway finds its Redis again belongs to another story.
        far.readyz_becomes(200).await;
        behind[0].expect_closed(REMOVED).await;
        behind[1].expect_closed(REMOVED).await;
        is_banned(&far, "u1", "42").await;
        assert!(behind[2].is_connected().await);
    });
}
