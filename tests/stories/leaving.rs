//! A viewer who leaves or closes the socket is gone at once. A viewer who loses the network stays
//! until `timeout`, and is gone soon after.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::{on_both_stores, on_memory};
use crate::support::wait::SLACK;
use crate::support::world::World;

/// How much earlier than `timeout` a viewer may go: the story starts its clock before the gateway
/// does.
const EARLY: Duration = Duration::from_millis(250);

async fn with_three_fans(world: &World) -> Vec<crate::support::viewer::Viewer> {
    world.open("42").await;
    world.crowd_follows("u", 3).await;
    let crowd = world.crowd("u", 3, "42").await;
    world.fans_become("42", &["u0", "u1", "u2"]).await;
    crowd
}

on_both_stores! {
    async fn leave_is_gone_at_once_and_keeps_the_socket(world) {
        let mut crowd = with_three_fans(&world).await;
        let left = crowd[0].leave().await;
        assert_eq!(left, json!({"type": "left", "live_id": "42"}));
        world.fans_become_within("42", &["u1", "u2"], world.config.flush * 2 + SLACK).await;
        crowd[0].join("42").await;
        world.fans_become("42", &["u0", "u1", "u2"]).await;
    }
}

on_memory! {
    async fn a_clean_close_is_gone_at_once(world) {
        let mut crowd = with_three_fans(&world).await;
        let mut dashboard = world.dashboard("42").await;
        crowd.remove(0).close().await;
        world.fans_become_within("42", &["u1", "u2"], world.config.flush * 2 + SLACK).await;
        dashboard.sees(viewers(2), fans(2)).await;
    }
}

on_both_stores! {
    async fn those_whose_connections_are_cut_or_reset_stay_until_the_timeout_and_no_longer(world) {
        let mut crowd = with_three_fans(&world).await;
        let mut dashboard = world.dashboard("42").await;
        for viewer in &mut crowd[..2] {
            viewer.heartbeat().await;
        }
        let last = Instant::now();
        crowd.remove(0).vanish();
        crowd.remove(0).reset().await;
        let early = (last + world.config.timeout).duration_since(Instant::now()).saturating_sub(EARLY);
        world.fans_stay("42", &["u0", "u1", "u2"], early).await;
        let late = (last + world.config.timeout + Duration::from_secs(1) + SLACK).duration_since(Instant::now());
        world.fans_become_within("42", &["u2"], late).await;
        dashboard.sees(viewers(1), fans(1)).await;
    }
}

on_memory! {
    async fn a_silent_viewer_is_closed_with_4000_and_gone(world) {
        let mut crowd = with_three_fans(&world).await;
        let mut dashboard = world.dashboard("42").await;
        crowd[0].heartbeat().await;
        let last = Instant::now();
        crowd[0].go_silent();
        let early = (last + world.config.timeout).duration_since(Instant::now()).saturating_sub(EARLY);
        world.fans_stay("42", &["u0", "u1", "u2"], early).await;
        crowd[0].expect_closed(4_000).await;
        let took = last.elapsed();
        assert!(took < world.config.timeout + Duration::from_secs(1) + SLACK, "closed only after {took:?}");
        world.fans_become_within("42", &["u1", "u2"], Duration::from_secs(1) + SLACK).await;
        dashboard.sees(viewers(2), fans(2)).await;
    }
}
