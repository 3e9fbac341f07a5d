//! Faults of the processes of gateways.

use std::time::Duration;

use anyhow::anyhow;
use simulation::expectation::Live;
use tokio::time::{Instant, sleep};

use super::fault::{Later, Mark};
use super::planned::Planned;
use crate::chaos::findings::{Broken, Promise};
use crate::chaos::keys;
use crate::chaos::run_state::CONNECT_WITHIN;
use crate::chaos::testbed::Testbed;
use crate::client::{self, Failure, WebSocket};

/// The live of a streamer who does not come back; no viewer of the crowd joins it.
const ORPHAN: &str = "orphan";

/// After this time nothing in Redis names a gateway that the others had given up, because they
/// check every live once a minute.
const FORGOTTEN: Duration = Duration::from_secs(70);

/// kill -9 of one gateway, which starts again.
pub(super) async fn kill(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    let at = Instant::now();
    testbed.kill(fault.victim).await?;
    testbed.pass(fault.hold).await?;
    testbed.start(fault.victim).await?;
    let bound = testbed.state.timing.killed();
    Ok(Mark { at, bound })
}

/// kill -9 of all gateways. One starts again at once, the others a little later. A streamer who
/// does not come back had opened a live over a socket; that live must close after the streamer
/// timeout.
pub(super) async fn kill_all(
    testbed: &mut Testbed,
    fault: &Planned,
) -> anyhow::Result<(Mark, Option<Later>)> {
    let streamer = Box::new(open_orphan(testbed, fault.victim).await?);
    let killed = Instant::now();
    for gateway in 0..testbed.gateways.len() {
        testbed.kill(gateway).await?;
    }
    testbed.pass(fault.hold).await?;
    testbed.start(fault.victim).await?;
    testbed.pass(Duration::from_secs(3)).await?;
    for gateway in (0..testbed.gateways.len()).filter(|gateway| *gateway != fault.victim) {
        testbed.start(gateway).await?;
    }
    let mark = Mark {
        at: killed,
        bound: testbed.state.timing.killed(),
    };
    Ok((mark, Some(Later::OrphanCloses { streamer, killed })))
}

pub(super) async fn check_orphan(
    testbed: &mut Testbed,
    _streamer: Box<WebSocket>,
    killed: Instant,
) -> anyhow::Result<()> {
    let timing = testbed.state.timing;
    let bound = timing.streamer_timeout + timing.lease + timing.told();
    while testbed.backend.state(&testbed.up_but(None), ORPHAN).await? != "closed" {
        if killed.elapsed() > bound {
            let detail = format!("still open {bound:?} after the streamer's gateway was killed");
            let broken = Broken::new(Promise::TooSlow, detail).live(ORPHAN.to_owned());
            testbed.state.broke(broken);
            return Ok(());
        }
        sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}

async fn open_orphan(testbed: &Testbed, gateway: usize) -> anyhow::Result<WebSocket> {
    let cannot = |failure: Failure| anyhow!("the streamer cannot open a live: {}", failure.kind);
    let target = &testbed.state.targets[gateway];
    let query = "user_id=orphan-s&role=streamer";
    let mut socket = client::connect(target, None, query, CONNECT_WITHIN)
        .await
        .map_err(cannot)?;
    let open = format!(r#"{{"type":"open","live_id":"{ORPHAN}"}}"#);
    client::send(&mut socket, open).await.map_err(cannot)?;
    client::until(&mut socket, "opened").await.map_err(cannot)?;
    Ok(socket)
}

/// SIGTERM of a gateway, which starts again when it has ended.
pub(super) async fn drain(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.drain(fault.victim).await?;
    let at = Instant::now();
    testbed.pass(fault.hold).await?;
    testbed.start(fault.victim).await?;
    let bound = testbed.state.timing.moved();
    Ok(Mark { at, bound })
}

/// SIGSTOP for longer than the lease, then SIGCONT, as a live migration of its machine does. Of two
/// lives the first closes meanwhile, and the second closes and opens again.
pub(super) async fn freeze(
    testbed: &mut Testbed,
    fault: &Planned,
    closes: Option<[Live; 2]>,
) -> anyhow::Result<Mark> {
    testbed.state.crowd.trouble(fault.victim, true);
    testbed.gateways[fault.victim].freeze()?;
    if let Some(lives) = closes {
        testbed.pass(fault.hold / 4).await?;
        testbed.close_and_reopen(lives, fault.victim).await?;
    }
    testbed.pass(fault.hold).await?;
    testbed.expect_swept(fault.victim).await;
    testbed.gateways[fault.victim].thaw()?;
    testbed.state.crowd.well(fault.victim);
    Ok(Mark::healed_from_now(testbed))
}

/// A freeze for several leases, after which the gateway goes on under a new id.
pub(super) async fn freeze_long(
    testbed: &mut Testbed,
    fault: &Planned,
) -> anyhow::Result<(Mark, Option<Later>)> {
    let gateway = fault.victim;
    let address = testbed.state.targets[gateway].address;
    let id = testbed.backend.gateway_id(address).await?;
    let mark = freeze(testbed, fault, None).await?;
    let since = mark.at;
    Ok((mark, Some(Later::IsForgotten { gateway, id, since })))
}

pub(super) async fn check_forgotten(
    testbed: &mut Testbed,
    gateway: usize,
    id: &str,
    since: Instant,
) -> anyhow::Result<()> {
    testbed
        .pass(FORGOTTEN.saturating_sub(since.elapsed()))
        .await?;
    let named = keys::naming(&testbed.store, id);
    if let Some(first) = named.first() {
        let count = named.len();
        let detail = format!(
            "{FORGOTTEN:?} after the thaw {count} keys still name {id}; one of them: {first}"
        );
        let broken = Broken::new(Promise::NotForgotten, detail);
        testbed.state.broke(broken.gateway(gateway));
    }
    Ok(())
}
