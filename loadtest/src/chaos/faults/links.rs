//! What can happen on the way from a gateway to Redis.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Fault, Mark};
use crate::chaos::scene::Scene;
use crate::chaos::truth::Live;

/// A gateway notices within so long that Redis is away: two pings in a row without an answer.
pub(super) const NOTICED: Duration = Duration::from_secs(4);
/// And its dashboards have heard of it by then.
pub(super) const SAID: Duration = Duration::from_secs(6);

/// How a link fails.
#[derive(Debug, Clone, Copy)]
pub(super) enum How {
    Cut,
    Stalled,
    Mute,
}

/// A link that lets nothing useful through, and then is well again.
pub(super) struct Broken {
    pub(super) victim: usize,
    pub(super) hold: Duration,
    pub(super) how: How,
}

#[async_trait]
impl Fault for Broken {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        scene.hall.trouble(self.victim, false);
        let link = &scene.links[self.victim];
        match self.how {
            How::Cut => link.cut(),
            How::Stalled => link.stall(),
            How::Mute => link.mute(),
        }
        Ok(())
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        // Calls still arrive through a mute link: its leases may be alive.
        if self.hold > scene.hall.timing.killed() && !matches!(self.how, How::Mute) {
            scene.expect_swept(self.victim).await;
        }
        if self.hold > SAID {
            scene.expect_honest(self.victim);
        }
        scene.links[self.victim].heal();
        scene.hall.well(self.victim);
        Ok(Mark { at: Instant::now(), bound: scene.hall.timing.healed() })
    }
}

/// The connections of now are dead, and nobody is told.
pub(super) struct Stranded {
    pub(super) victim: usize,
}

#[async_trait]
impl Fault for Stranded {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        scene.hall.trouble(self.victim, false);
        scene.links[self.victim].strand();
        scene.pass(NOTICED).await
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        scene.hall.well(self.victim);
        Ok(Mark { at: Instant::now(), bound: scene.hall.timing.healed() })
    }
}

/// A link that takes its time.
pub(super) struct Slow {
    pub(super) victim: usize,
    pub(super) delay: Duration,
}

#[async_trait]
impl Fault for Slow {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        scene.hall.trouble(self.victim, false);
        scene.links[self.victim].slow(self.delay);
        Ok(())
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        scene.links[self.victim].heal();
        scene.hall.well(self.victim);
        Ok(Mark { at: Instant::now(), bound: scene.hall.timing.healed() })
    }
}

/// Calls that are carried out long after a close, and after the next opening.
pub(super) struct LateApply {
    pub(super) victim: usize,
    pub(super) hold: Duration,
    /// The first closes, the second closes and opens again.
    pub(super) lives: [Live; 2],
}

#[async_trait]
impl Fault for LateApply {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        scene.hall.trouble(self.victim, false);
        scene.links[self.victim].stall();
        scene.pass(self.hold).await?;
        scene.close_and_reopen(self.lives, self.victim).await
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        scene.links[self.victim].heal();
        scene.hall.well(self.victim);
        Ok(Mark { at: Instant::now(), bound: scene.hall.timing.healed() })
    }
}
