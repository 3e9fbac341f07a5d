//! The gateways notice, repair and count what another program writes into their sets, without being
//! asked.

use std::time::Duration;

use super::audit::nothing_is_wrong;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_redis, story};
use crate::support::wait::{PATIENCE, SLACK, becomes, fits, same, until};
use crate::support::world::World;

async fn drifted(world: &World, why: &str) -> f64 {
    world
        .metric(&format!("rollcall_drift_members_total{{why=\"{why}\"}}"))
        .await
}

on_redis! {
    async fn foreign_members_of_a_live_that_no_gateway_holds_are_removed_too(world) {
        world.open("42").await;
        // Nobody joins, so the gateway soon lets go of the room and looks after the live through
        // the list.
        let other = world.another_gateway().await;
        world.redis().ask(&["SADD", "online-fans:42", "stray"]).await;
        let within = world.config.lease_refresh * 30 + SLACK;
        other.fans_become_within("42", &[], within).await;
        // Redis has the change before the gateway that made it has its answer.
        becomes("one stray is counted, by one of the two", 1.0, async || {
            drifted(&world, "stray").await + drifted(&other, "stray").await
        })
        .await;
    }
}

/// Nobody moves, so the gateway that holds the viewers learns of it from the other one.
#[test]
fn viewers_stay_when_a_gateway_without_them_finds_their_claims_changed() {
    story(async {
        let redis = Redis::start().await;
        let walker = World::beside(redis.clone(), |config| {
            config.check_every = Duration::from_secs(2);
        })
        .await;
        let holder = World::beside(redis, |config| {
            config.check_every = Duration::from_secs(600);
        })
        .await;
        holder.open("42").await;
        holder.crowd_follows("u", 3).await;
        let _crowd = holder.crowd("u", 3, "42").await;
        let everybody = ["u0", "u1", "u2"];
        holder.fans_become("42", &everybody).await;
        let who = "{online-fans:42}:who";
        walker.redis().ask(&["HDEL", who, "u1"]).await;
        holder
            .fans_stay("42", &everybody, Duration::from_secs(12))
            .await;
        becomes(
            "the claims are said again",
            everybody.map(str::to_owned).into(),
            async || walker.redis().members_of(who).await,
        )
        .await;
        nothing_is_wrong(&walker.redis().url(), PATIENCE).await;
    });
}

/// Whom a live had is lost with the slice, and nobody is there who would say it again.
#[test]
fn the_figures_of_a_slice_that_was_lost_after_everybody_had_left_are_exact_again() {
    story(async {
        let world = World::on_redis(|_| ()).await;
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        world.viewer_in("u1", "42").await.close().await;
        until("nobody is there", PATIENCE, async || {
            let told = world.backend().live("42").await;
            same(told["viewers"].as_u64(), Some(0))
        })
        .await;
        world.redis().ask(&["FLUSHALL"]).await;
        dashboard.sees_quality("partial").await;
        dashboard.sees_quality("exact").await;
    });
}

/// The gateway searches the whole slice at once when there surely are strays, and page by page
/// otherwise. It never removes a user whom a gateway holds.
#[test]
fn many_strays_go_at_once_and_nobody_else_does() {
    story(async {
        let world = World::on_redis(|_| ()).await;
        let _crowd = world.live_with_fans(20).await;
        let strays: Vec<String> = (0..5_000).map(|n| format!("stray{n}")).collect();
        let words: Vec<&str> = ["SADD", "online-fans:42"]
            .into_iter()
            .chain(strays.iter().map(String::as_str))
            .collect();
        world.redis().ask(&words).await;
        world
            .card_becomes("42", 20, world.config.lease_refresh * 13 + SLACK)
            .await;
        until("the strays are counted", PATIENCE, async || {
            fits(drifted(&world, "stray").await, |strays| *strays >= 5_000.0)
        })
        .await;
        world
            .dashboard("42")
            .await
            .sees_that("20 fans", |counts| counts.number("fans") == 20)
            .await;
    });
}

#[test]
fn the_age_of_ghosts_is_measured() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let _crowd = doomed.live_with_fans(5).await;
        doomed.process().kill();
        let other = World::beside(redis, |_| ()).await;
        let _alive = other.viewer_in("u7", "42").await;
        other.card_becomes("42", 0, other.sweep_bound()).await;
        until("a ghost's age is counted", PATIENCE, async || {
            fits(
                other.metric("rollcall_ghost_age_seconds_count").await,
                |ghosts| *ghosts >= 1.0,
            )
        })
        .await;
        let age = other.metric("rollcall_ghost_age_seconds_sum").await;
        assert!(age < 5.0, "{age} s past the lease");
        assert_eq!(other.metric("rollcall_ghost_oldest_seconds").await, 0.0);
    });
}
