//! A gateway whose messages do not arrive knows it, and says so in its lease, whatever the reason.
//! It and its peers check more often, and call no figure exact that only the missing messages could
//! have told them.

use std::time::Duration;

use rollcall::base::secret::Secret;
use rollcall::config::Config;

use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::wait::{PATIENCE, SLACK, becomes};
use crate::support::world::World;

/// The metric of gateways whose messages do not arrive.
const UNHEARD: &str = "rollcall_unheard_gateways";

/// How long a gateway's word to itself may be under way.
const GRACE: Duration = Duration::from_secs(1);

/// Nothing but missing messages makes a gateway check within a story.
fn checks_seldom(config: &mut Config) {
    config.check_every = Duration::from_secs(60);
}

/// The times from a change that nobody tells of until a peer shows it: a renewal until a word is
/// lost, the grace and a renewal until its gateway knows, and one until the peer reads that in the
/// lease; and then the wait for a check.
fn within(world: &World) -> Duration {
    world.config.lease_refresh * 3 + GRACE + world.config.lease_refresh * 2 + SLACK * 3
}

async fn unheard_become(world: &World, gateways: f64) {
    becomes("the gateways that are not heard", gateways, async || {
        world.metric(UNHEARD).await
    })
    .await;
}

/// A Redis user with these rules besides.
async fn restrict(redis: &Redis, rules: &[&str]) {
    let rule: Vec<&str> = ["ACL", "SETUSER", "quiet"]
        .iter()
        .chain(rules)
        .copied()
        .collect();
    redis.ask(&rule).await;
}

async fn beside_as_quiet(redis: &Redis) -> World {
    restrict(redis, &["on", ">secret", "~*", "&*", "+@all"]).await;
    let url = format!("redis://quiet:secret@{}", redis.addr());
    World::beside(redis.clone(), |config| {
        checks_seldom(config);
        config.redis = Some(Secret::new(url));
    })
    .await
}

/// The quiet gateway's people come, and everybody sees it; they leave, and everybody sees that.
async fn both_show_what_the_quiet_one_does(here: &World, quiet: &World) {
    let mut crowd = quiet.crowd("u", 7, "42").await;
    for world in [here, quiet] {
        world
            .figures_become_exact("42", (7, 6), within(world))
            .await;
    }
    // It lasts, so no later change may wait for longer.
    for left in (3..7).rev() {
        crowd.pop().expect("a viewer").close().await;
        here.figures_become_exact("42", (left, left.min(6)), within(here))
            .await;
    }
    for viewer in crowd {
        viewer.close().await;
    }
    for world in [here, quiet] {
        world
            .figures_become_exact("42", (0, 0), within(world))
            .await;
    }
}

/// Messages arrive again: everybody knows at once what the other gateway does.
async fn both_are_heard_again(here: &World, quiet: &World) {
    for world in [here, quiet] {
        unheard_become(world, 0.0).await;
    }
    let _viewer = quiet.viewer_in("u0", "42").await;
    here.figures_become_exact("42", (1, 1), SLACK).await;
}

async fn prepare(here: &World, quiet: &World) {
    here.open("42").await;
    here.crowd_follows("u", 6).await;
    // Both have a room.
    let _watcher = quiet.dashboard("42").await;
    let _viewer = here.viewer_in("u0", "42").await;
    quiet.figures_become_exact("42", (1, 1), PATIENCE).await;
}

#[test]
fn a_gateway_that_may_not_publish_is_known_to_be_silent() {
    story(async {
        let redis = Redis::start().await;
        let here = World::beside(redis.clone(), checks_seldom).await;
        let quiet = beside_as_quiet(&redis).await;
        prepare(&here, &quiet).await;
        restrict(&redis, &["-spublish"]).await;
        both_show_what_the_quiet_one_does(&here, &quiet).await;
        for world in [&here, &quiet] {
            unheard_become(world, 1.0).await;
        }
        restrict(&redis, &["+spublish"]).await;
        both_are_heard_again(&here, &quiet).await;
    });
}

#[test]
fn a_gateway_that_may_publish_on_some_channels_only_is_known_to_be_silent() {
    story(async {
        let redis = Redis::start().await;
        let here = World::beside(redis.clone(), checks_seldom).await;
        let quiet = beside_as_quiet(&redis).await;
        prepare(&here, &quiet).await;
        // It may say that it lives, and nothing of any live.
        restrict(
            &redis,
            &["resetchannels", "&rollcall:gateways", "&rollcall:echo:*"],
        )
        .await;
        both_show_what_the_quiet_one_does(&here, &quiet).await;
    });
}

#[test]
fn a_gateway_whose_messages_are_swallowed_is_known_to_be_silent() {
    story(async {
        let redis = Redis::start().await;
        let here = World::beside(redis.clone(), checks_seldom).await;
        let (quiet, link) = World::over_a_link(&redis, checks_seldom).await;
        prepare(&here, &quiet).await;
        link.swallow_published();
        both_show_what_the_quiet_one_does(&here, &quiet).await;
        for world in [&here, &quiet] {
            unheard_become(world, 1.0).await;
        }
        link.heal();
        both_are_heard_again(&here, &quiet).await;
    });
}

#[test]
fn a_gateway_that_no_message_reaches_says_so_although_it_is_subscribed() {
    story(async {
        let redis = Redis::start().await;
        let here = World::beside(redis.clone(), checks_seldom).await;
        let (deaf, link) = World::over_a_link(&redis, checks_seldom).await;
        prepare(&here, &deaf).await;
        link.swallow_delivered();
        // The other one speaks here.
        both_show_what_the_quiet_one_does(&deaf, &here).await;
        // Its own words do not come back to it either.
        for world in [&here, &deaf] {
            unheard_become(world, 1.0).await;
        }
        link.heal();
        both_are_heard_again(&deaf, &here).await;
    });
}

#[test]
fn a_gateway_that_may_not_publish_on_one_master_is_known_to_be_silent_there() {
    story(async {
        let cluster = RedisCluster::start(3, 0).await;
        let homes = |master: usize| {
            let mut names = (0..).map(|n| format!("live{n}"));
            names
                .find(|name| cluster.home(&format!("live:{name}")) == master)
                .expect("a live there")
        };
        let (there, elsewhere) = (homes(1), homes(2));
        let rule = |node: usize, rules: &[&str]| {
            let rule: Vec<&str> = ["ACL", "SETUSER", "quiet"]
                .iter()
                .chain(rules)
                .copied()
                .collect();
            assert_eq!(cluster.nodes[node].cli(&rule), "OK");
        };
        for node in 0..3 {
            rule(node, &["on", ">secret", "~*", "&*", "+@all"]);
        }
        let here = World::at_tuned(&cluster.url(), checks_seldom).await;
        let quiet = World::at_tuned(
            &cluster.url().replace("rollcall:secret", "quiet:secret"),
            checks_seldom,
        )
        .await;
        for live in [&there, &elsewhere] {
            here.open(live).await;
            let _viewer = quiet.viewer_in("w", live).await;
            here.figures_become_exact(live, (1, 0), PATIENCE).await;
        }
        rule(1, &["-spublish"]);
        let crowd = quiet.crowd("u", 3, &there).await;
        here.figures_become_exact(&there, (3, 0), within(&here))
            .await;
        unheard_become(&here, 1.0).await;
        // On the other masters all is as before.
        let _viewer = quiet.viewer_in("x", &elsewhere).await;
        here.figures_become_exact(&elsewhere, (1, 0), SLACK).await;
        for viewer in crowd {
            viewer.close().await;
        }
        here.figures_become_exact(&there, (0, 0), within(&here))
            .await;
        rule(1, &["+spublish"]);
        unheard_become(&here, 0.0).await;
        unheard_become(&quiet, 0.0).await;
        let _viewer = quiet.viewer_in("u1", &there).await;
        here.figures_become_exact(&there, (1, 0), SLACK).await;
    });
}

#[test]
fn the_log_says_what_redis_said() {
    story(async {
        let redis = Redis::start().await;
        let mut quiet =
            World::program_with(redis.clone(), |config| config.log = "info".to_owned()).await;
        quiet.open("42").await;
        redis.ask(&["ACL", "SETUSER", "default", "-spublish"]).await;
        quiet
            .process()
            .logs(&[
                "WARN",
                "redis does not publish this gateway's messages",
                "NOPERM",
            ])
            .await;
        quiet
            .process()
            .logs(&["WARN", "messages of gateways do not arrive"])
            .await;
        redis.ask(&["ACL", "SETUSER", "default", "+spublish"]).await;
        quiet
            .process()
            .logs(&["INFO", "messages of all gateways arrive again"])
            .await;
        let said = quiet.process().said();
        assert_eq!(
            said.matches("redis does not publish").count(),
            1,
            "once a minute: {said}"
        );
    });
}
