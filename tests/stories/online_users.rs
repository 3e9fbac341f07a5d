//! Who is online on the platform: everybody with a socket, in a live or not, once over all
//! gateways; and when those who left were seen last.

use std::collections::BTreeSet;
use std::time::Duration;

use rollcall::base::clock::unix_now;
use tokio::time::Instant;

use crate::support::redis_view::Redis;
use crate::support::stores::{on_redis, story};
use crate::support::wait::{PATIENCE, SLACK, becomes, names, same, throughout, until};
use crate::support::world::World;

async fn online_become(redis: &Redis, wanted: &[&str], within: Duration) {
    until("the users online", within, || async {
        same(redis.online_users().await, names(wanted))
    })
    .await;
}

/// When a user was seen last, once Redis knows.
async fn seen(redis: &Redis, user: &str) -> u64 {
    until("when the user was seen", PATIENCE, || async {
        redis.last_seen(user).await.ok_or("unknown")
    })
    .await
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
            same(redis.online_users().await, names(&["s1", "u1"]))
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
        let heard = unix_now();
        let vanished = Instant::now();
        idle.vanish();
        joined.vanish();
        throughout("both are online", world.config.timeout / 2, || async {
            same(redis.online_users().await, names(&["idle", "joined"]))
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
        let before = unix_now() - 2;
        viewer.ping().await;
        viewer.close().await;
        online_become(&redis, &[], PATIENCE).await;
        let at = until("the time of leaving", PATIENCE, || async {
            match redis.last_seen("u1").await {
                Some(at) if at >= before => Ok(at),
                other => Err(format!("{other:?}")),
            }
        }).await;
        assert!(at <= unix_now(), "{at}");
    }
}

#[test]
fn the_users_of_a_killed_gateway_are_seen_last_when_it_was() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let other = World::beside(redis.clone(), |_| ()).await;
        let mut crowd = Vec::new();
        for i in 0..20 {
            crowd.push(doomed.viewer(&format!("u{i}")).await);
        }
        let _both = other.viewer("u7").await;
        becomes("all are online", 20, async || {
            redis.online_users().await.len()
        })
        .await;
        let killed = unix_now();
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
    });
}

#[test]
fn users_of_the_last_gateway_were_seen_when_it_was_killed_and_not_when_the_next_one_started() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let crowd = (doomed.viewer("u1").await, doomed.viewer("u2").await);
        online_become(&redis, &["u1", "u2"], PATIENCE).await;
        let killed = unix_now();
        doomed.process().kill();
        drop(crowd);
        // Nobody buries the gateway for so long.
        tokio::time::sleep(doomed.config.lease * 2).await;
        let next = World::beside(redis.clone(), |_| ()).await;
        online_become(&redis, &[], next.sweep_bound()).await;
        for user in ["u1", "u2"] {
            let at = redis
                .last_seen(user)
                .await
                .expect("a user who left the set was seen");
            let early = killed - (next.config.lease_refresh * 2).as_millis() as u64;
            assert!(
                (early..=killed).contains(&at),
                "{user}: {at}, and not {killed}"
            );
        }
    });
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
        becomes("all are online", 15, async || redis.online_users().await.len()).await;
        redis.ask(&["FLUSHALL"]).await;
        until("all are online again", Duration::from_secs(5) + SLACK, || async {
            same(redis.online_users().await.len(), 15)
        }).await;
    }
}

/// Has Redis keep a copy of all that it knows of the users, to which it can go back.
async fn keep_a_copy(redis: &Redis) {
    for key in redis.keys("*online-users_slice*").await {
        redis.say(&format!("COPY {key} copy:{key} REPLACE")).await;
    }
}

/// Has Redis go back to the copy, in one moment.
async fn go_back(redis: &Redis) {
    let script = "for _, key in ipairs(redis.call('KEYS', '*online-users_slice*')) do
        if key:sub(1, 5) ~= 'copy:' then redis.call('DEL', key) end
      end
      for _, key in ipairs(redis.call('KEYS', 'copy:*')) do redis.call('COPY', key, key:sub(6)) end
      return 1";
    assert_eq!(redis.ask(&["EVAL", script, "0"]).await, 1);
}

/// Who is online, and who was seen, as Redis has it.
async fn online_and_seen(redis: &Redis) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut online, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let names = |answer: serde_json::Value| -> Vec<String> {
        answer
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    };
    for key in redis.keys("online-users_slice*").await {
        online.extend(names(redis.ask(&["SMEMBERS", &key]).await));
    }
    for key in redis.keys("last-seen:*").await {
        seen.extend(names(redis.ask(&["ZRANGE", &key, "0", "-1"]).await));
    }
    (online, seen)
}

on_redis! {
    async fn nobody_is_both_online_and_seen_after_redis_went_back(world) {
        let redis = world.redis().clone();
        let other = world.another_gateway().await;
        let all = async |online: &[&str], seen: &[&str]| {
            let within = world.config.check_every * 2 + PATIENCE;
            until("everybody is where they belong", within, || async {
                same(online_and_seen(&redis).await, (names(online), names(seen)))
            }).await;
        };
        let leaver = world.viewer("leaver").await;
        let mover = world.viewer("mover").await;
        let _stays = world.viewer("stays").await;
        let gone = other.viewer("comer").await;
        gone.close().await;
        all(&["leaver", "mover", "stays"], &["comer"]).await;
        keep_a_copy(&redis).await;
        leaver.close().await;
        mover.close().await;
        let _comer = world.viewer("comer").await;
        let _mover = other.viewer("mover").await;
        all(&["comer", "mover", "stays"], &["leaver"]).await;
        go_back(&redis).await;
        all(&["comer", "mover", "stays"], &["leaver"]).await;
        let count = world.backend().get("/v1/online/count").await.is(200).body;
        assert_eq!((&count["count"], &count["online_users"]), (&4.into(), &3.into()), "{count}");
    }
}

#[test]
fn users_of_a_gateway_that_was_buried_and_comes_back_are_not_seen() {
    story(async {
        let redis = Redis::start().await;
        let mut paused = World::program(redis.clone()).await;
        let other = World::beside(redis.clone(), |_| ()).await;
        let mut kept = Vec::new();
        for user in ["u1", "u2"] {
            kept.push(paused.viewer(user).await);
        }
        let _other = other.viewer("u3").await;
        online_become(&redis, &["u1", "u2", "u3"], PATIENCE).await;
        // Its lease is gone for good, as after a long pause.
        let lease = redis.ask(&["HKEYS", "rollcall:leases"]).await;
        let own = other.backend().get("/healthz").await.is(200).body["gateway_id"].clone();
        let id = lease
            .as_array()
            .unwrap()
            .iter()
            .find(|id| **id != own)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned();
        redis
            .ask(&[
                "HSET",
                "rollcall:leases",
                &id,
                &format!("dead:{}", unix_now()),
            ])
            .await;
        until(
            "both are swept, and online again",
            other.sweep_bound() + PATIENCE,
            || async {
                let entries = redis.keys("*online-users_slice*:gateways").await;
                let mut left = Vec::new();
                for key in entries {
                    left.push(redis.ask(&["HGET", &key, &id]).await);
                }
                same(left.iter().all(serde_json::Value::is_null), true)?;
                same(
                    online_and_seen(&redis).await,
                    (names(&["u1", "u2", "u3"]), names(&[])),
                )
            },
        )
        .await;
        drop(kept);
        paused.process().kill();
    });
}

on_redis! {
    tuned(|config| config.track_online = false)
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

#[test]
fn a_gateway_that_stops_leaves_nobody_online() {
    story(async {
        let redis = Redis::start().await;
        let world = World::beside(redis.clone(), |_| ()).await;
        let mut crowd = Vec::new();
        for i in 0..10 {
            crowd.push(world.viewer(&format!("u{i}")).await);
        }
        becomes("all are online", 10, async || {
            redis.online_users().await.len()
        })
        .await;
        world.stop().await;
        assert!(redis.online_users().await.is_empty());
        for i in 0..10 {
            assert!(redis.last_seen(&format!("u{i}")).await.is_some(), "u{i}");
        }
    });
}
