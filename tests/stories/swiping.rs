//! A viewer swipes from live to live on one socket: joining another live leaves the first, and no
//! viewer is ever in two.

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::{on_memory, on_redis};
use crate::support::wait::{PATIENCE, SLACK};

on_memory! {
    async fn joining_another_live_leaves_the_first(world) {
        world.open("42").await;
        world.open("43").await;
        world.follow(&["u1"]).await;
        let mut first = world.dashboard("42").await;
        let mut second = world.dashboard("43").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        first.sees(viewers(1), fans(1)).await;

        viewer.join("43").await;
        world.fans_become_within("42", &[], world.config.flush * 2 + SLACK).await;
        world.fans_become_within("43", &["u1"], world.config.flush * 2 + SLACK).await;
        first.sees(viewers(0), fans(0)).await;
        second.sees(viewers(1), fans(1)).await;
        assert_eq!(viewer.heartbeat_json().await["live_id"], "43");
    }
}

on_memory! {
    async fn a_refused_join_keeps_the_seat(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        viewer.is_refused(serde_json::json!({"type": "join", "live_id": "nowhere"}), "live_not_open").await;
        let seat = viewer.heartbeat_json().await["live_id"].clone();
        let there = seat == "42";
        world.fans_become("42", if there { &["u1"] } else { &[] }).await;
        assert!(there, "a join that is refused changes nothing: {seat}");
    }
}

on_memory! {
    async fn the_other_device_stays_where_it_is(world) {
        world.open("42").await;
        world.open("43").await;
        world.follow(&["u1"]).await;
        let mut phone = world.viewer_in("u1", "42").await;
        let _tablet = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        phone.join("43").await;
        world.fans_become("43", &["u1"]).await;
        world.fans_stay("42", &["u1"], world.config.flush * 4).await;
    }
}

on_memory! {
    async fn a_crowd_that_swipes_ends_in_the_lives_it_joined_last(world) {
        for live in ["1", "2", "3"] {
            world.open(live).await;
        }
        world.crowd_follows("u", 12).await;
        let mut crowd = world.crowd("u", 12, "1").await;
        for round in 0..4 {
            for (i, viewer) in crowd.iter_mut().enumerate() {
                viewer.join(["1", "2", "3"][(round + i) % 3]).await;
            }
        }
        // The last round was number 3, so viewer i is in the live at (3 + i) mod 3.
        for (at, live) in ["1", "2", "3"].into_iter().enumerate() {
            let there: Vec<String> = (0..12).filter(|i| i % 3 == at).map(|i| format!("u{i}")).collect();
            world.fans_become(live, &there.iter().map(String::as_str).collect::<Vec<_>>()).await;
        }
    }
}

on_redis! {
    async fn a_user_who_swipes_on_one_gateway_stays_on_the_other(world) {
        world.open("42").await;
        world.open("43").await;
        world.follow(&["u1"]).await;
        let other = world.another_gateway().await;
        let mut here = world.viewer_in("u1", "42").await;
        let mut there = other.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        for _ in 0..5 {
            here.join("43").await;
            here.join("42").await;
        }
        here.join("43").await;
        world.fans_become_within("43", &["u1"], PATIENCE).await;
        world.fans_stay("42", &["u1"], world.config.lease_refresh * 2).await;
        there.join("43").await;
        world.fans_become("42", &[]).await;
        world.fans_stay("43", &["u1"], world.config.flush * 4).await;
    }
}
