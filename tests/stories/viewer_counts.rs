//! Counts are pushed to viewers who ask for them: the first at once, then at most one per two
//! seconds and live, and the last value always.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::dashboard::{Dashboard, fans, viewers};
use crate::support::stores::{on_memory, on_redis};
use crate::support::viewer::Viewer;
use crate::support::world::World;

/// The least time between two counts of a live.
const EVERY: Duration = Duration::from_secs(2);

/// What a busy machine may take off it between two readings.
const JITTER: Duration = Duration::from_millis(400);

/// A viewer who joins a live and wants its counts; the first are there, and those which the store
/// confirms.
async fn watching(mut viewer: Viewer, live: &str) -> Dashboard {
    viewer
        .say(json!({"type": "join", "live_id": live, "counts": true}))
        .await;
    viewer.expect("joined").await;
    let mut watching = Dashboard::at(viewer);
    watching.sees_quality("exact").await;
    watching
}

async fn watching_viewer(world: &World, user: &str, live: &str) -> Dashboard {
    watching(world.viewer(user).await, live).await
}

/// No two of these, those for the newcomer aside, came sooner than allowed.
fn are_paced(dashboard: &Dashboard) {
    let own = dashboard
        .log
        .iter()
        .position(|counts| counts.json["quality"] == "exact");
    for pair in dashboard.log[own.unwrap() + 1..].windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(
            gap + JITTER >= EVERY,
            "{gap:?} between two counts; {}",
            dashboard.seen()
        );
    }
}

on_memory! {
    async fn a_viewer_gets_counts_at_once_then_at_most_one_per_two_seconds_and_the_last_always(world) {
        world.open("42").await;
        world.follow(&["u0"]).await;
        let mut watcher = watching_viewer(&world, "w", "42").await;
        let start = Instant::now();
        let mut crowd = Vec::new();
        for n in 0.. {
            if start.elapsed() > EVERY * 3 {
                break;
            }
            crowd.push(world.viewer_in(&format!("u{n}"), "42").await);
            watcher.listen(Duration::from_millis(100)).await;
        }
        let all = crowd.len() as u64 + 1;
        watcher.sees(viewers(all), fans(1)).await;
        assert!((2..=6).contains(&watcher.log.len()), "{}", watcher.seen());
        are_paced(&watcher);
        drop(crowd.split_off(1));
        watcher.sees(viewers(2), fans(1)).await;
        watcher.listen(EVERY * 2).await;
        are_paced(&watcher);
        let last = watcher.log.last().unwrap();
        assert!(last.are(viewers(2), fans(1)) && last.number("peak_viewers") == all, "{}", watcher.seen());
    }
}

on_memory! {
    async fn all_viewers_of_a_live_get_the_same_counts(world) {
        world.open("42").await;
        let mut watchers = Vec::new();
        for n in 0..5 {
            watchers.push(watching_viewer(&world, &format!("w{n}"), "42").await);
        }
        let mut seen = Vec::new();
        for watcher in &mut watchers {
            seen.push(watcher.sees(viewers(5), fans(0)).await.json);
        }
        // The last one saw all five at once, in counts of its own.
        assert!(seen[..4].iter().all(|counts| *counts == seen[0]), "{seen:?}");
    }
}

on_memory! {
    async fn counts_end_with_the_leaving_and_with_a_join_that_does_not_ask_for_them(world) {
        for live in ["a", "b"] {
            world.open(live).await;
        }
        let mut watcher = watching_viewer(&world, "w", "a").await;
        let _one = world.viewer_in("u1", "a").await;
        watcher.sees(viewers(2), fans(0)).await;
        // The same live, without: the seat stays.
        watcher.join("a").await;
        let two = world.viewer_in("u2", "a").await;
        watcher.hears_no("counts", EVERY + JITTER).await;
        watcher.say(json!({"type": "join", "live_id": "a", "counts": true})).await;
        assert!(watcher.next().await.are(viewers(3), fans(0)), "{}", watcher.seen());
        // Another live, with.
        watcher.say(json!({"type": "join", "live_id": "b", "counts": true})).await;
        assert_eq!(watcher.next().await.json["live_id"], "b");
        two.close().await;
        let _three = world.viewer_in("u3", "b").await;
        let seen = watcher.sees(viewers(2), fans(0)).await;
        assert_eq!(seen.json["live_id"], "b");
        watcher.leave().await;
        let _four = world.viewer_in("u4", "b").await;
        watcher.hears_no("counts", EVERY + JITTER).await;
    }
}

on_memory! {
    async fn counts_bring_information_that_the_viewer_does_not_have(world) {
        world.open("42").await;
        let mut watcher = watching_viewer(&world, "w", "42").await;
        let mut other = watching_viewer(&world, "other", "42").await;
        watcher.sees(viewers(2), fans(0)).await;
        let version = world.backend().tell("42", json!({"n": 1})).await;
        // This one has it from a heartbeat, so its counts come without.
        assert_eq!(other.heartbeat_json().await["info_version"], version);
        let seen = watcher.sees_that("the information", |counts| counts.json["info_version"] == version).await;
        assert_eq!(seen.json["info"], json!({"n": 1}));
        assert!(watcher.heartbeat_json().await.get("info_version").is_none(), "once");
        let seq = seen.number("seq");
        let seen = other.sees_that("the same frame", |counts| counts.number("seq") >= seq).await;
        assert!(seen.json.get("info_version").is_none(), "{}", other.seen());
    }
}

on_memory! {
    /// Its own counts and those that viewers share have one order.
    async fn a_service_that_joins_and_watches_sees_the_numbers_grow(world) {
        world.open("42").await;
        let mut both = watching(world.service().await, "42").await;
        let mut crowd = Vec::new();
        for n in 0..3 {
            // The dashboard's verbs hold that the numbers grow.
            both.watch("42").await;
            crowd.push(world.viewer_in(&format!("u{n}"), "42").await);
            both.sees_that("them all", |counts| counts.number("viewers") == n + 2).await;
            both.say(json!({"type": "unwatch", "live_id": "42"})).await;
            both.expect("unwatched").await;
        }
        both.listen(EVERY + JITTER).await;
    }
}

on_redis! {
    async fn viewers_see_those_of_other_gateways_and_the_end(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut watcher = watching_viewer(&world, "w", "42").await;
        world.live_is_heard_by("42", 1).await;
        let elsewhere = other.crowd("u", 3, "42").await;
        watcher.sees(viewers(4), fans(0)).await;
        for viewer in elsewhere {
            viewer.close().await;
        }
        watcher.sees(viewers(1), fans(0)).await;
        other.backend().close("42").await;
        assert_eq!(watcher.expect("closed").await["reason"], "requested");
        assert!(watcher.is_connected().await);
    }
}
