//! Two installations on one Redis, each with a prefix or a database of its own, have lives and users
//! of the same ids and see nothing of each other.

use std::collections::BTreeSet;
use std::time::Duration;

use rollcall::base::key_prefix::KeyPrefix;
use serde_json::{Value, json};

use super::audit::audit;
use crate::support::dashboard::{Counts, fans, viewers};
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::wait::{PATIENCE, same, throughout, until};
use crate::support::world::World;

/// The second begins with the first.
const PREFIXES: [&str; 2] = ["app:", "app:eu:"];

/// Two gateways of an installation.
async fn installation(redis: &Redis, prefix: &str) -> [World; 2] {
    let prefix = KeyPrefix::parse(prefix).unwrap();
    let first = World::beside(redis.clone(), |config| config.key_prefix = prefix).await;
    let second = first.another_gateway().await;
    [first, second]
}

/// The keys of the users online on the platform have numbers, which may be that of the live.
fn is_of_the_platform(key: &str) -> bool {
    key.contains("online-users_slice") || key.contains("last-seen:")
}

/// The live as a gateway's API shows it.
async fn shown(world: &World) -> Value {
    let live = world.backend().live("42").await;
    json!([
        live["state"],
        live["streamer_id"],
        live["viewers"],
        live["fans"]
    ])
}

#[test]
fn what_one_installation_does_leaves_the_other_alone() {
    story(async {
        let redis = Redis::start().await;
        let ours = Box::pin(installation(&redis, PREFIXES[0])).await;
        let theirs = Box::pin(installation(&redis, PREFIXES[1])).await;
        ours[0].backend().open("42", "s1").await;
        theirs[0].backend().open("42", "s2").await;
        for user in ["u0", "u1"] {
            ours[0].backend().follow(user, "s1").await;
        }
        theirs[0].backend().follow("u0", "s2").await;
        let mut here = [
            ours[0].viewer_in("u0", "42").await,
            ours[1].viewer_in("u1", "42").await,
        ];
        let mut there = [
            theirs[0].viewer_in("u0", "42").await,
            theirs[1].viewer_in("u9", "42").await,
        ];
        let third = theirs[1].viewer_in("u8", "42").await;
        let mut dashboards = [
            ours[1].dashboard("42").await,
            theirs[1].dashboard("42").await,
        ];
        dashboards[0].sees(viewers(2), fans(2)).await;
        dashboards[1].sees(viewers(3), fans(1)).await;
        third.close().await;
        dashboards[1].sees(viewers(2), fans(1)).await;

        // A removal and the close reach every gateway of the one, and no socket of the other.
        ours[1].backend().remove("42", "u0").await.is(200);
        here[0].expect_closed(4003).await;
        ours[1].backend().close("42").await;
        here[1].expect("closed").await;
        let wanted = json!(["open", "s2", 2, 1]);
        let span = theirs[0].config.check_every + theirs[0].sweep_bound();
        let is_as_it_was = || async {
            same(
                [shown(&theirs[0]).await, shown(&theirs[1]).await],
                [wanted.clone(), wanted.clone()],
            )
        };
        until(
            "both gateways know that the third left",
            PATIENCE,
            is_as_it_was,
        )
        .await;
        throughout("the other live stays as it is", span, is_as_it_was).await;
        for viewer in &mut there {
            viewer.heartbeat().await;
            viewer.hears_no("closed", Duration::ZERO).await;
        }

        let keys: BTreeSet<String> = redis.keys("*").await;
        assert!(keys.iter().all(|key| key.starts_with("app:")), "{keys:?}");
        let of_the_live = |key: &&String| key.contains("42") && !is_of_the_platform(key);
        let mut ours_left: Vec<&String> = keys
            .iter()
            .filter(of_the_live)
            .filter(|key| !key.starts_with("app:eu:"))
            .collect();
        // How its figures moved outlasts the close, if there was time to write anything.
        ours_left.retain(|key| !key.starts_with("app:{app:live:42}:history@"));
        assert_eq!(ours_left, ["app:live:42", "app:{app:online-fans:42}:fence"]);
        assert_eq!(
            redis.ask(&["SMEMBERS", "app:eu:online-fans:42"]).await,
            json!(["u0"])
        );
        for (prefix, lives) in PREFIXES.into_iter().zip([0, 1]) {
            let report = audit(&redis.url(), 0, &format!("--key-prefix {prefix}")).await;
            assert_eq!(report["lives"].as_array().unwrap().len(), lives, "{report}");
        }
        assert_eq!(audit(&redis.url(), 0, "").await["live_keys"], 0);
        for world in ours.into_iter().chain(theirs) {
            world.stop().await;
        }
    });
}

/// Redis passes messages to all its databases.
#[test]
fn installations_in_two_databases_of_a_redis_do_not_hear_each_other() {
    story(async {
        let redis = Redis::start().await;
        let staging = World::at(&format!("{}/0", redis.url())).await;
        let production = World::at(&format!("{}/1", redis.url())).await;
        let epoch = loop {
            let worlds = [staging.backend(), production.backend()];
            worlds[0].open("42", "s1").await;
            worlds[1].open("42", "s1").await;
            let epochs = [staging.epoch("42").await, production.epoch("42").await];
            if epochs[0] == epochs[1] {
                break epochs[0];
            }
            worlds[0].close("42").await;
            worlds[1].close("42").await;
        };
        let mut dashboards = [
            staging.dashboard("42").await,
            production.dashboard("42").await,
        ];
        let _there = staging.crowd("u", 5, "42").await;
        let _alone = production.viewer_in("u0", "42").await;
        for (dashboard, n) in dashboards.iter_mut().zip([5, 1]) {
            dashboard
                .sees_that("its own viewers", |counts| counts.number("viewers") == n)
                .await;
        }
        let span = staging.config.check_every + staging.config.lease;
        for (dashboard, n) in dashboards.iter_mut().zip([5, 1]) {
            dashboard.listen(span).await;
            let is_right = |counts: &Counts| {
                counts.number("viewers") <= n
                    && counts.json["quality"] == "exact"
                    && counts.number("epoch") == epoch
            };
            assert!(dashboard.log.iter().all(is_right), "{}", dashboard.seen());
        }
        for world in [staging, production] {
            world.stop().await;
        }
    });
}

#[test]
fn an_installation_on_a_cluster_touches_nothing_but_its_own_keys() {
    story(async {
        let cluster = RedisCluster::start(3, 0).await;
        cluster.allow_prefix("app:");
        let mut worlds = Vec::new();
        for _ in 0..2 {
            let prefix = KeyPrefix::parse("app:").unwrap();
            worlds.push(World::at_tuned(&cluster.url(), |config| config.key_prefix = prefix).await);
        }
        worlds[0].backend().open_sliced("42", "s1", 8).await;
        for n in 0..6 {
            worlds[0].backend().follow(&format!("u{n}"), "s1").await;
        }
        let mut dashboard = worlds[1].dashboard("42").await;
        let mut crowd = worlds[0].crowd("u", 3, "42").await;
        for n in 3..6 {
            crowd.push(worlds[1].viewer_in(&format!("u{n}"), "42").await);
        }
        dashboard.sees(viewers(6), fans(6)).await;
        let report = audit(&cluster.url(), 0, "--key-prefix app:").await;
        assert_eq!(report["lives"][0]["fans"], 6, "{report}");
        worlds[1].backend().close("42").await;
        crowd[0].expect("closed").await;
        until(
            "only the record and the fences are left",
            PATIENCE,
            || async {
                let keys: String = cluster
                    .nodes
                    .iter()
                    .map(|node| node.cli(&["KEYS", "*42*"]) + "\n")
                    .collect();
                let mut of_the_live = keys
                    .lines()
                    .filter(|key| !key.is_empty() && !is_of_the_platform(key));
                // How its figures moved outlasts the close, if there was time to write anything.
                let stays = |key: &str| {
                    key.ends_with(":fence") || key.starts_with("app:{app:live:42}:history@")
                };
                let other = of_the_live.find(|key| *key != "app:live:42" && !stays(key));
                other.map_or(Ok(()), |key| Err(key.to_owned()))
            },
        )
        .await;
        let refused: Vec<String> = cluster
            .nodes
            .iter()
            .map(|node| node.cli(&["ACL", "LOG"]))
            .collect();
        assert!(refused.iter().all(String::is_empty), "{refused:?}");
    });
}
