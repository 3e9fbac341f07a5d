//! Several gateways on one Redis show the same figures, whatever is lost between them and whichever
//! of them dies.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::dashboard::{fans, viewers};
use crate::support::redis_view::Redis;
use crate::support::stores::{on_redis, story};
use crate::support::wait::{PATIENCE, SLACK, same, throughout, until};
use crate::support::world::World;

on_redis! {
    async fn a_gateway_without_a_room_reads_the_figures_in_the_store(world) {
        world.open("42").await;
        let second = world.another_gateway().await;
        let third = world.another_gateway().await;
        let _here = world.crowd("a", 3, "42").await;
        let _there = second.crowd("b", 2, "42").await;
        third.figures_become("42", (5, 0), world.config.lease_refresh + Duration::from_secs(1)).await;
    }
}

on_redis! {
    async fn three_gateways_show_the_same_within_a_moment(world) {
        world.open("42").await;
        world.crowd_follows("u", 6).await;
        let worlds = [&world, &world.another_gateway().await, &world.another_gateway().await];
        let mut dashboards = Vec::new();
        let mut crowd = Vec::new();
        for (n, world) in worlds.iter().enumerate() {
            dashboards.push(world.dashboard("42").await);
            for user in [format!("u{n}"), format!("u{}", n + 3), format!("v{n}")] {
                let mut viewer = world.viewer(&user).await;
                viewer.join("42").await;
                crowd.push(viewer);
            }
        }
        for dashboard in &mut dashboards {
            let seen = dashboard.sees(viewers(9), fans(6)).await;
            assert_eq!(seen.json["quality"], "exact", "{}", dashboard.seen());
        }
        for viewer in crowd.drain(..6) {
            viewer.close().await;
        }
        for dashboard in &mut dashboards {
            let seen = dashboard.sees(viewers(3), fans(2)).await;
            assert_eq!((seen.number("peak_viewers"), seen.number("peak_fans")), (9, 6), "{}", dashboard.seen());
        }
    }
}

on_redis! {
    /// The refresh is so slow that only a message can tell the other gateway in time.
    tuned(|config| {
        config.lease_refresh = Duration::from_secs(20);
        config.lease = Duration::from_secs(60);
    })
    async fn a_close_reaches_the_sockets_of_the_others_at_once(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut viewer = other.viewer_in("u1", "42").await;
        let mut dashboard = other.dashboard("42").await;
        let mut here = world.dashboard("42").await;
        here.sees(viewers(1), fans(0)).await;
        world.live_is_heard_by("42", 2).await;
        let closed = Instant::now();
        world.backend().close("42").await;
        assert_eq!(viewer.expect("closed").await["reason"], "requested");
        assert_eq!(dashboard.expect("closed").await["peak_viewers"], 1);
        assert!(closed.elapsed() < Duration::from_secs(1), "after {:?}", closed.elapsed());
        // The next epoch has a room of its own.
        world.open("42").await;
        viewer.join("42").await;
        here.watch("42").await;
        here.sees(viewers(1), fans(0)).await;
    }
}

on_redis! {
    async fn a_word_that_lies_about_a_close_ends_nothing(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees(viewers(1), fans(0)).await;
        world.live_is_heard_by("42", 1).await;
        let epoch = world.epoch("42").await;
        let counts = |epoch: u64, rest: serde_json::Value| {
            let mut word = json!({"v": 4, "gateway": "gw-liar", "type": "counts", "epoch": epoch, "number": 1});
            word.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            word.to_string()
        };
        for word in [
            r#"{"v":4,"gateway":"gw-liar","type":"record"}"#.to_owned(),
            r#"{"v":4,"gateway":"gw-liar","type":"doubt"}"#.to_owned(),
            counts(epoch + 8, json!({"viewers": 5})),
            counts(epoch - 1, json!({"viewers": 5})),
            counts(epoch, json!({"viewers": 0, "slices": [[0, 1, 1], [9, 9, 9]]})),
            r#"{"v":9,"gateway":"gw-later","type":"counts"}"#.to_owned(),
            r#"{"v":4,"gateway":"gw-later","type":"ban","user":"u1"}"#.to_owned(),
            "no word at all".to_owned(),
        ] {
            assert_eq!(world.redis().ask(&["SPUBLISH", "rollcall:{live:42}", &word]).await, 1, "somebody listens");
        }
        world.redis().ask(&["SPUBLISH", "rollcall:gateways", "\u{0}"]).await;
        viewer.hears_no("closed", world.config.lease_refresh * 2).await;
        dashboard.listen(Duration::ZERO).await;
        assert!(dashboard.log.iter().all(|c| c.number("viewers") <= 1), "{}", dashboard.seen());
        let metrics = world.backend().get("/metrics").await.text;
        for why in ["malformed", "unknown", "old_epoch", "newer_epoch"] {
            let counter = format!("rollcall_peer_messages_ignored_total{{why=\"{why}\"}}");
            assert!(metrics.contains(&counter), "{why} in {metrics}");
        }
    }
}

on_redis! {
    async fn words_that_are_lost_are_made_good_by_a_check(world) {
        world.open("42").await;
        world.crowd_follows("u", 3).await;
        let other = world.another_gateway().await;
        let mut here = world.dashboard("42").await;
        let mut crowd = Vec::new();
        for round in 0..6_u64 {
            let mut viewer = other.viewer(&format!("u{round}")).await;
            // Some messages fall into the gap; others come before it or after it.
            let redis = world.redis().clone();
            let kill = tokio::spawn(async move { redis.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await });
            viewer.join("42").await;
            kill.await.unwrap();
            crowd.push(viewer);
            let wanted = (round + 1, (round + 1).min(3));
            // While its subscription is away, a gateway checks every two and a half refreshes.
            let bound = world.config.lease_refresh * 3 + SLACK;
            world.figures_become("42", wanted, bound).await;
            other.figures_become("42", wanted, bound).await;
        }
        here.sees(viewers(6), fans(3)).await;
        let metrics = world.backend().get("/metrics").await.text;
        assert!(!metrics.contains("rollcall_resubscriptions_total 0"), "{metrics}");
    }
}

#[test]
fn a_gateway_that_hears_nothing_at_all_is_late_but_right() {
    story(async {
        let redis = Redis::start().await;
        let here = World::beside(redis.clone(), |_| ()).await;
        here.open("42").await;
        here.crowd_follows("u", 3).await;
        let there = World::beside(redis.clone(), |_| ()).await;
        // Nobody may use any channel from now on, so every message is lost, both ways.
        redis.say("ACL SETUSER default resetchannels").await;
        redis.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        let _here = here.crowd("u", 2, "42").await;
        here.fans_become("42", &["u0", "u1"]).await;
        // A gateway that hears nothing checks what it holds more often.
        let bound = here.config.lease_refresh * 3 + SLACK;
        let mut crowd = there.crowd("v", 3, "42").await;
        for world in [&here, &there] {
            world.figures_become("42", (5, 2), bound).await;
        }
        let fan = there.viewer_in("u2", "42").await;
        for world in [&here, &there] {
            world.figures_become("42", (6, 3), bound).await;
        }
        crowd.pop().unwrap().close().await;
        fan.close().await;
        for world in [&here, &there] {
            world.figures_become("42", (4, 2), bound).await;
        }
        here.backend().close("42").await;
        crowd[0].expect("closed").await;
    });
}

#[test]
fn the_viewers_of_a_killed_gateway_leave_the_sums_at_its_lease() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let other = World::beside(redis, |_| ()).await;
        doomed.open("42").await;
        doomed.crowd_follows("u", 2).await;
        let _crowd = doomed.crowd("u", 5, "42").await;
        let mut dashboard = other.dashboard("42").await;
        dashboard.sees(viewers(5), fans(2)).await;
        doomed.process().kill();
        let killed = Instant::now();
        dashboard
            .sees_that("no viewers", |counts| counts.number("viewers") == 0)
            .await;
        let took = killed.elapsed();
        let lease = other.config.lease;
        assert!(
            took < lease + Duration::from_secs(1) + SLACK,
            "after {took:?}"
        );
        assert!(
            took > lease - other.config.lease_refresh * 2,
            "it might have come back until then: {took:?}"
        );
        // Its viewers may be on their way to another gateway, so for a while the count is not
        // exact.
        assert!(
            dashboard.log.iter().any(|c| c.json["quality"] == "partial"),
            "{}",
            dashboard.seen()
        );
        dashboard
            .sees_that("all gone, and exact", |c| {
                c.are(viewers(0), fans(0)) && c.json["quality"] == "exact"
            })
            .await;
    });
}

on_redis! {
    /// The figures were higher before, so only the viewer elsewhere is new.
    async fn a_viewer_elsewhere_counts_in_a_still_live_for_as_long_as_they_stay(world) {
        world.open("42").await;
        world.crowd_follows("u", 1).await;
        let mut crowd = world.crowd("u", 5, "42").await;
        world.fans_become("42", &["u0"]).await;
        let left = crowd.split_off(2);
        for viewer in left {
            viewer.close().await;
        }
        world.figures_become("42", (2, 1), PATIENCE).await;
        let other = world.another_gateway().await;
        let _plain = other.viewer_in("w0", "42").await;
        world.figures_become("42", (3, 1), world.config.lease_refresh + SLACK).await;
        // This is longer than it takes to forget a gateway that has fallen silent.
        throughout("they count", world.config.lease * 3, async || same(world.figures("42").await, (3, 1))).await;
    }
}

on_redis! {
    async fn a_gateway_that_stops_in_good_order_leaves_no_doubt(world) {
        world.open("42").await;
        world.crowd_follows("u", 1).await;
        let other = world.another_gateway().await;
        let mut dashboard = world.dashboard("42").await;
        let _crowd = other.crowd("u", 3, "42").await;
        dashboard.sees(viewers(3), fans(1)).await;
        let stopped = Instant::now();
        other.stop().await;
        dashboard.sees(viewers(0), fans(0)).await;
        assert!(stopped.elapsed() < SLACK, "after {:?}: {}", stopped.elapsed(), dashboard.seen());
        let leases = world.redis().ask(&["HVALS", "rollcall:leases"]).await;
        let buried = |field: &serde_json::Value| field.as_str().is_some_and(|text| text.starts_with("dead:"));
        assert!(leases.as_array().is_some_and(|leases| leases.iter().any(buried)), "{leases}");
        dashboard.listen(world.config.lease).await;
        assert!(dashboard.log.iter().all(|c| c.json["quality"] == "exact"), "{}", dashboard.seen());
    }
}

#[test]
fn a_gateway_behind_a_dead_wire_is_not_waited_for() {
    story(async {
        let redis = Redis::start().await;
        let here = World::beside(redis.clone(), |_| ()).await;
        let (away, link) = World::over_a_link(&redis, |_| ()).await;
        here.open("42").await;
        let _crowd = away.crowd("a", 4, "42").await;
        let mut dashboard = here.dashboard("42").await;
        dashboard.sees(viewers(4), fans(0)).await;
        link.cut();
        let _viewer = here.viewer_in("u1", "42").await;
        dashboard.sees(viewers(5), fans(0)).await;
        dashboard.sees(viewers(1), fans(0)).await;
        link.heal();
        let healed = dashboard.sees(viewers(5), fans(0)).await;
        assert!(healed.number("peak_viewers") == 5, "{}", dashboard.seen());
        dashboard.sees_quality("exact").await;
    });
}

on_redis! {
    async fn where_nothing_changes_gateways_say_nothing(world) {
        world.open("42").await;
        world.crowd_follows("u", 1).await;
        let other = world.another_gateway().await;
        let _crowd = world.crowd("u", 2, "42").await;
        let mut dashboard = other.dashboard("42").await;
        dashboard.sees(viewers(2), fans(1)).await;
        let said = async || {
            let metrics = world.backend().get("/metrics").await.text;
            let line = metrics.lines().find(|line| line.starts_with("rollcall_peer_messages_sent_total"));
            line.map(str::to_owned).expect("the metric")
        };
        until("they fall silent", PATIENCE, async || {
            let before = said().await;
            // No message may be sent during this time.
            tokio::time::sleep(world.config.lease_refresh * 3).await;
            same(said().await, before)
        })
        .await;
        dashboard.listen(world.config.lease).await;
        assert!(dashboard.log.iter().all(|c| c.json["quality"] == "exact"), "{}", dashboard.seen());
    }
}

/// A gateway whose first renewal is refused, as when the node of the leases is away, sees no peer
/// and makes no entry.
#[test]
fn a_gateway_that_gets_no_lease_is_not_ready_and_its_counts_are_partial() {
    story(async {
        let redis = Redis::start().await;
        redis.ask(&["SET", "rollcall:leases", "no hash"]).await;
        let world = World::beside(redis, |_| {}).await;
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees_quality("partial").await;
        world.readyz_becomes(503).await;
        assert_eq!(
            world.backend().get("/readyz").await.is(503).body["wrong"],
            json!(["no_lease"])
        );
        world.redis().ask(&["DEL", "rollcall:leases"]).await;
        dashboard.sees_quality("exact").await;
        world.readyz_becomes(200).await;
    });
}
