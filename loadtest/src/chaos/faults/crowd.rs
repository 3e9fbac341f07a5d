//! Faults of the crowd: many viewers vanish, or lose their sockets, at once.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::fault::{Fault, Mark};
use crate::chaos::run_state::CrowdEvent;
use crate::chaos::testbed::Testbed;

/// A third of the crowd vanishes.
pub(super) struct Vanish {
    chance: f64,
    at: Instant,
}

impl Vanish {
    pub(super) fn of(chance: f64) -> Self {
        Self {
            chance,
            at: Instant::now(),
        }
    }
}

#[async_trait]
impl Fault for Vanish {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        self.at = Instant::now();
        let third = (self.chance * 3.0) as u32;
        // Some times away are shorter than the timeout, so that a gateway does not notice, and some
        // are longer.
        let away = testbed
            .state
            .timing
            .timeout
            .mul_f64(0.3 + 1.4 * self.chance)
            + Duration::from_millis(100);
        let _ = testbed
            .state
            .crowd_events
            .send(CrowdEvent::Vanish(third, away));
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        Ok(Mark {
            at: self.at,
            bound: testbed.state.timing.vanished(),
        })
    }
}

/// Every socket of a gateway is cut, and its viewers come back at once.
pub(super) struct Storm {
    victim: usize,
    at: Instant,
}

impl Storm {
    pub(super) fn on(victim: usize) -> Self {
        Self {
            victim,
            at: Instant::now(),
        }
    }
}

#[async_trait]
impl Fault for Storm {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        self.at = Instant::now();
        let _ = testbed
            .state
            .crowd_events
            .send(CrowdEvent::Storm(self.victim));
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        Ok(Mark {
            at: self.at,
            bound: testbed.state.timing.vanished(),
        })
    }
}
