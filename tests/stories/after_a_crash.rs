//! Gateways that die, freeze or are asked to stop. No ghost outlives the lease, no viewer who sent
//! heartbeats is disconnected, and a gateway that stops in order leaves no fan behind.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::support::dashboard::{fans, viewers};
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::wait::{PATIENCE, same, until};
use crate::support::world::World;

#[test]
fn the_fans_of_a_killed_gateway_are_gone_after_its_lease() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let _crowd = doomed.live_with_fans(50).await;
        doomed.process().kill();
        let killed = Instant::now();

        let other = World::beside(redis, |_| ()).await;
        let _alive = other.viewer_in("u7", "42").await;
        let bound = other.sweep_bound();
        other
            .fans_become_within("42", &["u7"], bound.saturating_sub(killed.elapsed()))
            .await;
        other
            .fans_stay("42", &["u7"], other.config.lease_refresh * 2)
            .await;
        other.dashboard("42").await.sees(viewers(1), fans(1)).await;
    });
}

#[test]
fn ghosts_are_swept_from_a_slice_in_which_fans_come_and_go_all_the_time() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        doomed.open("42").await;
        doomed.crowd_follows("u", 20).await;
        doomed.crowd_follows("restless", 1).await;
        let _crowd = doomed.crowd("u", 20, "42").await;
        doomed.card_becomes("42", 20, PATIENCE).await;
        let other = World::beside(redis, |config| config.message_rate = 0).await;
        let _stays = other.viewer_in("u7", "42").await;
        doomed.process().kill();
        // The members of the set change with every flush, so the surviving gateway makes no call
        // without members.
        let mut restless = other.viewer("restless0").await;
        let churn = async {
            loop {
                restless.join("42").await;
                tokio::time::sleep(other.config.flush / 2).await;
                restless.leave().await;
                tokio::time::sleep(other.config.flush / 2).await;
            }
        };
        tokio::select! {
            () = churn => {}
            _ = until("u7 alone is left of the crowd", other.sweep_bound(), || async {
                let mut left = other.fans_in_store("42").await;
                left.remove("restless0");
                same(left, ["u7".to_owned()].into())
            }) => {}
        }
    });
}

#[test]
fn after_a_long_freeze_no_viewer_who_sent_heartbeats_is_closed() {
    story(async {
        let redis = Redis::start().await;
        let mut frozen = World::program(redis).await;
        let mut crowd = frozen.live_with_fans(20).await;
        frozen.process().freeze();
        let since = Instant::now();
        // The kernel accepts what the clients send, but nobody answers.
        while since.elapsed() < frozen.config.timeout + Duration::from_secs(1) {
            for viewer in &mut crowd {
                viewer.say(json!({"type": "heartbeat"})).await;
            }
            tokio::time::sleep(frozen.config.heartbeat).await;
        }
        frozen.process().thaw();
        for viewer in &mut crowd {
            assert!(
                viewer.is_connected().await,
                "closed after the freeze: {}",
                viewer.transcript()
            );
        }
        frozen.card_becomes("42", 20, PATIENCE).await;
        for viewer in &mut crowd {
            viewer.heartbeat_json().await;
        }
    });
}

#[test]
fn after_a_long_freeze_a_client_that_only_answers_pings_is_pinged_before_it_is_judged() {
    story(async {
        let redis = Redis::start().await;
        let mut frozen = World::program(redis).await;
        frozen.open("42").await;
        frozen.follow(&["u1"]).await;
        let mut viewer = frozen.person("u1", "viewer", "&live_id=42").await;
        viewer.expect("joined").await;
        let mut dashboard = frozen.person("s1", "streamer", "&watch=42").await;
        dashboard.expect("counts").await;
        frozen.fans_become("42", &["u1"]).await;
        frozen.process().freeze();
        tokio::time::sleep(frozen.config.timeout + Duration::from_secs(1)).await;
        frozen.process().thaw();
        frozen
            .fans_stay("42", &["u1"], frozen.config.timeout * 2)
            .await;
        for plain in [&mut viewer, &mut dashboard] {
            assert!(
                plain.is_connected().await,
                "closed after the freeze: {}",
                plain.transcript()
            );
        }
    });
}

#[test]
fn a_close_during_the_sleep_is_not_undone_by_the_sleeper() {
    story(async {
        let redis = Redis::start().await;
        let mut frozen = World::program(redis.clone()).await;
        let other = World::beside(redis, |_| ()).await;
        let mut crowd = frozen.live_with_fans(10).await;
        frozen.process().freeze();
        other.backend().close("42").await;
        for viewer in &mut crowd {
            viewer.say(json!({"type": "heartbeat"})).await;
        }
        frozen.process().thaw();
        for viewer in &mut crowd {
            viewer.expect("closed").await;
        }
        other
            .fans_stay("42", &[], other.config.lease + other.config.lease_refresh)
            .await;
        assert!(other.redis().keys("online-fans:42*").await.is_empty());
    });
}

#[test]
fn a_gateway_asked_to_end_exits_0_and_leaves_no_fan_of_its_own() {
    story(async {
        let redis = Redis::start().await;
        let mut ending = World::program(redis.clone()).await;
        let other = World::beside(redis, |_| ()).await;
        ending.open("42").await;
        ending.crowd_follows("u", 10).await;
        let mut crowd = ending.crowd("u", 10, "42").await;
        let _here = other.viewer_in("u3", "42").await;
        other.card_becomes("42", 10, PATIENCE).await;
        until("both gateways have fans there", PATIENCE, || async {
            let entries = other.redis().say("HLEN {online-fans:42}:gateways").await;
            same(entries.as_u64(), Some(2))
        })
        .await;
        ending.process().terminate();
        let status = ending.process().exit(PATIENCE * 2).await;
        assert_eq!(status.code(), Some(0), "{status}");
        assert_eq!(
            other.fans_in_store("42").await,
            ["u3".to_owned()].into(),
            "gone with the process, not with its lease"
        );
        for viewer in &mut crowd {
            let code = viewer.end().await;
            assert!(
                matches!(code, Some(1001 | 1012)),
                "{code:?}; {}",
                viewer.transcript()
            );
        }
    });
}

#[test]
fn a_live_in_the_middle_of_its_close_is_closed_by_a_survivor() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let _crowd = doomed.live_with_fans(5).await;
        doomed.process().kill();
        // This is what a gateway leaves behind when it dies right after it began a close.
        let opened_at = redis.live_field("42", "opened_at").await.unwrap();
        let begun = [
            "HSET",
            "live:42",
            "state",
            "closing",
            "reason",
            "requested",
            "closed_at",
            &opened_at,
        ];
        redis.ask(&begun).await;
        let other = World::beside(redis.clone(), |_| ()).await;
        until("the close is finished", PATIENCE, || async {
            same(
                redis.live_field("42", "state").await.as_deref(),
                Some("closed"),
            )
            .map(drop)
        })
        .await;
        let remain = ["live:42", "{online-fans:42}:fence"];
        assert_eq!(other.keys_of("42").await, remain.map(str::to_owned).into());
        let mut viewer = other.viewer("u1").await;
        viewer
            .is_refused(json!({"type": "join", "live_id": "42"}), "live_not_open")
            .await;
    });
}
