//! Faults of the link from a gateway to Redis.

use std::time::Duration;

use super::fault::Mark;
use super::planned::{ChaosFault, Planned};
use crate::chaos::testbed::Testbed;

/// A gateway notices within this time that Redis is away: two pings in a row get no reply.
const NOTICED: Duration = Duration::from_secs(4);
/// The dashboards of that gateway know of it within this time.
pub(super) const SAID: Duration = Duration::from_secs(6);

/// The link lets nothing useful through until it heals.
pub(super) async fn broken(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.trouble(fault.victim, false);
    let link = &testbed.links[fault.victim];
    match fault.kind {
        ChaosFault::LinkCut => link.cut(),
        ChaosFault::LinkStall => link.stall(),
        _ => link.mute(),
    }
    testbed.pass(fault.hold).await?;
    // Calls still pass a mute link, so the leases of its gateway may be alive.
    if fault.hold > testbed.state.timing.killed() && fault.kind != ChaosFault::LinkMute {
        testbed.expect_swept(fault.victim).await;
    }
    if fault.hold > SAID {
        testbed.expect_honest(fault.victim);
    }
    Ok(heal(testbed, fault))
}

/// All present connections are dead, and neither side hears of it.
pub(super) async fn stranded(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.trouble(fault.victim, false);
    testbed.links[fault.victim].strand();
    testbed.pass(NOTICED).await?;
    testbed.pass(fault.hold).await?;
    testbed.state.crowd.well(fault.victim);
    Ok(Mark::healed_from_now(testbed))
}

/// The link swallows the messages which its gateway publishes.
pub(super) async fn swallows(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.trouble(fault.victim, false);
    testbed.links[fault.victim].swallow_published();
    testbed.pass(fault.hold).await?;
    Ok(heal(testbed, fault))
}

/// The link delays everything.
pub(super) async fn slow(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    let delay = Duration::from_millis(50 + (250.0 * fault.chance) as u64);
    testbed.state.crowd.trouble(fault.victim, false);
    testbed.links[fault.victim].slow(delay);
    testbed.pass(fault.hold).await?;
    Ok(heal(testbed, fault))
}

/// Redis gets the calls of a gateway only long after a live has closed and opened again.
pub(super) async fn late_apply(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.trouble(fault.victim, false);
    testbed.links[fault.victim].stall();
    testbed.pass(fault.hold).await?;
    testbed.close_and_reopen(fault.lives, fault.victim).await?;
    testbed.pass(fault.hold).await?;
    Ok(heal(testbed, fault))
}

fn heal(testbed: &Testbed, fault: &Planned) -> Mark {
    testbed.links[fault.victim].heal();
    testbed.state.crowd.well(fault.victim);
    Mark::healed_from_now(testbed)
}
