//! Lives in which nothing happens cost next to nothing, and a gateway still finds every change in
//! them.

use std::time::Duration;

use crate::support::redis_view::Redis;
use crate::support::stores::{on_redis, story};
use crate::support::wait::{PATIENCE, SLACK, becomes, fits, same, throughout, until};
use crate::support::world::World;

const LIVES: usize = 40;
const FANS: usize = 2;

/// The metric that counts the calls to Redis.
const CALLS: &str = "rollcall_store_calls_total";

on_redis! {
    // While the story looks, nothing is due but the checks of each minute. Each user has a socket
    // in every live.
    tuned(|config| {
        (config.check_every, config.fan_ttl) = (Duration::from_secs(60), Duration::from_secs(60));
        config.sockets_per_user = 0;
    })
    async fn lives_in_which_nothing_happens_cost_no_call_on_one_gateway_and_on_two(world) {
        let other = world.another_gateway().await;
        world.crowd_follows("u", FANS).await;
        let mut crowds = Vec::new();
        for n in 0..LIVES {
            let live = format!("still{n}");
            world.open(&live).await;
            crowds.push(world.crowd("u", FANS, &live).await);
            crowds.push(other.crowd("u", FANS, &live).await);
        }
        for n in 0..LIVES {
            world.fans_become(&format!("still{n}"), &["u0", "u1"]).await;
        }
        let refresh = world.config.lease_refresh;
        until("all is said", PATIENCE, async || {
            let before = world.metric(CALLS).await + other.metric(CALLS).await;
            // No call may come during this time.
            tokio::time::sleep(refresh * 2).await;
            let calls = world.metric(CALLS).await + other.metric(CALLS).await - before;
            // Each refresh, each gateway makes a renewal, a request to walk, and a probe.
            if calls < 40.0 { Ok(()) } else { Err(calls) }
        })
        .await;
        let (before, span) = (world.metric(CALLS).await + other.metric(CALLS).await, refresh * 10);
        throughout("everybody stays", span, async || {
            same(world.redis().ask(&["SCARD", "online-fans:still0"]).await.as_u64(), Some(FANS as u64))
        })
        .await;
        let calls = world.metric(CALLS).await + other.metric(CALLS).await - before;
        // Some of the checks of each minute fall into these seconds. Each covers many lives.
        assert!(calls < 150.0, "{calls} calls for {LIVES} lives on two gateways in ten refreshes");
    }
}

on_redis! {
    async fn whatever_happens_to_a_still_live_is_found_with_the_next_check(world) {
        world.open("42").await;
        world.crowd_follows("u", 3).await;
        let mut crowd = world.crowd("u", 3, "42").await;
        let other = world.another_gateway().await;
        let mut elsewhere = other.viewer_in("u2", "42").await;
        let everybody = ["u0", "u1", "u2"];
        let within = world.config.check_every * 3 / 2 + SLACK;
        world.fans_become("42", &everybody).await;

        // Only the public set is lost, and the claims are not.
        world.redis().ask(&["DEL", "online-fans:42"]).await;
        world.fans_become_within("42", &everybody, within).await;

        // Another program removes a member, and adds one.
        world.redis().ask(&["SREM", "online-fans:42", "u1"]).await;
        world.fans_become_within("42", &everybody, within).await;
        world.redis().ask(&["SADD", "online-fans:42", "stranger"]).await;
        world.fans_become_within("42", &everybody, within).await;

        // Only the record is lost.
        world.redis().ask(&["DEL", "live:42"]).await;
        until("the record is back", within, async || {
            same(world.redis().ask(&["HGET", "live:42", "state"]).await.as_str(), Some("open")).map(drop)
        })
        .await;

        // Everything is lost.
        let mut dashboard = world.dashboard("42").await;
        world.redis().ask(&["FLUSHALL"]).await;
        world.crowd_follows("u", 3).await;
        world.fans_become_within("42", &everybody, within).await;
        dashboard.sees_quality("exact").await;

        // Another program closes the live in the record, and no message tells of it.
        world.redis().ask(&["HSET", "live:42", "state", "closing", "closed_at", "1", "reason", "requested"]).await;
        crowd[0].expect("closed").await;
        elsewhere.expect("closed").await;
    }
}

/// Only the walk over the open lives finds this live.
#[test]
fn a_live_that_only_a_killed_gateway_held_is_swept_by_the_walk() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let gateway = doomed.gateway_id().await;
        doomed.open("42").await;
        doomed.crowd_follows("u", 2).await;
        let _crowd = doomed.crowd("u", 2, "42").await;
        doomed.fans_become("42", &["u0", "u1"]).await;
        let other = World::beside(redis.clone(), |config| {
            config.check_every = Duration::from_secs(60)
        })
        .await;
        other
            .fans_stay("42", &["u0", "u1"], other.config.lease * 2)
            .await;
        doomed.process().kill();
        other.card_becomes("42", 0, other.sweep_bound()).await;
        becomes("nothing names the dead", Vec::new(), async || {
            redis.names_of(&gateway).await
        })
        .await;
    });
}

#[test]
fn a_gateway_that_stood_still_for_three_leases_goes_on_under_a_new_id() {
    story(async {
        let redis = Redis::start().await;
        let mut frozen = World::program(redis.clone()).await;
        let former = frozen.gateway_id().await;
        frozen.open("42").await;
        frozen.crowd_follows("u", 3).await;
        let mut crowd = frozen.crowd("u", 2, "42").await;
        frozen.fans_become("42", &["u0", "u1"]).await;
        let other = World::beside(redis.clone(), |_| ()).await;
        let _elsewhere = other.viewer_in("u2", "42").await;
        let mut dashboard = other.dashboard("42").await;
        frozen.process().freeze();
        other
            .fans_become_within("42", &["u2"], other.sweep_bound())
            .await;
        for viewer in &mut crowd {
            viewer.say(serde_json::json!({"type": "heartbeat"})).await;
        }
        throughout(
            "who is elsewhere stays",
            other.config.lease * 2,
            async || fits(other.fans_in_store("42").await, |fans| fans.contains("u2")),
        )
        .await;
        frozen.process().thaw();
        other
            .fans_become_within("42", &["u0", "u1", "u2"], Duration::from_secs(6))
            .await;
        dashboard
            .sees_that("all of them", |counts| counts.number("viewers") == 3)
            .await;
        assert_ne!(frozen.gateway_id().await, former);
        becomes("nothing names the former id", Vec::new(), async || {
            redis.names_of(&former).await
        })
        .await;
        assert!(frozen.metric("rollcall_buried_itself_total").await >= 1.0);
    });
}
