//! Faults of the masters of a cluster, and of its slots.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, sleep};

use super::fault::{LOOK, Mark, wait_until};
use super::planned::Planned;
use crate::chaos::keys::slice_keys;
use crate::chaos::store::cli;
use crate::chaos::support::redis_server::RedisServer;
use crate::chaos::testbed::Testbed;

/// The nodes that are masters, each with the number of its replicas.
fn masters(testbed: &mut Testbed) -> anyhow::Result<Vec<(usize, usize)>> {
    let nodes = &testbed.store.cluster()?.nodes;
    let mut masters = Vec::new();
    for (n, node) in nodes.iter().enumerate() {
        let said = cli(node, &["ROLE"]);
        let mut lines = said.lines();
        // "master", its offset, then three lines a replica.
        if lines.next() == Some("master") {
            let about_replicas = lines.skip(1).filter(|line| !line.trim().is_empty());
            masters.push((n, about_replicas.count() / 3));
        }
    }
    Ok(masters)
}

/// The node of the master without a replica: it starts third and is never a replica.
pub(super) const LONE: usize = 2;

/// kill -9 of a master. Its replica takes over and lacks the writes that had not reached it.
pub(super) async fn kill_master(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    let all = masters(testbed)?;
    let with_replica: Vec<usize> = all
        .iter()
        .filter(|(_, replicas)| *replicas > 0)
        .map(|(n, _)| *n)
        .collect();
    let at = (fault.chance * with_replica.len() as f64) as usize;
    let victim = *with_replica.get(at).context("no master has a replica")?;
    testbed.state.crowd.loss_for_all();
    let cluster = testbed.store.cluster()?;
    cluster.nodes[victim].kill();
    let is_promoted = || {
        let alive = cluster
            .nodes
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != victim);
        let masters = alive.filter(|(_, node)| cli(node, &["ROLE"]).starts_with("master"));
        masters.count() == all.len()
    };
    wait_until(is_promoted, "no replica took over").await?;
    let at = Instant::now();
    testbed.state.crowd.all_well();
    testbed.pass(fault.hold).await?;
    testbed.store.cluster()?.restart(victim).await;
    let bound = testbed.state.timing.rebuilt();
    Ok(Mark { at, bound })
}

/// The master without a replica stands still for a while.
pub(super) async fn freeze_lone(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.trouble_for_all();
    testbed.store.cluster()?.nodes[LONE].freeze();
    testbed.pass(fault.hold).await?;
    testbed.store.cluster()?.nodes[LONE].thaw();
    serves_again(&testbed.store.cluster()?.nodes[LONE]).await?;
    testbed.state.crowd.all_well();
    Ok(Mark::healed_from_now(testbed))
}

/// The master without a replica is killed, and starts again after a while.
pub(super) async fn lose_lone(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.loss_for_all();
    testbed.store.cluster()?.nodes[LONE].kill();
    testbed.pass(fault.hold).await?;
    testbed.store.cluster()?.restart(LONE).await;
    serves_again(&testbed.store.cluster()?.nodes[LONE]).await?;
    testbed.state.crowd.all_well();
    Ok(Mark::rebuilt_from_now(testbed))
}

/// A node serves its slots again as soon as the other nodes have seen it.
pub(super) async fn serves_again(node: &RedisServer) -> anyhow::Result<()> {
    let is_well = || cli(node, &["CLUSTER", "INFO"]).contains("cluster_state:ok");
    wait_until(is_well, "the cluster is not well").await
}

/// Moves the slot of a live's first slice to another master, key by key, while the live goes on.
pub(super) async fn move_slot(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    let live = fault.lives[0];
    let slices = testbed.state.truth().lives[live].slices;
    let key = slice_keys(&testbed.state.live_id(live), slices).swap_remove(0);
    let masters: Vec<usize> = masters(testbed)?.into_iter().map(|(n, _)| n).collect();
    let cluster = testbed.store.cluster()?;
    let slot = cluster.slot(&key);
    let probe = format!("{{{key}}}:nothing");
    let serves = |n: &usize| !cli(&cluster.nodes[*n], &["GET", &probe]).contains("MOVED");
    let from = masters
        .iter()
        .copied()
        .find(serves)
        .context("no master serves the slot")?;
    let others: Vec<usize> = masters.into_iter().filter(|n| *n != from).collect();
    let to = others[(fault.chance * others.len() as f64) as usize];
    testbed.state.crowd.trouble_for_all();
    let cluster = testbed.store.cluster()?;
    cluster.begin_move(slot, from, to);
    while cluster.move_a_key(slot, from, to) {
        sleep(LOOK).await;
    }
    cluster.end_move(slot, to);
    testbed.state.crowd.all_well();
    testbed.pass(fault.hold).await?;
    Ok(Mark {
        at: Instant::now(),
        bound: Duration::from_secs(5).max(testbed.state.timing.refresh),
    })
}
