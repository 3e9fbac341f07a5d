//! A thousand viewers: 300 follow the streamer; 100 of these leave and 100 lose their network. The
//! figures follow.

use std::time::Duration;

use tokio::time::Instant;

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::on_redis;
use crate::support::viewer::Viewer;
use crate::support::wait::SLACK;
use crate::support::world::World;

const CROWD: usize = 1_000;
const FANS: usize = 300;
const DOORS: usize = 8;

/// Viewers `u0` to `u999`, in this order. Several of them join at a time.
async fn crowd(world: &World) -> Vec<Viewer> {
    let door = |first: usize| async move {
        let mut here = Vec::new();
        for i in (first..CROWD).step_by(DOORS) {
            let mut viewer = world.viewer(&format!("u{i}")).await;
            viewer.join("42").await;
            here.push((i, viewer));
        }
        here
    };
    let mut all: Vec<_> = futures_util::future::join_all((0..DOORS).map(door))
        .await
        .into_iter()
        .flatten()
        .collect();
    all.sort_by_key(|(i, _)| *i);
    all.into_iter().map(|(_, viewer)| viewer).collect()
}

on_redis! {
    // A thousand clients of a debug build on a busy machine need this long to answer their Pings.
    tuned(|config| {
        config.heartbeat = Duration::from_secs(1);
        config.timeout = Duration::from_secs(4);
    })
    async fn a_thousand_come_and_go(world) {
        world.backend().open_sliced("42", "s1", 4).await;
        world.crowd_follows("u", FANS).await;
        let mut dashboard = world.dashboard("42").await;

        let mut everybody = crowd(&world).await;
        let last_join = Instant::now();
        world.card_becomes("42", FANS as u64, Duration::from_secs(1) + SLACK).await;
        let shown = dashboard.sees(viewers(CROWD as u64), fans(FANS as u64)).await;
        assert!(shown.at - last_join < Duration::from_secs(2) + SLACK, "shown after {:?}", shown.at - last_join);

        let leavers: Vec<Viewer> = everybody.drain(..100).collect();
        for mut viewer in leavers {
            viewer.leave().await;
        }
        world.card_becomes("42", 200, Duration::from_millis(500) + SLACK).await;
        dashboard.sees(viewers(900), fans(200)).await;

        let cut: Vec<Viewer> = everybody.drain(..100).collect();
        let before = Instant::now();
        for viewer in cut {
            viewer.vanish();
        }
        // The gateway last heard each of them at most one heartbeat ago.
        let early = world.config.timeout - world.config.heartbeat - Duration::from_millis(500);
        let bound = world.config.timeout + Duration::from_secs(1) + SLACK;
        crate::support::wait::throughout("200 fans", early.saturating_sub(before.elapsed()), || async {
            crate::support::wait::same(world.card("42").await, 200)
        })
        .await;
        world.card_becomes("42", 100, bound.saturating_sub(before.elapsed())).await;
        let seen = dashboard.sees(viewers(800), fans(100)).await;
        assert_eq!((seen.number("peak_viewers"), seen.number("peak_fans")), (CROWD as u64, FANS as u64));
        let max = dashboard.log.iter().map(|c| c.number("viewers")).max();
        assert_eq!(max, Some(CROWD as u64), "never more than there were: {}", dashboard.seen());

        let closed = world.backend().close("42").await;
        assert_eq!(closed["state"], "closed", "{closed}");
        assert_eq!(world.card("42").await, 0);
        for viewer in everybody.iter_mut().step_by(50) {
            viewer.expect("closed").await;
        }
    }
}
