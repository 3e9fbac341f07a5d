//! Faults of lives while viewers are in them.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;

use super::fault::{Fault, Mark};
use crate::chaos::testbed::Testbed;
use simulation::expectation::Live;

/// Two lives close and open again, twice, each time with another number of slices.
pub(super) struct CloseReopen {
    pub(super) lives: [Live; 2],
    pub(super) chance: f64,
}

#[async_trait]
impl Fault for CloseReopen {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        for round in 0..2 {
            for live in self.lives {
                testbed.close(live, None).await?;
                testbed
                    .pass(Duration::from_millis((400.0 * self.chance) as u64))
                    .await?;
                let power = (live + round + (4.0 * self.chance) as usize) % 4;
                testbed.open(live, 1 << power, None).await?;
                testbed.pass(Duration::from_millis(500)).await?;
            }
        }
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        Ok(Mark::healed_from_now(testbed))
    }
}

/// A close while no gateway reaches Redis.
pub(super) struct CloseCut {
    pub(super) live: Live,
    pub(super) hold: Duration,
}

#[async_trait]
impl Fault for CloseCut {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble_for_all();
        testbed.links.iter().for_each(|link| link.cut());
        testbed.state.closing(self.live);
        let state = testbed.state.clone();
        let links = &testbed.links;
        let heals = async {
            sleep(self.hold).await;
            links.iter().for_each(|link| link.heal());
            state.all_well();
        };
        let at = testbed.up_but(None);
        let id = state.live_id(self.live);
        let (closed, ()) = tokio::join!(testbed.backend.close(&at, &id), heals);
        closed?;
        testbed.state.closed(self.live);
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        Ok(Mark::healed_from_now(testbed))
    }
}
