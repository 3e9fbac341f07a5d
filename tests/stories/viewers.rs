//! All viewers of a live are in the store, so each user counts once over all gateways.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rollcall::base::clock::unix_now;

use crate::support::dashboard::{Counts, fans, viewers};
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::wait::{PATIENCE, SLACK, becomes, names, same, throughout, until};
use crate::support::world::World;

/// The viewers of a live as a gateway's API counts them.
async fn viewers_of(world: &World, live: &str) -> u64 {
    world.backend().live(live).await["viewers"]
        .as_u64()
        .unwrap()
}

async fn viewers_become(world: &World, live: &str, wanted: u64, within: Duration) {
    until("the viewers", within, || async {
        let in_store = match &world.redis {
            Some(redis) => redis.viewers(live).await.len() as u64,
            None => wanted,
        };
        same((viewers_of(world, live).await, in_store), (wanted, wanted))
    })
    .await;
}

/// The whole listing of viewers, in pages of two: each user's `fan` and `since`.
async fn listed(world: &World, live: &str, query: &str) -> BTreeMap<String, (bool, Option<u64>)> {
    let (mut all, mut cursor) = (BTreeMap::new(), String::new());
    loop {
        let path = format!("/v1/lives/{live}/viewers?limit=2&cursor={cursor}{query}");
        let page = world.backend().get(&path).await.is(200).body;
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= 2, "{page}");
        for item in items {
            let user = item["user_id"].as_str().unwrap().to_owned();
            let there = all.insert(
                user,
                (item["fan"].as_bool().unwrap(), item["since"].as_u64()),
            );
            assert_eq!(there, None, "twice: {item}");
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => return all,
        }
    }
}

on_redis! {
    async fn two_devices_on_two_gateways_count_once(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let other = world.another_gateway().await;
        let mut here = world.viewer_in("u1", "42").await;
        let there = other.viewer_in("u1", "42").await;
        let _stranger = other.viewer_in("u2", "42").await;
        for world in [&world, &other] {
            viewers_become(world, "42", 2, PATIENCE).await;
        }
        world.acks_become(&mut here, Some(true), 2, 1).await;
        assert_eq!(world.redis().viewers("42").await, names(&["u1", "u2"]));
        world.dashboard("42").await.sees(viewers(2), fans(1)).await;
        let page = world.backend().live("42").await;
        assert_eq!((&page["peak_viewers"], &page["peak_fans"]), (&2.into(), &1.into()), "{page}");
        there.close().await;
        throughout("both are there", other.config.lease_refresh * 2, || async {
            same((viewers_of(&other, "42").await, other.card("42").await), (2, 1))
        }).await;
        here.close().await;
        world.fans_become_within("42", &[], world.config.flush * 2 + SLACK).await;
        for world in [&world, &other] {
            viewers_become(world, "42", 1, PATIENCE).await;
        }
    }
}

on_memory! {
    async fn viewers_count_whether_or_not_they_are_fans(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let _fan = world.viewer_in("u1", "42").await;
        let second = world.viewer_in("u2", "42").await;
        let _again = world.viewer_in("u2", "42").await;
        let _uncounted = world.person("bot", "viewer", "&live_id=42&count=false").await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees(viewers(2), fans(1)).await;
        second.close().await;
        world.backend().unfollow("u1", "s1").await;
        dashboard.sees(viewers(2), fans(0)).await;
        let there = listed(&world, "42", "").await;
        assert_eq!(there.keys().cloned().collect::<BTreeSet<_>>(), names(&["u1", "u2"]));
    }
}

on_redis! {
    async fn a_viewer_who_lost_the_network_and_came_back_through_another_gateway_counts_once(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let viewer = world.viewer_in("u1", "42").await;
        for world in [&world, &other] {
            viewers_become(world, "42", 1, PATIENCE).await;
        }
        viewer.vanish();
        let _back = other.viewer_in("u1", "42").await;
        throughout("the viewer counts once", world.config.timeout + SLACK, || async {
            same((viewers_of(&world, "42").await, viewers_of(&other, "42").await), (1, 1))
        }).await;
    }
}

#[test]
fn viewers_who_are_moved_count_once_at_every_moment() {
    const DRAIN: Duration = Duration::from_secs(8);
    story(async {
        let redis = Redis::start().await;
        let old = World::beside(redis.clone(), |config| config.drain = DRAIN).await;
        let new = World::beside(redis.clone(), |_| ()).await;
        old.open("42").await;
        old.crowd_follows("u", 4).await;
        let crowd = old.crowd("u", 12, "42").await;
        for world in [&old, &new] {
            viewers_become(world, "42", 12, PATIENCE).await;
        }
        let mut dashboard = new.dashboard("42").await;
        dashboard.sees(viewers(12), fans(4)).await;
        let before = listed(&new, "42", "").await;
        let moving = async {
            let moves = crowd.into_iter().enumerate().map(|(i, mut viewer)| {
                let new = &new;
                async move {
                    let after = viewer.expect("reconnect").await["after_ms"]
                        .as_u64()
                        .expect("after_ms");
                    viewer.end().await;
                    tokio::time::sleep(Duration::from_millis(after)).await;
                    new.viewer_in(&format!("u{i}"), "42").await
                }
            });
            futures_util::future::join_all(moves).await
        };
        let all = async {
            let ((), moved) = tokio::join!(old.stop(), moving);
            moved
        };
        let figures = throughout("everybody counts once", Duration::MAX, || async {
            same(
                (
                    viewers_of(&new, "42").await,
                    redis.viewers("42").await.len(),
                ),
                (12, 12),
            )
        });
        let moved = tokio::select! {
            moved = all => moved,
            () = figures => unreachable!("it looks until all have moved"),
        };
        dashboard.listen(Duration::from_millis(600)).await;
        for counts in dashboard
            .log
            .iter()
            .skip_while(|counts| !counts.are(viewers(12), fans(4)))
        {
            assert!(
                counts.are(viewers(12), fans(4)) && counts.number("peak_viewers") == 12,
                "{}",
                dashboard.seen()
            );
        }
        assert_eq!(
            listed(&new, "42", "").await,
            before,
            "a move changes neither who is there nor since when"
        );
        drop(moved);
    });
}

/// Nobody walks for a while after the death.
#[test]
fn figures_with_users_of_a_killed_gateway_are_not_exact() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        let other = World::beside(redis.clone(), |_| ()).await;
        doomed.open("42").await;
        doomed.crowd_follows("u", 3).await;
        let _there = doomed.crowd("u", 10, "42").await;
        let _here = other.viewer_in("u10", "42").await;
        let mut dashboard = other.dashboard("42").await;
        dashboard.sees(viewers(11), fans(3)).await;
        other
            .redis()
            .say("SET rollcall:sweeper stalled PX 8000")
            .await;
        doomed.process().kill();
        dashboard
            .sees_that("doubt", |c| c.json["quality"] == "partial")
            .await;
        let before = dashboard.log.len();
        dashboard
            .sees_that("one, and exact", |c| {
                c.are(viewers(1), fans(0)) && c.json["quality"] == "exact"
            })
            .await;
        let wrong = |c: &&Counts| c.json["quality"] == "exact" && !c.are(viewers(1), fans(0));
        assert_eq!(
            dashboard.log[before..].iter().filter(wrong).count(),
            0,
            "{}",
            dashboard.seen()
        );
    });
}

on_redis! {
    async fn viewers_are_back_soon_after_redis_lost_its_data(world) {
        world.open("42").await;
        world.crowd_follows("u", 3).await;
        let other = world.another_gateway().await;
        let _here = world.crowd("u", 5, "42").await;
        let _there = other.crowd("v", 5, "42").await;
        let _both = other.viewer_in("u0", "42").await;
        viewers_become(&world, "42", 10, PATIENCE).await;
        let before = listed(&world, "42", "").await;
        world.redis().ask(&["FLUSHALL"]).await;
        until("everybody is back", Duration::from_secs(5) + SLACK, || async {
            let there = world.redis().viewers("42").await;
            same((there.len(), viewers_of(&world, "42").await, viewers_of(&other, "42").await), (10, 10, 10))
        }).await;
        let after = listed(&world, "42", "").await;
        assert!(after.iter().all(|(user, (_, since))| *since == before[user].1), "{before:?} became {after:?}");
    }
}

on_redis! {
    async fn a_close_leaves_no_viewer_behind(world) {
        world.backend().open_sliced("42", "s1", 2).await;
        world.crowd_follows("u", 2).await;
        let mut crowd = world.crowd("u", 6, "42").await;
        viewers_become(&world, "42", 6, PATIENCE).await;
        assert_eq!(world.redis().keys("{online-fans:42_slice*}:viewers").await.len(), 2);
        world.backend().close("42").await;
        let fences = [1, 2].map(|k| format!("{{online-fans:42_slice{k}}}:fence"));
        let left: BTreeSet<String> = fences.into_iter().chain(["live:42".to_owned()]).collect();
        assert_eq!(world.keys_of("42").await, left);
        for viewer in &mut crowd {
            viewer.expect("closed").await;
        }
        assert_eq!(viewers_of(&world, "42").await, 0);
        world.open("42").await;
        crowd[0].join("42").await;
        viewers_become(&world, "42", 1, PATIENCE).await;
    }
}

on_both_stores! {
    async fn viewers_are_listed_page_by_page_with_the_time_since_when_they_are_there(world) {
        world.backend().open_sliced("42", "s1", 4).await;
        world.follow(&["u0", "u3"]).await;
        let began = unix_now();
        let mut crowd = world.crowd("u", 7, "42").await;
        becomes("all are in the store", 7, async || listed(&world, "42", "").await.len()).await;
        becomes("the fans are known", 2, async || listed(&world, "42", "&fan=true").await.len()).await;
        let (all, ended) = (listed(&world, "42", "").await, unix_now());
        assert!(all.values().all(|(_, since)| since.is_some_and(|at| (began..=ended).contains(&at))), "{all:?}");
        let of = |there: &BTreeMap<String, (bool, Option<u64>)>| there.keys().cloned().collect::<BTreeSet<_>>();
        assert_eq!(of(&listed(&world, "42", "&fan=true").await), names(&["u0", "u3"]));
        assert_eq!(of(&listed(&world, "42", "&fan=false").await), names(&["u1", "u2", "u4", "u5", "u6"]));
        // Another device changes nothing, nor does it when the first one goes.
        let _second = world.viewer_in("u0", "42").await;
        crowd.remove(0).close().await;
        world.sockets_become("u0", 1).await;
        assert_eq!(listed(&world, "42", "").await, all);
        // Who leaves and comes back is there since then.
        crowd[0].leave().await;
        becomes("one is gone", 6, async || listed(&world, "42", "").await.len()).await;
        crowd[0].join("42").await;
        becomes("all are back", 7, async || listed(&world, "42", "").await.len()).await;
        assert!(listed(&world, "42", "").await["u1"].1 > all["u1"].1);
        for bad in ["fan=maybe", "limit=0", "cursor=n~1~1~1~u1", "cursor=v~1~1~9~u1~2"] {
            world.backend().get(&format!("/v1/lives/42/viewers?{bad}")).await.is(400);
        }
        world.backend().get("/v1/lives/43/viewers").await.is(404);
        world.backend().close("42").await;
        assert!(listed(&world, "42", "").await.is_empty());
    }
}

on_redis! {
    async fn times_that_another_program_deleted_are_written_again(world) {
        world.open("42").await;
        let _crowd = world.crowd("u", 3, "42").await;
        viewers_become(&world, "42", 3, PATIENCE).await;
        let before = listed(&world, "42", "").await;
        world.redis().ask(&["DEL", "{online-fans:42}:who"]).await;
        until("the times are back", world.config.check_every * 2 + PATIENCE, || async {
            let times = world.redis().ask(&["HLEN", "{online-fans:42}:who"]).await;
            same(times.as_u64(), Some(3))
        }).await;
        assert_eq!(listed(&world, "42", "").await, before);
    }
}
