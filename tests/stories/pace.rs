//! How often a dashboard is told. The first change, and any change to or from zero, goes out at
//! once; later changes at most once per 500 ms and live. The latest counts always arrive: updates
//! are throttled, never debounced.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::on_memory;
use crate::support::wait::SLACK;

/// The shortest time between two updates that the contract allows.
const PER: Duration = Duration::from_millis(500);

on_memory! {
    async fn changes_to_and_from_zero_go_out_at_once(world) {
        const FLIPS: u32 = 8;
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let mut viewer = world.viewer("u1").await;
        let start = Instant::now();
        for _ in 0..FLIPS {
            viewer.join("42").await;
            dashboard.sees(viewers(1), fans(0)).await;
            viewer.leave().await;
            dashboard.sees(viewers(0), fans(0)).await;
        }
        let each = start.elapsed() / (FLIPS * 2);
        assert!(each < PER * 7 / 10, "each change took {each:?}, as if it had waited for its turn");
    }
}

on_memory! {
    async fn the_first_change_goes_out_at_once(world) {
        let mut took = Vec::new();
        for live in ["1", "2", "3", "4", "5"] {
            world.open(live).await;
            let _first = world.viewer_in("u1", live).await;
            let mut dashboard = world.dashboard(live).await;
            dashboard.sees(viewers(1), fans(0)).await;
            // It was quiet for longer than the throttle, so the next change is a first one again.
            dashboard.listen(PER * 2).await;
            let mut second = world.viewer("u2").await;
            let start = Instant::now();
            second.join(live).await;
            dashboard.sees(viewers(2), fans(0)).await;
            took.push(start.elapsed());
        }
        took.sort();
        let bound = world.config.flush + Duration::from_millis(100) + Duration::from_millis(150);
        assert!(took[0] < bound, "none of the first changes was shown at once: {took:?}");
        assert!(took[2] < PER, "the first changes wait for their turn: {took:?}");
    }
}

on_memory! {
    async fn a_stream_of_changes_is_throttled_but_never_starved(world) {
        world.open("42").await;
        world.crowd_follows("u", 60).await;
        let mut dashboard = world.dashboard("42").await;
        let start = Instant::now();
        let mut crowd = Vec::new();
        // Viewers join without a pause, for several times as long as the throttle.
        for i in 0..60 {
            let mut viewer = world.viewer(&format!("u{i}")).await;
            viewer.join("42").await;
            crowd.push(viewer);
            dashboard.listen(Duration::from_millis(40)).await;
        }
        let during = start.elapsed();
        let heard = dashboard.log.iter().filter(|c| c.at >= start).count() as u32;
        let turns = (during.as_millis() / PER.as_millis()) as u32;
        // Both figures leave zero at once; after that there is one message per 500 ms.
        assert!(heard <= turns + 4, "{heard} messages in {during:?}: {}", dashboard.seen());
        assert!(heard >= turns / 2, "only {heard} messages in {during:?}: {}", dashboard.seen());

        let last = Instant::now();
        dashboard.sees(viewers(60), fans(60)).await;
        let took = last.elapsed();
        assert!(took < PER + world.config.flush * 2 + SLACK, "the latest came only after {took:?}");
    }
}

on_memory! {
    async fn nothing_is_said_where_nothing_changes(world) {
        world.open("42").await;
        let _crowd = world.crowd("u", 3, "42").await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees(viewers(3), fans(0)).await;
        dashboard.listen(PER).await;
        let before = dashboard.log.len();
        dashboard.listen(PER * 4).await;
        assert!(dashboard.log.len() <= before + 1, "{}", dashboard.seen());
    }
}

on_memory! {
    async fn a_dashboard_that_does_not_read_gets_the_latest_and_no_backlog(world) {
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let start = Instant::now();
        dashboard.read(false).await;
        let _viewer = world.viewer_in("u0", "42").await;
        let mut last = Vec::new();
        while start.elapsed() < world.config.timeout / 2 {
            let mut another = world.viewer(&format!("u{}", last.len() + 1)).await;
            another.say(json!({"type": "join", "live_id": "42"})).await;
            last.push(another);
        }
        dashboard.read(true).await;
        let total = last.len() as u64 + 1;
        dashboard.sees(viewers(total), fans(0)).await;
        let turns = (start.elapsed().as_millis() / PER.as_millis()) as usize;
        assert!(dashboard.log.len() <= turns + 4, "{} messages: {}", dashboard.log.len(), dashboard.seen());
    }
}
