//! The end of a live: each viewer is told once, the summary is right, and calls that arrive late
//! bring nothing back.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::{on_both_stores, on_memory, on_redis};
use crate::support::wait::{PATIENCE, becomes, same};

on_both_stores! {
    async fn everybody_in_the_live_is_told_once_with_the_summary(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        world.crowd_follows("u", 2).await;
        let mut dashboard = world.dashboard("42").await;
        let mut crowd = world.crowd("u", 3, "42").await;
        dashboard.sees(viewers(3), fans(2)).await;
        crowd.remove(0).close().await;
        dashboard.sees(viewers(2), fans(1)).await;
        let mut tab = world.viewer_in("u1", "42").await;
        let mut elsewhere = world.viewer("u9").await;

        let closed = streamer.close_live("42").await;
        assert_eq!(closed["live_id"], "42");
        assert_eq!(closed["reason"], "requested");
        assert_eq!(closed["peak_viewers"], 3);
        assert_eq!(closed["peak_fans"], 2);
        let lasted = closed["duration_ms"].as_u64().unwrap();
        assert!(lasted < 60_000, "{closed}");
        for told in crowd.iter_mut().chain([&mut tab, &mut *dashboard]) {
            assert_eq!(told.expect("closed").await, closed, "{} is told the same", told.user);
        }
        for told in crowd.iter_mut().chain([&mut tab, &mut *dashboard, &mut streamer, &mut elsewhere]) {
            told.hears_no("closed", Duration::from_millis(200)).await;
        }
    }
}

on_memory! {
    async fn a_service_closes_over_its_socket(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let mut service = world.service().await;
        assert_eq!(service.close_live("42").await["live_id"], "42");
        viewer.expect("closed").await;
    }
}

on_memory! {
    async fn a_live_that_was_never_open_cannot_be_closed(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.is_refused(json!({"type": "close", "live_id": "42"}), "live_not_open").await;
    }
}

on_memory! {
    async fn after_the_close_the_socket_sits_nowhere(world) {
        world.open("42").await;
        world.open("43").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.backend().close("42").await;
        viewer.expect("closed").await;
        viewer.is_refused(json!({"type": "leave"}), "not_joined").await;
        viewer.is_refused(json!({"type": "join", "live_id": "42"}), "live_not_open").await;
        viewer.join("43").await;
    }
}

on_memory! {
    async fn late_heartbeats_bring_nothing_back(world) {
        world.open("42").await;
        world.crowd_follows("u", 5).await;
        let mut crowd = world.crowd("u", 5, "42").await;
        world.fans_become("42", &["u0", "u1", "u2", "u3", "u4"]).await;
        world.backend().close("42").await;
        assert_eq!(world.card("42").await, 0, "the close has answered, so the set is gone");
        let end = Instant::now() + world.config.lease_refresh * 3;
        while Instant::now() < end {
            for viewer in &mut crowd {
                viewer.say(json!({"type": "heartbeat"})).await;
                viewer.say(json!({"type": "join", "live_id": "42"})).await;
            }
            world.fans_stay("42", &[], Duration::from_millis(400)).await;
        }
    }
}

on_redis! {
    async fn only_the_record_and_the_fences_remain(world) {
        world.backend().open_sliced("42", "s1", 4).await;
        world.crowd_follows("u", 20).await;
        let other = world.another_gateway().await;
        let mut crowd = world.crowd("u", 10, "42").await;
        crowd.extend(other.crowd("u", 20, "42").await);
        world.card_becomes("42", 20, PATIENCE).await;
        other.backend().close("42").await;
        let mut remain = BTreeSet::from(["live:42".to_owned()]);
        remain.extend((1..=4).map(|k| format!("{{online-fans:42_slice{k}}}:fence")));
        let mut sets: BTreeSet<_> = world.redis().keys("*online-*:42*").await;
        sets.retain(|key| !key.ends_with(":fence"));
        assert_eq!(sets, BTreeSet::new(), "the close has answered, so the sets are gone");
        becomes("what remains of the live", remain.clone(), async || world.keys_of("42").await).await;
        // It stays like this for several lease refreshes, whatever the sockets still send.
        for _ in 0..4 {
            for viewer in &mut crowd {
                viewer.say(json!({"type": "heartbeat"})).await;
            }
            crate::support::wait::throughout("what remains", world.config.lease_refresh, || async {
                same(world.keys_of("42").await, remain.clone())
            })
            .await;
        }
    }
}

on_redis! {
    async fn a_close_by_a_gateway_without_the_live_has_the_peaks(world) {
        world.open("42").await;
        world.crowd_follows("u", 2).await;
        let other = world.another_gateway().await;
        let in_record = async |viewers: u64| {
            becomes("the record has the viewers", json!(viewers.to_string()), async || {
                world.redis().ask(&["HGET", "live:42", "viewers"]).await
            })
            .await;
        };
        let _early = world.crowd("a", 2, "42").await;
        in_record(2).await;
        let late = world.crowd("u", 3, "42").await;
        in_record(5).await;
        for viewer in late {
            viewer.close().await;
        }
        in_record(2).await;
        let closed = other.backend().close("42").await;
        assert_eq!((&closed["peak_viewers"], &closed["peak_fans"]), (&json!(5), &json!(2)));
    }
}

on_both_stores! {
    async fn joins_that_race_with_the_close_leave_nothing_behind(world) {
        world.crowd_follows("u", 10).await;
        let mut crowd = Vec::new();
        for i in 0..10 {
            crowd.push(world.viewer(&format!("u{i}")).await);
        }
        for _ in 0..5 {
            world.open("42").await;
            let backend = world.backend().clone();
            let close = tokio::spawn(async move { backend.close("42").await });
            for viewer in &mut crowd {
                viewer.say(json!({"type": "join", "live_id": "42"})).await;
            }
            close.await.unwrap();
            assert_eq!(world.card("42").await, 0);
            world.fans_stay("42", &[], world.config.flush * 3).await;
        }
    }
}
