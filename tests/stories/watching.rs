//! Viewers of whom a client says that the picture plays and can be seen.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::support::datagrams::with_datagrams;
use crate::support::stores::{on_memory, on_redis};
use crate::support::viewer::Viewer;

/// Half of the time for which a client is believed.
const SOON: Duration = Duration::from_millis(800);

async fn says(viewer: &mut Viewer, watching: bool) {
    viewer
        .say(json!({"type": "heartbeat", "watching": watching}))
        .await;
    viewer.expect("heartbeat_ack").await;
}

on_memory! {
    async fn who_watches_is_counted_apart_until_the_client_says_otherwise(world) {
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let mut crowd = world.crowd("u", 3, "42").await;
        for viewer in &mut crowd {
            says(viewer, true).await;
        }
        dashboard.sees_that("all watch", |counts| counts.number("watching") == 3).await;
        let shown = world.backend().live("42").await;
        assert_eq!((&shown["viewers"], &shown["watching"]), (&json!(3), &json!(3)));
        // Plain heartbeats take nothing back.
        crowd[0].heartbeat().await;
        says(&mut crowd[1], false).await;
        crowd[2].say(json!({"type": "away"})).await;
        dashboard.sees_that("one watches", |counts| {
            (counts.number("viewers"), counts.number("watching"), counts.number("away")) == (3, 1, 1)
        })
        .await;
        // The one who watches again is back, too; who comes back without saying so is only there.
        says(&mut crowd[2], true).await;
        dashboard.sees_that("two watch", |counts| {
            (counts.number("watching"), counts.number("away")) == (2, 0)
        })
        .await;
        crowd[2].say(json!({"type": "away"})).await;
        crowd[2].say(json!({"type": "back"})).await;
        dashboard.sees_that("one watches", |counts| {
            (counts.number("watching"), counts.number("away")) == (1, 0)
        })
        .await;
        crowd.remove(0).close().await;
        dashboard.sees_that("nobody watches", |counts| {
            (counts.number("viewers"), counts.number("watching")) == (2, 0)
        })
        .await;
    }
}

on_memory! {
    async fn who_has_not_said_so_for_long_is_there_and_does_not_watch(world) {
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let (mut says_no_more, mut goes_on) = (world.viewer_in("u1", "42").await, world.viewer_in("u2", "42").await);
        says(&mut says_no_more, true).await;
        says(&mut goes_on, true).await;
        for _ in 0..4 {
            sleep(SOON).await;
            says_no_more.ping().await;
            says(&mut goes_on, true).await;
        }
        let counts = dashboard.sees_that("one watches", |counts| counts.number("watching") == 1).await;
        assert_eq!(counts.number("viewers"), 2);
    }
}

on_memory! {
    async fn one_screen_of_a_user_is_enough_and_the_next_live_begins_anew(world) {
        world.open("42").await;
        world.open("43").await;
        let (mut dashboard, mut other) = (world.dashboard("42").await, world.dashboard("43").await);
        let (mut one, mut two) = (world.viewer_in("u1", "42").await, world.viewer_in("u1", "42").await);
        says(&mut one, true).await;
        says(&mut two, false).await;
        dashboard.sees_that("the user watches", |counts| counts.number("watching") == 1).await;
        one.join("43").await;
        dashboard.sees_that("the other screen is left", |counts| {
            (counts.number("viewers"), counts.number("watching")) == (1, 0)
        })
        .await;
        let counts = other.sees_that("a viewer", |counts| counts.number("viewers") == 1).await;
        assert_eq!(counts.number("watching"), 0);
        // A second join of the same live changes nothing.
        says(&mut one, true).await;
        one.join("43").await;
        let counts = other.sees_that("who watches", |counts| counts.number("watching") == 1).await;
        assert_eq!(counts.number("viewers"), 1);
    }
}

on_memory! {
    async fn a_heartbeat_that_says_it_wrongly_is_refused_and_names_the_field(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        viewer.say(json!({"type": "heartbeat", "watching": "yes"})).await;
        let refused = viewer.expect("error").await;
        assert_eq!(refused["code"], "bad_message");
        assert_eq!(refused["message"], "watching must be true or false");
        viewer.heartbeat().await;
    }
}

on_redis! {
    async fn those_who_watch_are_known_on_every_gateway_whichever_way_they_come(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut here = world.viewer_in("u1", "42").await;
        says(&mut here, true).await;
        let caller = other.caller("u2", "42").await;
        let path = format!("/v1/presence/{}", caller.session);
        other.backend().post(&path, json!({"watching": true})).await.is(200);
        for gateway in [&world, &other] {
            let mut dashboard = gateway.dashboard("42").await;
            dashboard.sees_that("both watch", |counts| {
                (counts.number("viewers"), counts.number("watching")) == (2, 2)
            })
            .await;
        }
        other.backend().post(&path, json!({"watching": false})).await.is(200);
        let third = world.another_gateway().await;
        let mut late = third.dashboard("42").await;
        late.sees_that("one watches", |counts| {
            (counts.number("viewers"), counts.number("watching")) == (2, 1)
        })
        .await;
    }
}

on_memory! {
    tuned(with_datagrams)
    async fn a_datagram_says_that_the_user_watches_and_silence_about_it_ends_that(world) {
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let mut app = world.app_in("u1", "42").await;
        app.beats_watching().await;
        dashboard.sees_that("the user watches", |counts| counts.number("watching") == 1).await;
        app.keeps_beating(3 * SOON).await;
        let counts = dashboard.sees_that("the user is there", |counts| counts.number("watching") == 0).await;
        assert_eq!(counts.number("viewers"), 1);
    }
}
