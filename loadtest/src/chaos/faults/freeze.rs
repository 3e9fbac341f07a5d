//! Freezes the process of a gateway for a while, as a live migration of its machine does.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::fault::{Fault, Mark};
use crate::chaos::findings::{Broken, Promise};
use crate::chaos::keys;
use crate::chaos::testbed::Testbed;
use simulation::expectation::Live;

/// After this time nothing in Redis names a gateway that the others had given up, because they
/// check every live once a minute.
const FORGOTTEN: Duration = Duration::from_secs(70);

/// SIGSTOP for longer than the lease, then SIGCONT. Lives may close meanwhile.
pub(super) struct Freeze {
    pub(super) victim: usize,
    pub(super) hold: Duration,
    /// The first closes, the second closes and opens again.
    pub(super) closes: Option<[Live; 2]>,
}

#[async_trait]
impl Fault for Freeze {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble(self.victim, true);
        testbed.gateways[self.victim].freeze()?;
        if let Some(lives) = self.closes {
            testbed.pass(self.hold / 4).await?;
            testbed.close_and_reopen(lives, self.victim).await?;
        }
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.expect_swept(self.victim).await;
        testbed.gateways[self.victim].thaw()?;
        testbed.state.well(self.victim);
        Ok(Mark::healed_from_now(testbed))
    }
}

/// A freeze for several leases, after which the gateway goes on under a new id.
pub(super) struct Long {
    freeze: Freeze,
    /// The id of the gateway before the freeze.
    id: String,
    thawed: Instant,
}

impl Long {
    pub(super) fn of(victim: usize, hold: Duration) -> Self {
        Self {
            freeze: Freeze {
                victim,
                hold,
                closes: None,
            },
            id: String::new(),
            thawed: Instant::now(),
        }
    }
}

#[async_trait]
impl Fault for Long {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        self.id = testbed
            .backend
            .gateway_id(testbed.state.endpoints[self.freeze.victim].target.address)
            .await?;
        self.freeze.begin(testbed).await
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        let mark = self.freeze.end(testbed).await?;
        self.thawed = mark.at;
        Ok(mark)
    }

    async fn after(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed
            .pass((self.thawed + FORGOTTEN).saturating_duration_since(Instant::now()))
            .await?;
        let named = keys::naming(&testbed.store, &self.id);
        if let Some(first) = named.first() {
            let count = named.len();
            let id = &self.id;
            let detail = format!(
                "{FORGOTTEN:?} after the thaw {count} keys still name {id}; one of them: {first}"
            );
            testbed
                .state
                .broke(Broken::new(Promise::NotForgotten, detail).gateway(self.freeze.victim));
        }
        Ok(())
    }
}
