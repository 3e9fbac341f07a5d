//! A gateway loses its connection to Redis while its peer keeps its own. The fans of the lost
//! gateway are swept after the lease and come back with the connection; what the peer decided
//! meanwhile stands.

use std::time::Duration;

use serde_json::json;

use crate::support::link::Link;
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, SLACK, same, throughout, until};
use crate::support::world::World;

/// A gateway behind a link that the story controls, and its peer.
async fn two_gateways() -> (World, Link, World) {
    let redis = Redis::start().await;
    let (far, link) = World::over_a_link(&redis, |_| ()).await;
    let near = World::beside(redis, |_| ()).await;
    (far, link, near)
}

/// The same, with the fans `u0` to `u2` of live 42 behind the link; `u3` follows the streamer too.
async fn three_fans_behind_a_link() -> (World, Link, World, Vec<Viewer>) {
    let (far, link, near) = two_gateways().await;
    near.open("42").await;
    near.crowd_follows("u", 4).await;
    let behind = far.crowd("u", 3, "42").await;
    near.fans_become("42", &["u0", "u1", "u2"]).await;
    (far, link, near, behind)
}

#[test]
fn the_fans_of_a_cut_off_gateway_are_swept_and_come_back() {
    story(async {
        let (far, link, near, mut behind) = three_fans_behind_a_link().await;
        let _on_both = near.viewer_in("u0", "42").await;
        let _here = near.viewer_in("u3", "42").await;
        near.fans_become("42", &["u0", "u1", "u2", "u3"]).await;

        link.cut();
        near.fans_become_within("42", &["u0", "u3"], near.sweep_bound())
            .await;
        behind.remove(2).close().await;
        for viewer in &mut behind {
            viewer.heartbeat_json().await;
        }
        link.heal();
        far.readyz_becomes(200).await;
        near.fans_become_within(
            "42",
            &["u0", "u1", "u3"],
            far.config.lease_refresh + Duration::from_secs(1) + SLACK,
        )
        .await;
        near.fans_stay("42", &["u0", "u1", "u3"], near.config.lease_refresh * 2)
            .await;
    });
}

#[test]
fn a_close_while_the_gateway_is_cut_off_stands() {
    story(async {
        let (_far, link, near, mut behind) = three_fans_behind_a_link().await;
        link.stall();
        near.backend().close("42").await;
        // The far gateway has not heard of the close yet, so it sends joins and leaves of the old
        // epoch late.
        behind[0].leave().await;
        behind[0].join("42").await;
        link.heal();
        for viewer in &mut behind {
            assert_eq!(viewer.expect("closed").await["reason"], "requested");
        }
        near.fans_stay("42", &[], near.config.lease + near.config.lease_refresh)
            .await;
        assert!(near.redis().keys("online-fans:42*").await.is_empty());
        behind[0]
            .is_refused(json!({"type": "join", "live_id": "42"}), "live_not_open")
            .await;
    });
}

#[test]
fn a_new_epoch_inherits_nothing_from_a_gateway_that_was_cut_off() {
    story(async {
        let (_far, link, near, mut behind) = three_fans_behind_a_link().await;
        link.stall();
        near.backend().close("42").await;
        near.open("42").await;
        let _here = near.viewer_in("u3", "42").await;
        near.fans_become("42", &["u3"]).await;
        behind[1].leave().await;
        behind[1].join("42").await;
        link.heal();
        for viewer in &mut behind {
            viewer.expect("closed").await;
        }
        near.fans_stay("42", &["u3"], near.config.lease_refresh * 2)
            .await;
        behind[1].join("42").await;
        near.fans_become_within("42", &["u1", "u3"], PATIENCE).await;
        near.fans_stay("42", &["u1", "u3"], near.config.lease_refresh * 2)
            .await;
    });
}

#[test]
fn first_joins_that_arrive_after_the_close_bring_nothing_back() {
    story(async {
        const LIVES: u64 = 40;
        let (far, link, near) = two_gateways().await;
        near.crowd_follows("u", LIVES as usize).await;
        let lives: Vec<String> = (0..LIVES).map(|i| format!("live-{i}")).collect();
        let mut viewers = Vec::new();
        for (i, live) in lives.iter().enumerate() {
            near.open(live).await;
            viewers.push(far.viewer(&format!("u{i}")).await);
        }
        // The far gateway reads the record, asks about the fan and registers, each in a slow round
        // trip. The closes fall before, between and after these.
        link.slow(Duration::from_millis(150));
        for (viewer, live) in viewers.iter_mut().zip(&lives) {
            viewer.say(json!({"type": "join", "live_id": live})).await;
        }
        for live in &lives {
            tokio::time::sleep(Duration::from_millis(30)).await;
            near.backend().close(live).await;
        }
        link.heal();
        for viewer in &mut viewers {
            assert!(viewer.is_connected().await);
        }
        // The answers to these show that everything under way when the link healed has arrived.
        for live in &lives {
            until("the live is closed", PATIENCE, || async {
                same(
                    far.backend().live(live).await["state"].as_str(),
                    Some("closed"),
                )
                .map(drop)
            })
            .await;
        }
        throughout(
            "nothing but records and fences",
            near.config.lease + near.config.lease_refresh * 2,
            || async {
                let keys = near.redis().keys("*online-fans:*").await;
                let back: Vec<_> = keys
                    .into_iter()
                    .filter(|key| !key.ends_with(":fence"))
                    .collect();
                same(back, Vec::new())
            },
        )
        .await;
    });
}

#[test]
fn an_abandoned_call_that_arrives_after_its_retry_does_nothing() {
    story(async {
        let (_far, link, near, mut behind) = three_fans_behind_a_link().await;
        // The link holds the leave back on a connection that the gateway gives up. The retry goes
        // over a new one.
        link.stall_old();
        behind[0].leave().await;
        near.fans_become("42", &["u1", "u2"]).await;
        behind[0].join("42").await;
        near.fans_become("42", &["u0", "u1", "u2"]).await;
        link.heal();
        near.fans_stay("42", &["u0", "u1", "u2"], near.config.lease_refresh * 4)
            .await;
    });
}
