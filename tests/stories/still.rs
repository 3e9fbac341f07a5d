//! Lives in which nothing happens: they cost next to nothing, and whatever does happen is found all the same.

use std::time::Duration;

use serde_json::json;

use crate::support::redis_view::Redis;
use crate::support::stores::{on_redis, within_deadline};
use crate::support::wait::{PATIENCE, SLACK, throughout, until};
use crate::support::world::World;

const LIVES: usize = 40;
const FANS: usize = 2;

/// Commands sent to Redis.
const CALLS: &str = "rollcall_store_calls_total";

async fn renewed(world: &World) -> f64 {
    world.metric("rollcall_renewals_total{why=\"still\"}").await
}

async fn becomes_still(world: &World, lives: usize) {
    let before = renewed(world).await;
    until("the lives are still", PATIENCE, async || {
        let now = renewed(world).await - before;
        if now >= lives as f64 { Ok(()) } else { Err(now) }
    })
    .await;
}

on_redis! {
    async fn lives_in_which_nothing_happens_are_renewed_many_at_a_time_and_keep_their_fans(world) {
        world.crowd_follows("u", FANS).await;
        let mut crowds = Vec::new();
        for n in 0..LIVES {
            world.open(&format!("still{n}")).await;
            crowds.push(world.crowd("u", FANS, &format!("still{n}")).await);
        }
        for n in 0..LIVES {
            world.fans_become(&format!("still{n}"), &["u0", "u1"]).await;
        }
        becomes_still(&world, LIVES * 2).await;
        world.redis().becomes_marked("still0").await;
        // A peer would sweep whose lease runs out: it walks over the lives that it does not hold.
        let peer = world.another_gateway().await;
        peer.takes_the_sweepers_turn().await;
        let (calls, renewals) = (world.metric(CALLS).await, renewed(&world).await);
        // Entries are looked at, and marked anew, less often than a lease runs out.
        let span = world.config.lease * 4;
        throughout("everybody stays", span, async || {
            for n in [0, LIVES / 2, LIVES - 1] {
                let card = world.redis().ask(&["SCARD", &format!("online-fans:still{n}")]).await;
                if card.as_u64() != Some(FANS as u64) {
                    return Err(format!("still{n}: {card:?}"));
                }
            }
            Ok(())
        })
        .await;
        let (calls, renewals) = (world.metric(CALLS).await - calls, renewed(&world).await - renewals);
        let refreshes = (span.as_millis() / world.config.lease_refresh.as_millis()) as f64;
        assert!(renewals > LIVES as f64 * refreshes / 2.0, "{renewals} renewals in {refreshes} refreshes");
        // Refreshed one by one each live takes three calls.
        assert!(calls < renewals, "{calls} calls, {renewals} renewals");
    }
}

on_redis! {
    async fn whatever_happens_to_a_still_live_is_found_with_the_next_refresh(world) {
        world.open("42").await;
        world.crowd_follows("u", 3).await;
        let mut crowd = world.crowd("u", 3, "42").await;
        let everybody = ["u0", "u1", "u2"];
        let within = world.config.lease_refresh * 2 + SLACK;
        world.fans_become("42", &everybody).await;
        becomes_still(&world, 2).await;

        // The union alone was lost; what it was made of was not.
        world.redis().ask(&["DEL", "online-fans:42"]).await;
        world.fans_become_within("42", &everybody, within).await;
        becomes_still(&world, 2).await;

        // The record alone.
        world.redis().ask(&["DEL", "live:42"]).await;
        until("the record is back", within, async || {
            let state = world.redis().ask(&["HGET", "live:42", "state"]).await;
            if state.as_str() == Some("open") { Ok(()) } else { Err(format!("{state:?}")) }
        })
        .await;
        becomes_still(&world, 2).await;

        // All of it.
        world.redis().ask(&["FLUSHALL"]).await;
        world.crowd_follows("u", 3).await;
        world.fans_become_within("42", &everybody, within).await;
        becomes_still(&world, 2).await;

        // A close that no word tells of: another program writes the record.
        world.redis().ask(&["HSET", "live:42", "state", "closing", "closed_at", "1", "reason", "requested"]).await;
        crowd[0].expect("closed").await;
    }
}

/// Two gateways: neither is alone, so each looks after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_on_two_gateways_is_still_again_once_one_has_gone() {
    within_deadline(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        doomed.open("42").await;
        doomed.crowd_follows("u", 4).await;
        let _here = doomed.crowd("u", 2, "42").await;
        let other = World::beside(redis, |_| ()).await;
        let mut viewers = Vec::new();
        for user in ["u2", "u3"] {
            let mut viewer = other.viewer(user).await;
            viewer.join("42").await;
            viewers.push(viewer);
        }
        other.card_becomes("42", 4, PATIENCE).await;
        doomed.process().kill();
        other.card_becomes("42", 2, other.config.lease + Duration::from_secs(2) + SLACK).await;
        becomes_still(&other, 2).await;
        other.fans_stay("42", &["u2", "u3"], other.config.lease_refresh * 2).await;
    })
    .await;
}

/// Nobody but the walk over the open lives looks after it, and what the walk goes by is the gateway's own lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_still_live_of_a_killed_gateway_is_swept_when_the_gateways_own_lease_has_run_out() {
    within_deadline(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        doomed.open("42").await;
        doomed.crowd_follows("u", 2).await;
        let _crowd = doomed.crowd("u", 2, "42").await;
        doomed.fans_become("42", &["u0", "u1"]).await;
        redis.becomes_marked("42").await;
        let other = World::beside(redis, |_| ()).await;
        other.takes_the_sweepers_turn().await;
        // Long after the entry was looked at last.
        other.fans_stay("42", &["u0", "u1"], other.config.lease * 2).await;
        doomed.process().kill();
        other.card_becomes("42", 0, other.config.lease + Duration::from_secs(2) + SLACK).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_stood_still_brings_its_still_lives_back() {
    within_deadline(async {
        let redis = Redis::start().await;
        let mut frozen = World::program(redis.clone()).await;
        frozen.open("42").await;
        frozen.crowd_follows("u", 2).await;
        let mut crowd = frozen.crowd("u", 2, "42").await;
        frozen.fans_become("42", &["u0", "u1"]).await;
        redis.becomes_marked("42").await;
        let other = World::beside(redis, |_| ()).await;
        other.takes_the_sweepers_turn().await;
        frozen.process().freeze();
        other.card_becomes("42", 0, other.config.lease + Duration::from_secs(2) + SLACK).await;
        for viewer in &mut crowd {
            viewer.say(json!({"type": "heartbeat"})).await;
        }
        frozen.process().thaw();
        other.fans_become_within("42", &["u0", "u1"], other.config.lease_refresh * 2 + SLACK).await;
        until("it knows why", PATIENCE, async || {
            let lost = frozen.metric("rollcall_own_lease_lost_total").await;
            if lost >= 1.0 { Ok(()) } else { Err(lost) }
        })
        .await;
    })
    .await;
}

/// Whoever walks over the lives knows that the streamer is here, and makes no room for that while another gateway has one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_of_a_streamer_who_is_here_stays_still_beside_a_gateway_that_walks() {
    within_deadline(async {
        let redis = Redis::start().await;
        // With each refresh the streamer was heard, also on a busy machine.
        let slow = |config: &mut rollcall::config::Config| {
            (config.lease, config.lease_refresh) = (Duration::from_secs(3), Duration::from_secs(1));
        };
        let world = World::beside(redis.clone(), slow).await;
        let other = World::beside(redis.clone(), slow).await;
        other.takes_the_sweepers_turn().await;
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        world.crowd_follows("u", 2).await;
        let _crowd = world.crowd("u", 2, "42").await;
        world.fans_become("42", &["u0", "u1"]).await;
        // Each live has its turn within so many walks.
        throughout("there is no room elsewhere", world.config.lease_refresh * 14, async || {
            let words = redis.ask(&["HLEN", "live-viewers:42"]).await.as_u64();
            if words.is_some_and(|words| words <= 1) { Ok(()) } else { Err(format!("{words:?} words on viewers")) }
        })
        .await;
        redis.becomes_marked("42").await;
        drop(streamer);
    })
    .await;
}
