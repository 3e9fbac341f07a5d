//! Who is online on the platform: everybody with a socket, in a live or not, once over all gateways; and when those who
//! left were seen last.

use std::collections::BTreeSet;
use std::time::Duration;

use rollcall::config::Switch;
use tokio::time::Instant;

use crate::support::redis_view::Redis;
use crate::support::stores::{on_redis, within_deadline};
use crate::support::wait::{PATIENCE, SLACK, same, throughout, until};
use crate::support::world::World;

fn users(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

async fn online_become(redis: &Redis, names: &[&str], within: Duration) {
    until("the users online", within, || async { same(redis.online_users().await, users(names)) }).await;
}

/// When a user was seen last, once Redis knows.
async fn seen(redis: &Redis, user: &str) -> u64 {
    until("when the user was seen", PATIENCE, || async { redis.last_seen(user).await.ok_or("unknown") }).await
}

fn now_ms() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64
}

on_redis! {
    async fn a_user_is_online_while_any_device_is_connected(world) {
        let redis = world.redis().clone();
        let other = world.another_gateway().await;
        let first = world.viewer("u1").await;
        let _streamer = world.streamer("s1").await;
        let _service = world.service().await;
        let _uncounted = world.person("bot", "viewer", "&count=false").await;
        online_become(&redis, &["s1", "u1"], PATIENCE).await;
        let second = other.viewer("u1").await;
        let third = other.viewer("u1").await;
        first.close().await;
        third.close().await;
        throughout("u1 is online", world.config.flush * 6, || async {
            same(redis.online_users().await, users(&["s1", "u1"]))
        }).await;
        second.close().await;
        online_become(&redis, &["s1"], PATIENCE).await;
        assert!(redis.keys("lives").await.is_empty(), "the set is no live");
        let lives = world.backend().get("/v1/lives").await.is(200).body;
        assert_eq!(lives["items"].as_array().map(Vec::len), Some(0), "{lives}");
    }
}

on_redis! {
    async fn a_user_who_vanishes_is_online_until_the_timeout_in_a_live_or_not(world) {
        let redis = world.redis().clone();
        world.open("42").await;
        let (idle, joined) = (world.viewer("idle").await, world.viewer_in("joined", "42").await);
        online_become(&redis, &["idle", "joined"], PATIENCE).await;
        let heard = now_ms();
        let vanished = Instant::now();
        idle.vanish();
        joined.vanish();
        throughout("both are online", world.config.timeout / 2, || async {
            same(redis.online_users().await, users(&["idle", "joined"]))
        }).await;
        online_become(&redis, &[], world.config.timeout + Duration::from_secs(1) + SLACK).await;
        assert!(vanished.elapsed() >= world.config.timeout - world.config.heartbeat * 2, "{:?}", vanished.elapsed());
        for user in ["idle", "joined"] {
            let at = seen(&redis, user).await;
            let timeout = world.config.timeout.as_millis() as u64;
            assert!(at <= heard + 500 && at + timeout >= heard, "{user} was last heard at {at}, and not {heard}");
        }
    }
}

on_redis! {
    async fn a_user_who_left_was_seen_with_the_last_frame(world) {
        let redis = world.redis().clone();
        let mut viewer = world.viewer("u1").await;
        online_become(&redis, &["u1"], PATIENCE).await;
        // The gateway counts whole milliseconds on two clocks.
        let before = now_ms() - 2;
        viewer.ping().await;
        viewer.close().await;
        online_become(&redis, &[], PATIENCE).await;
        let at = until("the time of leaving", PATIENCE, || async {
            match redis.last_seen("u1").await {
                Some(at) if at >= before => Ok(at),
                other => Err(format!("{other:?}")),
            }
        }).await;
        assert!(at <= now_ms(), "{at}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_users_of_a_killed_gateway_are_seen_last_when_it_was() {
    within_deadline(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let other = World::beside(redis.clone(), |_| ()).await;
        let mut crowd = Vec::new();
        for i in 0..20 {
            crowd.push(doomed.viewer(&format!("u{i}")).await);
        }
        let _both = other.viewer("u7").await;
        until("all are online", PATIENCE, || async { same(redis.online_users().await.len(), 20) }).await;
        let killed = now_ms();
        doomed.process().kill();
        online_become(&redis, &["u7"], other.sweep_bound()).await;
        // The burial comes a lease, less half a refresh, after the last renewal.
        let early = killed - (other.config.lease_refresh * 2).as_millis() as u64;
        let late = killed + (other.config.lease_refresh * 3).as_millis() as u64;
        for i in (0..20).filter(|i| *i != 7) {
            let user = format!("u{i}");
            until("when the user was seen", PATIENCE, || async {
                match redis.last_seen(&user).await {
                    Some(at) if (early..late).contains(&at) => Ok(()),
                    other => Err(format!("{user}: {other:?}, and not {killed}")),
                }
            })
            .await;
        }
    })
    .await;
}

on_redis! {
    async fn everybody_is_online_again_soon_after_redis_lost_its_data(world) {
        let redis = world.redis().clone();
        let other = world.another_gateway().await;
        let mut crowd = Vec::new();
        for i in 0..10 {
            crowd.push(world.viewer(&format!("u{i}")).await);
            crowd.push(other.viewer(&format!("u{}", i + 5)).await);
        }
        until("all are online", PATIENCE, || async { same(redis.online_users().await.len(), 15) }).await;
        redis.ask(&["FLUSHALL"]).await;
        until("all are online again", Duration::from_secs(5) + SLACK, || async {
            same(redis.online_users().await.len(), 15)
        }).await;
    }
}

on_redis! {
    async fn what_another_program_changes_in_the_set_is_repaired(world) {
        let redis = world.redis().clone();
        let _users = (world.viewer("u1").await, world.viewer("u2").await);
        online_become(&redis, &["u1", "u2"], PATIENCE).await;
        let slice = redis.keys("online-users_slice*").await.into_iter().next().unwrap();
        redis.ask(&["DEL", &slice]).await;
        online_become(&redis, &["u1", "u2"], world.config.check_every * 2 + PATIENCE).await;
    }
}

on_redis! {
    tuned(|config| config.track_online = Switch::Off)
    async fn nothing_is_written_where_the_gateway_does_not_track(world) {
        world.open("42").await;
        let viewer = world.viewer_in("u1", "42").await;
        let idle = world.viewer("u2").await;
        viewer.close().await;
        idle.vanish();
        throughout("nothing is written", world.config.check_every + world.config.timeout, || async {
            let (online, seen) = (world.redis().keys("*online-users*").await, world.redis().keys("last-seen*").await);
            same((online, seen), (BTreeSet::new(), BTreeSet::new()))
        }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_stops_leaves_nobody_online() {
    within_deadline(async {
        let redis = Redis::start().await;
        let world = World::beside(redis.clone(), |_| ()).await;
        let mut crowd = Vec::new();
        for i in 0..10 {
            crowd.push(world.viewer(&format!("u{i}")).await);
        }
        until("all are online", PATIENCE, || async { same(redis.online_users().await.len(), 10) }).await;
        world.stop().await;
        assert!(redis.online_users().await.is_empty());
        for i in 0..10 {
            assert!(redis.last_seen(&format!("u{i}")).await.is_some(), "u{i}");
        }
    })
    .await;
}
