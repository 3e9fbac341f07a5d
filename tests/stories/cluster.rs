//! A gateway on a Redis Cluster: a live spread over the masters, and what viewers see while one
//! master cannot be reached.

use rollcall::base::ids::UserId;

use crate::support::dashboard::{fans, viewers};
use crate::support::redis_cluster::RedisCluster;
use crate::support::stores::story;
use crate::support::wait::{PATIENCE, same, throughout, until};
use crate::support::world::World;

const SLICES: u32 = 8;

/// A live whose record is on this master.
fn live_on(cluster: &RedisCluster, master: usize, also: impl Fn(&str) -> bool) -> String {
    let mut names = (0..).map(|n| format!("live{n}"));
    names
        .find(|name| cluster.home(&format!("live:{name}")) == master && also(name))
        .unwrap()
}

/// A streamer whose followers are on this master.
fn streamer_on(cluster: &RedisCluster, master: usize) -> String {
    (0..)
        .map(|n| format!("s{n}"))
        .find(|name| cluster.home(&format!("followers:{name}")) == master)
        .unwrap()
}

/// A user who follows the streamer and whose slice of the live is on a master.
fn fan_on(cluster: &RedisCluster, master: usize, live: &str) -> String {
    let home = |name: &String| {
        let slice = UserId::parse(name).unwrap().slice_index(SLICES);
        cluster.home(&format!("online-fans:{live}_slice{slice}"))
    };
    (0..)
        .map(|n| format!("late{n}"))
        .find(|name| home(name) == master)
        .unwrap()
}

#[test]
fn with_a_master_away_the_figures_are_partial_and_the_rest_goes_on() {
    story(async {
        let cluster = RedisCluster::start(3, 0).await;
        let world = World::at(&cluster.url()).await;
        let (live, streamer) = (live_on(&cluster, 1, |_| true), streamer_on(&cluster, 2));
        let late = fan_on(&cluster, 1, &live);
        world.backend().open_sliced(&live, &streamer, SLICES).await;
        for n in 0..12 {
            world.backend().follow(&format!("u{n}"), &streamer).await;
        }
        world.backend().follow(&late, &streamer).await;
        let mut dashboard = world.dashboard(&live).await;
        let mut crowd = world.crowd("u", 12, &live).await;
        dashboard.sees(viewers(12), fans(12)).await;
        assert_eq!(dashboard.log.last().unwrap().json["quality"], "exact");

        cluster.nodes[0].freeze();
        dashboard.sees_quality("partial").await;
        let mut viewer = world.viewer(&late).await;
        viewer.join(&live).await;
        dashboard.sees(viewers(13), fans(13)).await;
        world.readyz_becomes(200).await;
        crowd.pop().unwrap().close().await;

        cluster.nodes[0].thaw();
        dashboard
            .sees_that("all of it, exactly", |seen| {
                seen.are(viewers(12), fans(12)) && seen.json["quality"] == "exact"
            })
            .await;
    });
}

/// Only the record cannot be reached. Gateways still renew their leases, and a viewer who leaves is
/// out of the set.
#[test]
fn a_slice_goes_on_while_the_record_of_its_live_cannot_be_reached() {
    story(async {
        let cluster = RedisCluster::start(3, 0).await;
        let slice = |live: &str| format!("online-fans:{live}");
        let live = live_on(&cluster, 0, |live| cluster.home(&slice(live)) == 1);
        let streamer = streamer_on(&cluster, 2);
        let (world, peer) = (
            World::at(&cluster.url()).await,
            World::at(&cluster.url()).await,
        );
        world.backend().open(&live, &streamer).await;
        for user in ["u0", "u1", "u2"] {
            world.backend().follow(user, &streamer).await;
        }
        let _crowd = world.crowd("u", 2, &live).await;
        let mut elsewhere = peer.viewer("u2").await;
        elsewhere.join(&live).await;
        let card = async |n: u32| {
            same(
                cluster.nodes[1].cli(&["SCARD", &slice(&live)]),
                n.to_string(),
            )
        };
        until("three are in the slice", PATIENCE, || card(3)).await;

        cluster.nodes[0].freeze();
        let span = world.sweep_bound();
        throughout("three stay in the slice", span, || card(3)).await;
        elsewhere.close().await;
        until("two are in the slice", PATIENCE, || card(2)).await;
        cluster.nodes[0].thaw();
        until("the live answers", PATIENCE, async || {
            let status = world
                .backend()
                .get(&format!("/v1/lives/{live}"))
                .await
                .status;
            same(status, 200)
        })
        .await;
        throughout(
            "two stay in the slice",
            world.config.lease_refresh * 2,
            || card(2),
        )
        .await;
    });
}
