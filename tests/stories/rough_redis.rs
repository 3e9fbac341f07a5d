//! A Redis that answers but misbehaves: full, read-only, slow, without its scripts, with killed
//! connections, or with keys that another program deleted.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::audit::audit;

use crate::support::dashboard::{fans, viewers};
use crate::support::redis_view::Redis;
use crate::support::stores::{on_redis, story};
use crate::support::wait::{PATIENCE, fits, until};
use crate::support::world::World;

on_redis! {
    async fn a_full_redis_turns_nobody_away_and_catches_up(world) {
        world.open("42").await;
        world.crowd_follows("u", 4).await;
        let mut crowd = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u0", "u1"]).await;
        world.redis().ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
        for user in ["u2", "u3"] {
            let viewer = world.viewer_in(user, "42").await;
            crowd.push(viewer);
        }
        crowd.remove(0).close().await;
        let mut streamer = world.streamer("s2").await;
        streamer.is_refused(json!({"type": "open", "live_id": "43"}), "store_unavailable").await;
        let full = Instant::now();
        while full.elapsed() < world.config.timeout {
            for viewer in &mut crowd {
                viewer.heartbeat().await;
            }
            tokio::time::sleep(world.config.heartbeat / 2).await;
        }
        world.redis().ask(&["CONFIG", "SET", "maxmemory", "0"]).await;
        world.fans_become("42", &["u1", "u2", "u3"]).await;
        streamer.open("43").await;
    }
}

/// Whoever reads the log, or runs an audit, learns that Redis is full and what the sets lack;
/// clients learn that the store refuses writes, and nothing of its own words.
#[test]
fn a_full_redis_is_told_in_the_log_and_found_by_an_audit() {
    story(async {
        let mut world = World::program(Redis::start().await).await;
        world.open("42").await;
        world.crowd_follows("u", 4).await;
        let _early = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u0", "u1"]).await;
        world.redis().say("CONFIG SET maxmemory 1").await;
        let _late = (
            world.viewer_in("u2", "42").await,
            world.viewer_in("u3", "42").await,
        );
        let refused = r#"rollcall_store_errors_total{call="apply",error="refused"}"#;
        until(
            "the store refuses again and again",
            PATIENCE * 2,
            async || fits(world.metric(refused).await, |times| *times >= 3.0),
        )
        .await;
        let said = world.process().said();
        let lines: Vec<_> = said
            .lines()
            .filter(|line| line.contains("redis refuses calls"))
            .collect();
        assert_eq!(lines.len(), 1, "{said}");
        let node = world.redis().addr().to_string();
        for words in [
            "WARN",
            "OOM command not allowed when used memory > 'maxmemory'",
            node.as_str(),
        ] {
            assert!(lines[0].contains(words), "{words:?} is not in {lines:?}");
        }
        let problem = world
            .backend()
            .put("/v1/lives/43", json!({"streamer_id": "s1"}))
            .await
            .is(503)
            .body;
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.contains("refuses writes") && !detail.contains("OOM"),
            "{detail}"
        );

        let (url, gateway) = (world.redis().url(), format!("http://{}", world.addr));
        let by_itself = audit(&url, 1, "").await;
        let full = finding(&by_itself, "full_master");
        assert!(full["detail"].as_str().unwrap().contains(&node), "{full}");
        let asked = audit(&url, 1, &format!("--gateway {gateway}")).await;
        let unwritten = finding(&asked, "unwritten_changes");
        assert_eq!(unwritten["gateway_id"], world.gateway_id().await);
        // The two fans are also two users of the platform.
        assert!(unwritten["members"].as_u64().unwrap() >= 2, "{unwritten}");

        world.redis().say("CONFIG SET maxmemory 0").await;
        world.fans_become("42", &["u0", "u1", "u2", "u3"]).await;
        until("the audit finds nothing", PATIENCE * 2, async || {
            let report = world.backend().get("/v1/gateway/slices").await.is(200).body;
            let waits = report["items"]
                .as_array()
                .unwrap()
                .iter()
                .any(|slice| slice["unsettled"] != 0);
            if waits { Err(report) } else { Ok(()) }
        })
        .await;
        audit(&url, 0, &format!("--gateway {gateway}")).await;
    });
}

/// The only finding of a kind.
fn finding(report: &Value, kind: &str) -> Value {
    let all = report["findings"].as_array().unwrap().iter();
    let mut found: Vec<_> = all
        .filter(|finding| finding["kind"] == kind)
        .cloned()
        .collect();
    assert_eq!(found.len(), 1, "{report:#}");
    found.remove(0)
}

/// A restart in that hour must not make the outage a full one.
#[test]
fn a_gateway_starts_on_a_full_redis_and_says_so() {
    story(async {
        let redis = Redis::start().await;
        redis.ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let mut world = World::program(redis).await;
        let said = world.process().said();
        assert!(
            said.contains("refuses calls now: OOM command not allowed"),
            "{said}"
        );
        world.redis().say("CONFIG SET maxmemory 0").await;
        world.open("42").await;
    });
}

on_redis! {
    /// Scripts that free memory need none themselves, and gateways can still renew their leases.
    async fn in_a_full_redis_leaves_and_closes_pass_and_no_gateway_is_buried(world) {
        world.open("42").await;
        world.open("43").await;
        world.crowd_follows("u", 4).await;
        let mut crowd = world.crowd("u", 4, "42").await;
        let _swiper = world.viewer_in("u0", "43").await;
        let other = world.another_gateway().await;
        let mut dashboard = other.dashboard("42").await;
        dashboard.sees(viewers(4), fans(4)).await;
        world.fans_become("43", &["u0"]).await;
        world.redis().ask(&["CONFIG", "SET", "maxmemory", "1"]).await;
        crowd.pop().expect("somebody").close().await;
        world.fans_become("42", &["u0", "u1", "u2"]).await;
        world.fans_stay("42", &["u0", "u1", "u2"], world.config.lease * 2).await;
        dashboard.sees(viewers(3), fans(3)).await;
        assert_eq!(dashboard.log.last().unwrap().json["quality"], "exact", "both gateways have renewed their leases");
        let closed = other.backend().delete("/v1/lives/42").await.is(200).body;
        assert_eq!(closed["state"], "closed", "{closed}");
        crowd[0].expect("closed").await;
        assert_eq!(world.card("42").await, 0);
        world.fans_become("43", &["u0"]).await;
    }
}

on_redis! {
    async fn a_read_only_redis_is_survived(world) {
        world.open("42").await;
        world.crowd_follows("u", 3).await;
        let mut crowd = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u0", "u1"]).await;
        // A replica of nothing, as after a failover that went wrong, accepts reads and refuses
        // writes.
        world.redis().ask(&["REPLICAOF", "127.0.0.1", "1"]).await;
        let mut late = world.viewer_in("u2", "42").await;
        crowd.remove(0).close().await;
        late.heartbeat().await;
        world.redis().ask(&["REPLICAOF", "NO", "ONE"]).await;
        world.fans_become("42", &["u1", "u2"]).await;
        world.fans_stay("42", &["u1", "u2"], world.config.lease_refresh * 2).await;
    }
}

on_redis! {
    async fn scripts_and_connections_that_go_missing_are_made_again(world) {
        world.open("42").await;
        world.crowd_follows("u", 12).await;
        let mut crowd = Vec::new();
        for round in 0..4 {
            world.redis().ask(&["SCRIPT", "FLUSH"]).await;
            world.redis().ask(&["CLIENT", "KILL", "TYPE", "normal"]).await;
            for i in 0..3 {
                let mut viewer = world.viewer(&format!("u{}", round * 3 + i)).await;
                viewer.join("42").await;
                crowd.push(viewer);
            }
        }
        world.card_becomes("42", 12, PATIENCE).await;
        world.redis().ask(&["SCRIPT", "FLUSH"]).await;
        for viewer in crowd {
            viewer.close().await;
        }
        world.card_becomes("42", 0, PATIENCE).await;
        world.backend().close("42").await;
    }
}

on_redis! {
    async fn keys_of_another_type_stop_nobody(world) {
        world.open("42").await;
        world.open("43").await;
        world.crowd_follows("u", 3).await;
        let _first = world.viewer_in("u0", "42").await;
        world.fans_become("42", &["u0"]).await;
        // Another program makes a mistake.
        world.redis().ask(&["SET", "online-fans:42", "not a set"]).await;
        let mut unlucky = world.viewer_in("u1", "42").await;
        let _lucky = world.viewer_in("u2", "43").await;
        world.fans_become("43", &["u2"]).await;
        unlucky.heartbeat().await;
        world.redis().ask(&["DEL", "online-fans:42"]).await;
        world.fans_become("42", &["u0", "u1"]).await;
    }
}

#[test]
fn heartbeats_do_not_wait_for_a_slow_redis() {
    story(async {
        let redis = Redis::start().await;
        let (world, link) = World::over_a_link(&redis, |_| ()).await;
        let mut crowd = world.live_with_fans(10).await;
        link.slow(Duration::from_millis(400));
        let mut fastest = PATIENCE;
        for viewer in &mut crowd {
            let said = Instant::now();
            viewer.heartbeat().await;
            fastest = fastest.min(said.elapsed());
        }
        assert!(
            fastest < Duration::from_millis(200),
            "every ack waited for Redis: {fastest:?}"
        );
        crowd.truncate(6);
        link.heal();
        world.card_becomes("42", 6, PATIENCE).await;
    });
}

#[test]
fn a_viewer_who_joins_after_the_opening_gets_no_answer_read_before_it() {
    story(async {
        let redis = Redis::start().await;
        let quick = World::beside(redis.clone(), |_| ()).await;
        let (slow, link) = World::over_a_link(&redis, |_| ()).await;
        let (mut early, mut late) = (slow.viewer("u1").await, slow.viewer("u2").await);
        // Redis answers at once, but the answer takes long to arrive.
        link.mute();
        early.say(json!({"type": "join", "live_id": "42"})).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        quick.open("42").await;
        late.say(json!({"type": "join", "live_id": "42"})).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        link.heal();
        late.expect("joined").await;
    });
}

#[test]
fn a_viewer_who_waits_long_for_an_answer_is_not_taken_for_silent() {
    story(async {
        let redis = Redis::start().await;
        let (world, link) = World::over_a_link(&redis, |config| {
            // This is shorter than the time for which the gateway waits for its store.
            config.timeout = Duration::from_millis(800);
        })
        .await;
        world.open("42").await;
        let mut viewer = world.viewer("u1").await;
        link.mute();
        viewer.ask(json!({"type": "join", "live_id": "43"})).await;
        link.heal();
        tokio::time::sleep(world.config.timeout).await;
        assert!(viewer.is_connected().await, "{}", viewer.transcript());
    });
}
