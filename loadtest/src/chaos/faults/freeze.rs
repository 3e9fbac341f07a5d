//! A gateway whose process is frozen for a while, as in a live migration of its machine.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::fault::{Fault, Mark};
use crate::chaos::expectation::Live;
use crate::chaos::findings::{Broken, Promise};
use crate::chaos::keys;
use crate::chaos::testbed::Testbed;

/// So long after a thaw nothing in Redis names the gateway that all had given up: every live is looked at once a
/// minute.
const FORGOTTEN: Duration = Duration::from_secs(70);

/// SIGSTOP for longer than the lease, then SIGCONT; perhaps with lives that close meanwhile.
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
        Ok(Mark { at: Instant::now(), bound: testbed.state.timing.healed() })
    }
}

/// The same for several leases, after which the gateway goes on under another name.
pub(super) struct Long {
    freeze: Freeze,
    /// How the gateway was called before.
    id: String,
    thawed: Instant,
}

impl Long {
    pub(super) fn of(victim: usize, hold: Duration) -> Self {
        Self { freeze: Freeze { victim, hold, closes: None }, id: String::new(), thawed: Instant::now() }
    }
}

#[async_trait]
impl Fault for Long {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        self.id = testbed.backend.gateway_id(testbed.state.endpoints[self.freeze.victim].target.address).await?;
        self.freeze.begin(testbed).await
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        let mark = self.freeze.end(testbed).await?;
        self.thawed = mark.at;
        Ok(mark)
    }

    async fn after(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.pass((self.thawed + FORGOTTEN).saturating_duration_since(Instant::now())).await?;
        let named = keys::naming(&testbed.store, &self.id);
        if let Some(first) = named.first() {
            let (count, id) = (named.len(), &self.id);
            let detail =
                format!("{FORGOTTEN:?} after the thaw {count} keys name {id}, who is no more; one of them: {first}");
            testbed.state.broke(Broken::new(Promise::NotForgotten, detail).gateway(self.freeze.victim));
        }
        Ok(())
    }
}
