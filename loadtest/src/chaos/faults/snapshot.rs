//! The fault of Redis that returns with older data: a backup, or a disk that lacks the last writes.

use anyhow::{Context, ensure};
use tokio::time::Instant;

use super::cluster::{LONE, serves_again};
use super::fault::Mark;
use super::planned::Planned;
use crate::chaos::store::{ChaosStore, cli};
use crate::chaos::support::redis_server::RedisServer;
use crate::chaos::testbed::Testbed;

/// The server that returns.
fn server(store: &mut ChaosStore) -> &mut RedisServer {
    match store {
        ChaosStore::Single(server) => server,
        ChaosStore::Cluster(cluster) => &mut cluster.nodes[LONE],
    }
}

/// Redis returns as it was before a gateway was replaced. In a cluster, one master does.
pub(super) async fn return_after_replacing(
    testbed: &mut Testbed,
    fault: &Planned,
) -> anyhow::Result<Mark> {
    let server = server(&mut testbed.store);
    // Other faults let Redis start from the snapshot that was there before.
    let file = server.snapshot_file();
    let former = std::fs::read(&file).context("the first snapshot")?;
    let said = cli(server, &["SAVE"]);
    ensure!(said == "OK", "Redis said {said:?} to SAVE");
    testbed.drain(fault.victim).await?;
    testbed.start(fault.victim).await?;
    testbed.pass(testbed.state.timing.drain).await?;
    testbed.pass(fault.hold).await?;

    testbed.state.crowd.loss_for_all();
    match &mut testbed.store {
        ChaosStore::Single(server) => server.restart_from_snapshot().await,
        ChaosStore::Cluster(cluster) => {
            cluster.nodes[LONE].kill();
            cluster.restart(LONE).await;
            serves_again(&cluster.nodes[LONE]).await?;
        }
    }
    let at = Instant::now();
    std::fs::write(file, former).context("the first snapshot")?;
    // A user who was there when the snapshot was taken may be in the sets for longer than after
    // other faults.
    let timing = testbed.state.timing;
    testbed
        .pass(timing.returned().saturating_sub(timing.healed()))
        .await?;
    testbed.state.crowd.all_well();
    let bound = timing.returned();
    Ok(Mark { at, bound })
}
