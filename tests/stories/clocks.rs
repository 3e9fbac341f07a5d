//! Clocks that are wrong: one gateway runs an hour ahead, another an hour behind, and the clock of
//! Redis steps. No decision compares clocks of two machines, so no viewer and no dashboard notices.

use rollcall::base::clock::unix_now;
use tokio::time::Instant;

use crate::support::dashboard::{fans, viewers};
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::wait::{PATIENCE, SLACK, becomes, same, throughout, until};
use crate::support::world::World;

/// How far a gateway's clock is from all other clocks, in ms.
async fn off_by(world: &World) -> i64 {
    let counts = world
        .dashboard("42")
        .await
        .log
        .pop()
        .expect("the counts of now");
    counts.number("as_of") as i64 - unix_now() as i64
}

#[test]
fn a_clock_that_is_off_by_an_hour_changes_nothing() {
    const HOUR: i64 = 3_600_000;
    story(async {
        let redis = Redis::start().await;
        let mut ahead = World::program_at(redis.clone(), "+1h").await;
        let behind = World::program_at(redis.clone(), "-1h").await;
        let right = World::beside(redis, |_| ()).await;
        right.open("42").await;
        assert!(
            (off_by(&ahead).await - HOUR).abs() < HOUR / 10
                && (off_by(&behind).await + HOUR).abs() < HOUR / 10
        );
        right.crowd_follows("a", 3).await;
        right.crowd_follows("b", 3).await;
        let _there = ahead.crowd("a", 3, "42").await;
        let _here = behind.crowd("b", 3, "42").await;

        let everybody = ["a0", "a1", "a2", "b0", "b1", "b2"];
        right.fans_become("42", &everybody).await;
        for world in [&ahead, &behind, &right] {
            world.dashboard("42").await.sees(viewers(6), fans(6)).await;
        }
        // No gateway takes another for dead.
        throughout("all are online", right.config.lease * 2, || async {
            let live = right.backend().live("42").await;
            same(
                (live["viewers"].as_u64(), live["fans"].as_u64()),
                (Some(6), Some(6)),
            )
        })
        .await;
        right
            .fans_stay("42", &everybody, right.config.lease_refresh)
            .await;
        // The points of a history have the times of the store.
        until("its history is whole", PATIENCE, || async {
            let history = behind
                .backend()
                .get("/v1/lives/42/history")
                .await
                .is(200)
                .body;
            same(
                history["items"]
                    .as_array()
                    .and_then(|items| items.last()?["viewers"].as_u64()),
                Some(6),
            )
        })
        .await;

        ahead.process().kill();
        let killed = Instant::now();
        right
            .fans_become_within("42", &["b0", "b1", "b2"], right.config.lease + PATIENCE)
            .await;
        let took = killed.elapsed();
        let lease = right.config.lease;
        assert!(
            took < lease + std::time::Duration::from_secs(2) + SLACK,
            "{took:?}"
        );
        assert!(
            took > lease - right.config.lease_refresh * 2,
            "swept before its lease ran out: {took:?}"
        );

        behind.backend().close("42").await;
        becomes(
            "it is closed for all",
            Some("closed".to_owned()),
            async || {
                right.backend().live("42").await["state"]
                    .as_str()
                    .map(str::to_owned)
            },
        )
        .await;
        right.open("42").await;
        behind.dashboard("42").await.sees(viewers(0), fans(0)).await;
        behind.viewer("b0").await.join("42").await;
        right.fans_become("42", &["b0"]).await;
    });
}

#[test]
fn a_step_of_the_clock_of_redis_harms_nobody() {
    story(async {
        let redis = Redis::start_with_clock().await;
        let (here, there) = (
            World::beside(redis.clone(), |_| ()).await,
            World::beside(redis.clone(), |_| ()).await,
        );
        here.open("42").await;
        here.crowd_follows("u", 4).await;
        let _here = here.crowd("u", 2, "42").await;
        let mut elsewhere = Vec::new();
        for user in ["u2", "u3"] {
            let viewer = there.viewer_in(user, "42").await;
            elsewhere.push(viewer);
        }
        let everybody = ["u0", "u1", "u2", "u3"];
        here.fans_become("42", &everybody).await;
        let mut dashboard = there.dashboard("42").await;
        for ahead in [60, 0, -60, 0] {
            redis.set_clock(ahead).await;
            here.fans_stay("42", &everybody, here.config.lease).await;
            // Gateways hear the sizes of slices in order, whatever the clock says.
            elsewhere.pop().expect("somebody").close().await;
            dashboard.sees(viewers(3), fans(3)).await;
            let back = there.viewer_in("u3", "42").await;
            elsewhere.push(back);
            dashboard.sees(viewers(4), fans(4)).await;
        }
        assert_eq!(here.metric("rollcall_swept_members_total").await, 0.0);
        assert_eq!(there.metric("rollcall_swept_members_total").await, 0.0);
    });
}
