//! The fault of Redis that returns with older data: a backup, or a disk that lacks the last writes.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use async_trait::async_trait;
use tokio::time::Instant;

use super::cluster::LONE;
use super::fault::{Fault, Mark, wait_until};
use crate::chaos::store::{Store, cli};
use crate::chaos::support::redis_server::RedisServer;
use crate::chaos::testbed::Testbed;

/// Redis returns as it was before a gateway was replaced. In a cluster, one master does.
pub(super) struct Return {
    victim: usize,
    /// The snapshot that was there before, from which other faults let Redis start.
    former: Option<(PathBuf, Vec<u8>)>,
}

impl Return {
    pub(super) fn after_replacing(victim: usize) -> Self {
        Self {
            victim,
            former: None,
        }
    }
}

/// The server that returns.
fn server(store: &mut Store) -> &mut RedisServer {
    match store {
        Store::Single(server) => server,
        Store::Cluster(cluster) => &mut cluster.nodes[LONE],
    }
}

#[async_trait]
impl Fault for Return {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        let server = server(&mut testbed.store);
        let file = server.snapshot_file();
        self.former = Some((
            file.clone(),
            std::fs::read(&file).context("the first snapshot")?,
        ));
        let said = cli(server, &["SAVE"]);
        ensure!(said == "OK", "Redis said {said:?} to SAVE");
        testbed.drain(self.victim).await?;
        testbed.start(self.victim).await?;
        testbed.pass(testbed.state.timing.drain).await
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.state.loss_for_all();
        match &mut testbed.store {
            Store::Single(server) => server.restart_from_snapshot().await,
            Store::Cluster(cluster) => {
                cluster.nodes[LONE].kill();
                cluster.restart(LONE).await;
                let returned = &cluster.nodes[LONE];
                wait_until(
                    || cli(returned, &["CLUSTER", "INFO"]).contains("cluster_state:ok"),
                    "the cluster is not well",
                )
                .await?;
            }
        }
        let at = Instant::now();
        if let Some((file, former)) = self.former.take() {
            std::fs::write(file, former).context("the first snapshot")?;
        }
        // A user who was there when the snapshot was taken may be in the sets for longer than after
        // other faults.
        let timing = testbed.state.timing;
        testbed
            .pass(timing.returned().saturating_sub(timing.healed()))
            .await?;
        testbed.state.all_well();
        Ok(Mark {
            at,
            bound: timing.returned(),
        })
    }
}
