//! Faults of the masters of a cluster, and of its slots.

use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::fault::{Fault, LOOK, Mark, wait_until};
use crate::chaos::keys::slice_keys;
use crate::chaos::store::cli;
use crate::chaos::testbed::Testbed;
use simulation::expectation::Live;

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

/// kill -9 of a master. Its replica takes over and lacks the writes that had not reached it.
pub(super) struct MasterKill {
    chance: f64,
    dead: Option<usize>,
    promoted: Instant,
}

impl MasterKill {
    pub(super) fn new(chance: f64) -> Self {
        Self {
            chance,
            dead: None,
            promoted: Instant::now(),
        }
    }
}

#[async_trait]
impl Fault for MasterKill {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        let all = masters(testbed)?;
        let with_replica: Vec<usize> = all
            .iter()
            .filter(|(_, replicas)| *replicas > 0)
            .map(|(n, _)| *n)
            .collect();
        let at = (self.chance * with_replica.len() as f64) as usize;
        let victim = *with_replica.get(at).context("no master has a replica")?;
        testbed.state.loss_for_all();
        let cluster = testbed.store.cluster()?;
        cluster.nodes[victim].kill();
        self.dead = Some(victim);
        let cluster = testbed.store.cluster()?;
        let promoted = || {
            let alive = cluster
                .nodes
                .iter()
                .enumerate()
                .filter(|(n, _)| *n != victim);
            alive
                .filter(|(_, node)| cli(node, &["ROLE"]).starts_with("master"))
                .count()
                == all.len()
        };
        wait_until(promoted, "no replica took over").await?;
        self.promoted = Instant::now();
        testbed.state.all_well();
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        if let Some(dead) = self.dead {
            testbed.store.cluster()?.restart(dead).await;
        }
        Ok(Mark {
            at: self.promoted,
            bound: testbed.state.timing.rebuilt(),
        })
    }
}

/// How a master goes away.
#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    Frozen,
    Killed,
}

/// The master without a replica is away for a while.
pub(super) struct Lone {
    pub(super) how: How,
}

/// The node of that master: it starts third and is never a replica.
pub(super) const LONE: usize = 2;

#[async_trait]
impl Fault for Lone {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        match self.how {
            How::Frozen => testbed.state.trouble_for_all(),
            How::Killed => testbed.state.loss_for_all(),
        }
        let lone = &mut testbed.store.cluster()?.nodes[LONE];
        match self.how {
            How::Frozen => lone.freeze(),
            How::Killed => lone.kill(),
        }
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        let cluster = testbed.store.cluster()?;
        match self.how {
            How::Frozen => cluster.nodes[LONE].thaw(),
            How::Killed => cluster.restart(LONE).await,
        }
        // It serves its slots again as soon as the other nodes have seen it.
        let lone = &testbed.store.cluster()?.nodes[LONE];
        wait_until(
            || cli(lone, &["CLUSTER", "INFO"]).contains("cluster_state:ok"),
            "the cluster is not well",
        )
        .await?;
        testbed.state.all_well();
        Ok(match self.how {
            How::Frozen => Mark::healed_from_now(testbed),
            How::Killed => Mark::rebuilt_from_now(testbed),
        })
    }
}

/// Moves the slot of a live's first slice to another master, key by key, while the live goes on.
pub(super) struct SlotMove {
    pub(super) live: Live,
    pub(super) chance: f64,
}

#[async_trait]
impl Fault for SlotMove {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        let slices = testbed.state.truth().lives[self.live].slices;
        let id = testbed.state.live_id(self.live);
        let key = slice_keys(&id, slices).swap_remove(0);
        let masters: Vec<usize> = masters(testbed)?.into_iter().map(|(n, _)| n).collect();
        let cluster = testbed.store.cluster()?;
        let slot = cluster.slot(&key);
        let from = masters
            .iter()
            .copied()
            .find(|n| {
                let said = cli(&cluster.nodes[*n], &["GET", &format!("{{{key}}}:nothing")]);
                !said.contains("MOVED")
            })
            .context("no master serves the slot")?;
        let others: Vec<usize> = masters.into_iter().filter(|n| *n != from).collect();
        let to = others[(self.chance * others.len() as f64) as usize];
        testbed.state.trouble_for_all();
        let cluster = testbed.store.cluster()?;
        cluster.begin_move(slot, from, to);
        while cluster.move_a_key(slot, from, to) {
            sleep(LOOK).await;
        }
        cluster.end_move(slot, to);
        testbed.state.all_well();
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        Ok(Mark {
            at: Instant::now(),
            bound: Duration::from_secs(5).max(testbed.state.timing.refresh),
        })
    }
}
