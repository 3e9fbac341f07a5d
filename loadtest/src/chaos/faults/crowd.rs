//! Faults of the crowd, of whom many vanish or lose their sockets at once, and of the lives while
//! they are there.

use std::time::Duration;

use simulation::crowd::CrowdEvent;
use tokio::time::{Instant, sleep};

use super::fault::Mark;
use super::planned::Planned;
use crate::chaos::testbed::Testbed;

/// A third of the crowd vanishes.
pub(super) async fn vanish(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    let third = (fault.chance * 3.0) as u32;
    // Some times away are shorter than the timeout, so that a gateway does not notice, and some
    // are longer.
    let timeout = testbed.state.timing.timeout;
    let away = timeout.mul_f64(0.3 + 1.4 * fault.chance) + Duration::from_millis(100);
    happens(testbed, fault, CrowdEvent::Vanish(third, away)).await
}

/// Every socket of a gateway is cut, and its viewers come back at once.
pub(super) async fn storm(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    happens(testbed, fault, CrowdEvent::Storm(fault.victim)).await
}

async fn happens(
    testbed: &mut Testbed,
    fault: &Planned,
    event: CrowdEvent,
) -> anyhow::Result<Mark> {
    let at = Instant::now();
    // Without a crowd nobody reacts.
    let _ = testbed.state.crowd.events.send(event);
    testbed.pass(fault.hold).await?;
    let bound = testbed.state.timing.vanished();
    Ok(Mark { at, bound })
}

/// Two lives close and open again, twice, each time with another number of slices.
pub(super) async fn close_and_reopen(
    testbed: &mut Testbed,
    fault: &Planned,
) -> anyhow::Result<Mark> {
    for round in 0..2 {
        for live in fault.lives {
            testbed.close(live, None).await?;
            let closed = Duration::from_millis((400.0 * fault.chance) as u64);
            testbed.pass(closed).await?;
            let power = (live + round + (4.0 * fault.chance) as usize) % 4;
            testbed.open(live, 1 << power, None).await?;
            testbed.pass(Duration::from_millis(500)).await?;
        }
    }
    testbed.pass(fault.hold).await?;
    Ok(Mark::healed_from_now(testbed))
}

/// A live closes while no gateway reaches Redis.
pub(super) async fn close_cut_off(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    let live = fault.lives[0];
    let state = testbed.state.clone();
    state.crowd.trouble_for_all();
    testbed.links.iter().for_each(|link| link.cut());
    state.closing(live);
    let heals = async {
        sleep(fault.hold).await;
        testbed.links.iter().for_each(|link| link.heal());
        state.crowd.all_well();
    };
    let at = testbed.up_but(None);
    let id = state.live_id(live);
    let (closed, ()) = tokio::join!(testbed.backend.close(&at, &id), heals);
    closed?;
    state.closed(live);
    testbed.pass(fault.hold).await?;
    Ok(Mark::healed_from_now(testbed))
}
