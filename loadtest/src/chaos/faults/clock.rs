//! Redis's wall clock, which is set while everything goes on: nobody may notice.

use std::time::Duration;

use anyhow::ensure;
use async_trait::async_trait;
use tokio::time::Instant;

use super::{Fault, Mark};
use crate::chaos::scene::Scene;

/// Further than any lease.
const STEP_S: i64 = 60;

/// Ahead, back to the machine's time, behind it, and back.
pub(super) struct Step {
    /// Between two steps.
    pub(super) hold: Duration,
}

#[async_trait]
impl Fault for Step {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        ensure!(
            scene.store.single()?.has_clock(),
            "clock-step sets the clock of Redis with libfaketime, which is not installed (Debian: faketime)"
        );
        for ahead in [STEP_S, 0] {
            scene.store.single()?.set_clock(ahead).await;
            scene.pass(self.hold).await?;
        }
        scene.store.single()?.set_clock(-STEP_S).await;
        Ok(())
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        scene.store.single()?.set_clock(0).await;
        Ok(Mark { at: Instant::now(), bound: scene.hall.timing.healed() })
    }
}
