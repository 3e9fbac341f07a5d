//! Faults of the link from a gateway to Redis.

use std::time::Duration;

use async_trait::async_trait;

use super::fault::{Fault, Mark};
use crate::chaos::testbed::Testbed;
use simulation::expectation::Live;

/// A gateway notices within this time that Redis is away: two pings in a row get no reply.
pub(super) const NOTICED: Duration = Duration::from_secs(4);
/// The dashboards of that gateway know of it within this time.
pub(super) const SAID: Duration = Duration::from_secs(6);

/// How a link fails.
#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    Cut,
    Stalled,
    Mute,
}

/// A link that lets nothing useful through until it heals.
pub(super) struct Broken {
    pub(super) victim: usize,
    pub(super) hold: Duration,
    pub(super) how: How,
}

#[async_trait]
impl Fault for Broken {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble(self.victim, false);
        let link = &testbed.links[self.victim];
        match self.how {
            How::Cut => link.cut(),
            How::Stalled => link.stall(),
            How::Mute => link.mute(),
        }
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        // Calls still pass a mute link, so the leases of its gateway may be alive.
        if self.hold > testbed.state.timing.killed() && !matches!(self.how, How::Mute) {
            testbed.expect_swept(self.victim).await;
        }
        if self.hold > SAID {
            testbed.expect_honest(self.victim);
        }
        testbed.links[self.victim].heal();
        testbed.state.well(self.victim);
        Ok(Mark::healed_from_now(testbed))
    }
}

/// All present connections are dead, and neither side hears of it.
pub(super) struct Stranded {
    pub(super) victim: usize,
}

#[async_trait]
impl Fault for Stranded {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble(self.victim, false);
        testbed.links[self.victim].strand();
        testbed.pass(NOTICED).await
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.state.well(self.victim);
        Ok(Mark::healed_from_now(testbed))
    }
}

/// A link that swallows the messages which its gateway publishes.
pub(super) struct Swallowing {
    pub(super) victim: usize,
}

#[async_trait]
impl Fault for Swallowing {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble(self.victim, false);
        testbed.links[self.victim].swallow_published();
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.links[self.victim].heal();
        testbed.state.well(self.victim);
        Ok(Mark::healed_from_now(testbed))
    }
}

/// A link that delays everything.
pub(super) struct Slow {
    pub(super) victim: usize,
    pub(super) delay: Duration,
}

#[async_trait]
impl Fault for Slow {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble(self.victim, false);
        testbed.links[self.victim].slow(self.delay);
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.links[self.victim].heal();
        testbed.state.well(self.victim);
        Ok(Mark::healed_from_now(testbed))
    }
}

/// Redis gets the calls of a gateway only long after a live has closed and opened again.
pub(super) struct LateApply {
    pub(super) victim: usize,
    pub(super) hold: Duration,
    /// The first closes, the second closes and opens again.
    pub(super) lives: [Live; 2],
}

#[async_trait]
impl Fault for LateApply {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble(self.victim, false);
        testbed.links[self.victim].stall();
        testbed.pass(self.hold).await?;
        testbed.close_and_reopen(self.lives, self.victim).await
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.links[self.victim].heal();
        testbed.state.well(self.victim);
        Ok(Mark::healed_from_now(testbed))
    }
}
