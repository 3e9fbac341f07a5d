//! Redis returns with older data, or with none. Gateways know better than Redis who is there, so no
//! figure that is too high or too low is called exact, all is right again soon, and a peak is what
//! it was, for good.

use std::time::Duration;

use rollcall::config::Config;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::audit::nothing_is_wrong;
use crate::support::redis_cluster::RedisCluster;
use crate::support::redis_sentinels::RedisSentinels;
use crate::support::redis_server::RedisServer;
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, becomes, fits, until};
use crate::support::witness::Witness;
use crate::support::world::World;

/// In a cluster of three masters its keys are on the master that has the leases, too.
const LIVE: &str = "8";
const FOLLOWERS: &[&str] = &["u0", "u1", "u2", "u3", "u4", "u5", "late0"];
/// All is right again within this time after the data is back.
const SETTLED: Duration = Duration::from_secs(30);
/// Where no connection breaks, a gateway cannot know of the loss for so long.
const UNNOTICED: Duration = Duration::from_millis(2_500);
/// Something wrong that comes late would come within this time.
const AFTERMATH: Duration = Duration::from_secs(6);

/// Ghosts of a gateway count until its lease is over, so a long one shows more.
fn tune(config: &mut Config) {
    config.lease = Duration::from_secs(6);
    config.lease_refresh = Duration::from_secs(1);
    config.check_every = Duration::from_secs(4);
}

/// Ten viewers on two gateways: `u0` to `u5` are fans, the others are not.
struct Ten {
    here: World,
    there: World,
    /// Who is on the first gateway.
    _stay: Vec<Viewer>,
    /// Who is on the second one.
    move_on: Vec<Viewer>,
}

impl Ten {
    async fn on(redis: &Redis) -> Self {
        let here = World::beside(redis.clone(), tune).await;
        let there = here.another_gateway().await;
        Self::between(here, there).await
    }

    async fn between(here: World, there: World) -> Self {
        here.open(LIVE).await;
        here.follow(FOLLOWERS).await;
        let mut stay = Vec::new();
        let mut move_on = Vec::new();
        for user in ["u0", "u1", "u2", "v0", "v1"] {
            stay.push(here.viewer_in(user, LIVE).await);
        }
        for user in ["u3", "u4", "u5", "v2", "v3"] {
            move_on.push(there.viewer_in(user, LIVE).await);
        }
        shows(&[&here, &there], 10, 6, PATIENCE).await;
        Self {
            here,
            there,
            _stay: stay,
            move_on,
        }
    }

    /// The second gateway stops, and a new one takes its place and its viewers.
    async fn replace_the_second_gateway(&mut self) {
        let redis = self.here.redis.clone().expect("a Redis of the story's own");
        let url = self.here.config.redis.clone();
        let new = World::beside(redis, |config| {
            tune(config);
            config.redis = url;
        })
        .await;
        self.move_to(new).await;
    }

    async fn move_to(&mut self, new: World) {
        let users: Vec<String> = self
            .move_on
            .iter()
            .map(|viewer| viewer.user.clone())
            .collect();
        // They leave before they come back, so that nobody ever counts twice.
        for viewer in self.move_on.drain(..) {
            viewer.close().await;
        }
        shows(&[&self.here], 5, 3, PATIENCE).await;
        std::mem::replace(&mut self.there, new).stop().await;
        for user in users {
            self.move_on.push(self.there.viewer_in(&user, LIVE).await);
        }
        shows(&[&self.here, &self.there], 10, 6, PATIENCE).await;
    }

    fn gateways(&self) -> [&World; 2] {
        [&self.here, &self.there]
    }

    /// The whole event: from its begin on nothing but the truth is called exact, at last everything
    /// is right, and the closed live has the true peak.
    async fn stays_honest(
        self,
        viewers: u64,
        fans: u64,
        noticed_after: Duration,
        event: impl AsyncFnOnce(),
    ) {
        let mut witnesses = Vec::new();
        for world in self.gateways() {
            witnesses.push(Witness::asks(world, LIVE));
            witnesses.push(Witness::watches(world, LIVE).await);
        }
        let began = Instant::now();
        event().await;
        let returned = Instant::now();
        shows(&self.gateways(), viewers, fans, SETTLED).await;
        let settled = returned.elapsed();
        sleep(AFTERMATH).await;
        shows(
            &self.gateways(),
            viewers,
            fans,
            SETTLED.saturating_sub(settled),
        )
        .await;
        let seen = |witness: &Witness| {
            witness.anything_else_called_exact(viewers, fans, began + noticed_after)
        };
        let mut wrong: Vec<String> = witnesses.iter().filter_map(seen).collect();
        drop(witnesses);
        if let Some(redis) = &self.here.redis {
            becomes("the fans", fans, async || redis.card(LIVE).await).await;
            nothing_is_wrong(&redis.url(), PATIENCE).await;
        }
        let closed = self.here.backend().close(LIVE).await;
        let peaks = json!([closed["peak_viewers"], closed["peak_fans"]]);
        if peaks != json!([viewers, fans]) {
            wrong.push(format!("the peaks of the closed live are {peaks}"));
        }
        assert!(
            wrong.is_empty(),
            "{viewers} viewers and {fans} fans were there:\n    {}",
            wrong.join("\n    ")
        );
    }
}

/// Waits until all of these gateways call these figures exact.
async fn shows(worlds: &[&World], viewers: u64, fans: u64, within: Duration) {
    let deadline = Instant::now() + within;
    for world in worlds {
        let left = deadline.saturating_duration_since(Instant::now());
        world
            .figures_become_exact(LIVE, (viewers, fans), left)
            .await;
    }
}

async fn killed_and_back_from_the_snapshot(redis: &Redis) {
    redis.kill().await;
    sleep(Duration::from_millis(500)).await;
    redis.restart_from_snapshot().await;
}

/// Copies every key into the second database, in one step.
async fn copy_all_to_another_database(redis: &Redis) {
    let copy = "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', 1, 'REPLACE') end";
    redis.ask(&["EVAL", copy, "0"]).await;
}

/// The platform owns the follow graph and restores it.
async fn write_the_follow_graph(redis: &Redis) {
    for user in FOLLOWERS {
        redis.ask(&["ZADD", "followers:s1", "1", user]).await;
    }
}

async fn swap_databases(redis: &Redis) {
    assert_eq!(redis.ask(&["SWAPDB", "0", "1"]).await, "OK");
}

/// As by a crash: no gateway stops in good order, and its peers bury it.
#[test]
fn a_snapshot_from_before_a_gateway_was_killed_and_buried() {
    story(async {
        let redis = Redis::start().await;
        let here = World::beside(redis.clone(), tune).await;
        let doomed = World::program_with(redis.clone(), tune).await;
        let mut ten = Ten::between(here, doomed).await;
        redis.save_snapshot().await;
        ten.there.process().kill();
        shows(&[&ten.here], 5, 3, SETTLED).await;
        let new = World::beside(redis.clone(), tune).await;
        let lost = std::mem::take(&mut ten.move_on);
        ten.there = new;
        for viewer in &lost {
            ten.move_on
                .push(ten.there.viewer_in(&viewer.user, LIVE).await);
        }
        shows(&ten.gateways(), 10, 6, PATIENCE).await;
        ten.stays_honest(10, 6, Duration::ZERO, async || {
            killed_and_back_from_the_snapshot(&redis).await
        })
        .await;
    });
}

#[test]
fn a_snapshot_from_before_two_more_came() {
    story(async {
        let redis = Redis::start().await;
        let ten = Ten::on(&redis).await;
        redis.save_snapshot().await;
        let _fan = ten.here.viewer_in("late0", LIVE).await;
        let _viewer = ten.there.viewer_in("w0", LIVE).await;
        shows(&ten.gateways(), 12, 7, PATIENCE).await;
        ten.stays_honest(12, 7, Duration::ZERO, async || {
            killed_and_back_from_the_snapshot(&redis).await
        })
        .await;
    });
}

/// All of it at once: a gateway replaced, two gone, and two others there.
#[test]
fn a_snapshot_from_before_a_gateway_was_replaced_and_others_came() {
    story(async {
        let redis = Redis::start().await;
        let mut ten = Ten::on(&redis).await;
        redis.save_snapshot().await;
        ten.replace_the_second_gateway().await;
        ten.move_on.pop().expect("a viewer").close().await;
        shows(&ten.gateways(), 9, 6, PATIENCE).await;
        let _viewer = ten.there.viewer_in("w0", LIVE).await;
        shows(&ten.gateways(), 10, 6, PATIENCE).await;
        ten.stays_honest(10, 6, Duration::ZERO, async || {
            killed_and_back_from_the_snapshot(&redis).await
        })
        .await;
    });
}

#[test]
fn a_database_with_older_data_in_the_place_of_this_one() {
    story(async {
        let redis = Redis::start().await;
        let mut ten = Ten::on(&redis).await;
        copy_all_to_another_database(&redis).await;
        ten.replace_the_second_gateway().await;
        ten.stays_honest(10, 6, UNNOTICED, async || swap_databases(&redis).await)
            .await;
    });
}

#[test]
fn a_database_from_before_two_more_came_in_the_place_of_this_one() {
    story(async {
        let redis = Redis::start().await;
        let ten = Ten::on(&redis).await;
        copy_all_to_another_database(&redis).await;
        let _fan = ten.here.viewer_in("late0", LIVE).await;
        let _viewer = ten.there.viewer_in("w0", LIVE).await;
        shows(&ten.gateways(), 12, 7, PATIENCE).await;
        ten.stays_honest(12, 7, UNNOTICED, async || swap_databases(&redis).await)
            .await;
    });
}

#[test]
fn nothing_at_all_after_flushall() {
    story(async {
        let redis = Redis::start().await;
        let mut ten = Ten::on(&redis).await;
        ten.replace_the_second_gateway().await;
        ten.stays_honest(10, 6, UNNOTICED, async || {
            redis.ask(&["FLUSHALL"]).await;
            write_the_follow_graph(&redis).await;
        })
        .await;
    });
}

#[test]
fn nothing_at_all_after_a_restart() {
    story(async {
        let redis = Redis::start().await;
        let mut ten = Ten::on(&redis).await;
        ten.replace_the_second_gateway().await;
        ten.stays_honest(10, 6, Duration::ZERO, async || {
            redis.restart_empty().await;
            write_the_follow_graph(&redis).await;
        })
        .await;
    });
}

/// Twice: the second return comes before everything of the first one is over.
#[test]
fn the_same_snapshot_twice() {
    story(async {
        let redis = Redis::start().await;
        let mut ten = Ten::on(&redis).await;
        redis.save_snapshot().await;
        ten.replace_the_second_gateway().await;
        ten.stays_honest(10, 6, Duration::ZERO, async || {
            killed_and_back_from_the_snapshot(&redis).await;
            sleep(Duration::from_secs(3)).await;
            killed_and_back_from_the_snapshot(&redis).await;
        })
        .await;
    });
}

/// The server behind the name of Redis is another one from now on, which has missed the last
/// writes.
#[test]
fn a_name_that_leads_to_a_replica_which_lacks_the_last_writes() {
    story(async {
        let redis = Redis::start().await;
        redis.say("CONFIG SET repl-diskless-sync-delay 0").await;
        let replica = RedisServer::start().await;
        let (here, link) = World::over_a_link(&redis, tune).await;
        let there = here.another_gateway().await;
        let mut ten = Ten::between(here, there).await;
        assert_eq!(
            replica.cli(&["REPLICAOF", "127.0.0.1", &redis.addr().port().to_string()]),
            "OK"
        );
        until("the replica is in step", PATIENCE, async || {
            fits(replica.cli(&["INFO", "replication"]), |said| {
                said.contains("master_link_status:up")
            })
        })
        .await;
        lose_the_master(&replica).await;
        ten.replace_the_second_gateway().await;
        // The story's own look into Redis would lead to the server that is gone.
        ten.here.redis = None;
        ten.there.redis = None;
        ten.stays_honest(10, 6, Duration::ZERO, async || {
            redis.kill().await;
            assert_eq!(replica.cli(&["REPLICAOF", "NO", "ONE"]), "OK");
            link.lead_to(replica.addr());
        })
        .await;
        nothing_is_wrong(&replica.url(), PATIENCE).await;
    });
}

/// A replica gets no more writes from its master, and still takes itself for its replica.
async fn lose_the_master(replica: &RedisServer) {
    let on_replica = |command: &[&str]| {
        let said = replica.cli(command);
        // A server with a password says so.
        if said.starts_with("NOAUTH") {
            replica.cli_as("secret", command)
        } else {
            said
        }
    };
    assert_eq!(on_replica(&["CONFIG", "SET", "masteruser", "nobody"]), "OK");
    assert_eq!(on_replica(&["CONFIG", "SET", "masterauth", "wrong"]), "OK");
    on_replica(&["CLIENT", "KILL", "TYPE", "master"]);
    until("the replica is without its master", PATIENCE, async || {
        fits(on_replica(&["INFO", "replication"]), |said| {
            said.contains("master_link_status:down")
        })
    })
    .await;
}

#[test]
fn a_failover_by_sentinels_to_a_replica_which_lacks_the_last_writes() {
    story(async {
        let mut redis = RedisSentinels::start().await;
        let here = World::at_tuned(&redis.url(), tune).await;
        let there = World::at_tuned(&redis.url(), tune).await;
        let mut ten = Ten::between(here, there).await;
        lose_the_master(&redis.servers[1]).await;
        // Without delay, for sentinels choose no replica that has been without its master for long.
        ten.move_to(World::at_tuned(&redis.url(), tune).await).await;
        ten.stays_honest(10, 6, Duration::ZERO, async || {
            redis.servers[0].kill();
            until("the replica is the master", SETTLED, async || {
                fits(redis.servers[1].cli_as("secret", &["ROLE"]), |role| {
                    role.starts_with("master")
                })
            })
            .await;
        })
        .await;
    });
}

/// The master dies that has the record of the live, who is there, and the leases of the gateways.
#[test]
fn a_failover_in_a_cluster_to_a_replica_which_lacks_the_last_writes() {
    story(async {
        let mut cluster = RedisCluster::start(3, 3).await;
        let master = cluster.home("rollcall:leases");
        for key in [
            format!("live:{LIVE}"),
            format!("online-fans:{LIVE}"),
            format!("{{online-fans:{LIVE}}}:viewers"),
        ] {
            assert_eq!(cluster.home(&key), master, "{key}");
        }
        let replica = 3 + master;
        let here = World::at_tuned(&cluster.long_url(), tune).await;
        let there = World::at_tuned(&cluster.long_url(), tune).await;
        let mut ten = Ten::between(here, there).await;
        lose_the_master(&cluster.nodes[replica]).await;
        ten.move_to(World::at_tuned(&cluster.long_url(), tune).await)
            .await;
        ten.stays_honest(10, 6, Duration::ZERO, async || {
            cluster.nodes[master].kill();
            until("the replica is the master", SETTLED, async || {
                fits(cluster.nodes[replica].cli(&["ROLE"]), |role| {
                    role.starts_with("master")
                })
            })
            .await;
        })
        .await;
    });
}
