//! Redis is away, slow, or has lost everything: no socket is closed, no viewer is refused without
//! need, and the gateway recovers by itself once Redis is back.

use std::time::Duration;

use rollcall::store::REBUILD;
use serde_json::json;
use tokio::time::Instant;

use crate::support::dashboard::{Counts, fans, viewers};
use crate::support::redis_view::Redis;
use crate::support::stores::{on_redis, story};
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, SLACK};
use crate::support::world::World;

/// The gateway still answers a heartbeat on every socket.
async fn all_answer(crowd: &mut [Viewer]) {
    for viewer in crowd.iter_mut() {
        viewer.heartbeat_json().await;
    }
}

on_redis! {
    async fn after_flushall_the_set_is_whole_within_a_lease_refresh(world) {
        const CROWD: usize = 200;
        world.backend().open_sliced("42", "s1", 2).await;
        let epoch = world.epoch("42").await.to_string();
        world.crowd_follows("u", CROWD).await;
        let mut crowd = world.crowd("u", CROWD, "42").await;
        world.card_becomes("42", CROWD as u64, PATIENCE).await;
        world.redis().ask(&["FLUSHALL"]).await;
        let lost = Instant::now();
        let within = world.config.lease_refresh + Duration::from_secs(1) + SLACK;
        world.card_becomes("42", CROWD as u64, within).await;
        let took = lost.elapsed();
        assert!(took < within + Duration::from_millis(200), "whole again only after {took:?}");
        assert_eq!(world.redis().slices("42").await.len(), 2, "the record is back too, as it was");
        assert_eq!(world.redis().live_field("42", "epoch").await.as_deref(), Some(&*epoch));
        all_answer(&mut crowd).await;
        // The follow graph is lost as well, so the gateway keeps its answers for `fan_ttl`. The
        // live can be closed.
        let closed = world.backend().close("42").await;
        assert_eq!(closed["state"], "closed", "{closed}");
        world.card_becomes("42", 0, PATIENCE).await;
    }
}

on_redis! {
    async fn a_crash_of_redis_loses_no_socket_and_heals_by_itself(world) {
        world.open("42").await;
        world.crowd_follows("u", 20).await;
        let mut crowd = world.crowd("u", 20, "42").await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees(viewers(20), fans(20)).await;

        world.redis().kill().await;
        world.readyz_becomes(503).await;
        let stale = dashboard.sees_quality("stale").await;
        assert!(stale.are(viewers(20), fans(20)), "the last known figures: {}", stale.json);
        assert_eq!(world.backend().live("42").await["quality"], "stale");
        assert_eq!(world.backend().get("/healthz").await.status, 200, "the process itself runs");
        let away = Instant::now();
        while away.elapsed() < world.config.timeout * 2 {
            all_answer(&mut crowd).await;
            tokio::time::sleep(world.config.heartbeat).await;
        }
        for counts in &dashboard.log {
            assert!(counts.number("viewers") <= 20 && counts.number("fans") <= 20, "{}", counts.json);
        }

        world.redis().restart_empty().await;
        let back = Instant::now();
        world.card_becomes("42", 20, world.config.lease_refresh + Duration::from_secs(2) + SLACK).await;
        world.readyz_becomes(200).await;
        let exact = |c: &Counts| c.json["quality"] == "exact" && c.are(viewers(20), fans(20));
        dashboard.sees_that("exact figures", exact).await;
        let took = back.elapsed();
        assert!(took < REBUILD + PATIENCE, "all is well only after {took:?}");
        all_answer(&mut crowd).await;
    }
}

on_redis! {
    async fn a_viewer_who_joins_during_the_outage_is_there_after_it(world) {
        world.open("42").await;
        world.crowd_follows("u", 4).await;
        let mut crowd = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u0", "u1"]).await;
        world.redis().kill().await;
        world.readyz_becomes(503).await;
        // The gateway knows that this live is open, so it need not turn anybody away.
        for user in ["u2", "u3"] {
            let viewer = world.viewer_in(user, "42").await;
            crowd.push(viewer);
        }
        let gone = crowd.remove(0);
        gone.close().await;
        let mut unsure = world.viewer("u9").await;
        unsure.is_refused(json!({"type": "join", "live_id": "elsewhere"}), "store_unavailable").await;

        world.redis().restart_empty().await;
        world.readyz_becomes(200).await;
        // The follow graph is lost too; the platform writes it again.
        world.follow(&["u1", "u2", "u3"]).await;
        world.fans_become("42", &["u1", "u2", "u3"]).await;
        world.fans_stay("42", &["u1", "u2", "u3"], world.config.lease_refresh * 2).await;
        unsure.is_refused(json!({"type": "join", "live_id": "elsewhere"}), "live_not_open").await;
        all_answer(&mut crowd).await;
    }
}

on_redis! {
    async fn a_redis_that_hangs_is_noticed_and_forgiven(world) {
        world.open("42").await;
        world.crowd_follows("u", 10).await;
        let mut crowd = world.crowd("u", 10, "42").await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees(viewers(10), fans(10)).await;
        world.redis().freeze().await;
        dashboard.sees_quality("stale").await;
        let away = Instant::now();
        while away.elapsed() < world.config.timeout * 2 {
            all_answer(&mut crowd).await;
            tokio::time::sleep(world.config.heartbeat).await;
        }
        crowd.pop().unwrap().close().await;
        world.redis().thaw().await;
        world.card_becomes("42", 9, PATIENCE).await;
        dashboard.sees_that("exact figures", |c| c.json["quality"] == "exact" && c.are(viewers(9), fans(9))).await;
        all_answer(&mut crowd).await;
    }
}

#[test]
fn a_link_that_is_cut_again_and_again_leaves_the_truth() {
    story(async {
        let (world, link) = World::over_a_link(&Redis::start().await, |_| ()).await;
        let mut crowd = world.live_with_fans(12).await;
        for round in 0..4 {
            link.cut();
            for viewer in crowd.drain(..2) {
                viewer.close().await;
            }
            let mut back = world.viewer(&format!("u{round}")).await;
            back.join("42").await;
            crowd.push(back);
            tokio::time::sleep(Duration::from_millis(120)).await;
            link.heal();
            world.readyz_becomes(200).await;
        }
        let here: std::collections::BTreeSet<_> =
            crowd.iter().map(|viewer| viewer.user.clone()).collect();
        let here: Vec<_> = here.iter().map(String::as_str).collect();
        world.fans_become("42", &here).await;
        world
            .fans_stay("42", &here, world.config.lease_refresh * 2)
            .await;
        all_answer(&mut crowd).await;
    });
}

#[test]
fn calls_that_arrive_after_a_stall_do_no_harm() {
    story(async {
        let (world, link) = World::over_a_link(&Redis::start().await, |_| ()).await;
        let mut crowd = world.live_with_fans(10).await;
        let mut dashboard = world.dashboard("42").await;
        for _ in 0..2 {
            // The link holds back what was sent to Redis. The gateway gives it up, and it still
            // arrives later.
            link.stall();
            let mut leaver = crowd.pop().unwrap();
            leaver.leave().await;
            dashboard.sees_quality("stale").await;
            leaver.join("42").await;
            leaver.leave().await;
            all_answer(&mut crowd).await;
            link.heal();
            let left = crowd.len() as u64;
            world.card_becomes("42", left, PATIENCE).await;
            dashboard
                .sees_that("exact figures", |c| {
                    c.json["quality"] == "exact" && c.number("fans") == left
                })
                .await;
        }
        let here: Vec<_> = crowd.iter().map(|viewer| viewer.user.as_str()).collect();
        world
            .fans_stay("42", &here, world.config.lease_refresh * 2)
            .await;
    });
}

#[test]
fn answers_that_are_lost_do_no_harm() {
    story(async {
        let (world, link) = World::over_a_link(&Redis::start().await, |_| ()).await;
        world.open("42").await;
        world.crowd_follows("u", 6).await;
        let mut crowd = world.crowd("u", 3, "42").await;
        world.card_becomes("42", 3, PATIENCE).await;
        link.mute();
        crowd.extend(world.crowd("x", 1, "42").await);
        for user in ["u3", "u4", "u5"] {
            let viewer = world.viewer_in(user, "42").await;
            crowd.push(viewer);
        }
        crowd.remove(0).close().await;
        world.readyz_becomes(503).await;
        link.heal();
        world
            .fans_become("42", &["u1", "u2", "u3", "u4", "u5"])
            .await;
        world
            .fans_stay(
                "42",
                &["u1", "u2", "u3", "u4", "u5"],
                world.config.lease_refresh * 2,
            )
            .await;
        all_answer(&mut crowd).await;
    });
}
