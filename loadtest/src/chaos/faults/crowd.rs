//! What a crowd can do all at once.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::{Fault, Mark};
use crate::chaos::hall::Cry;
use crate::chaos::scene::Scene;

/// A third vanishes.
pub(super) struct Vanish {
    chance: f64,
    at: Instant,
}

impl Vanish {
    pub(super) fn of(chance: f64) -> Self {
        Self { chance, at: Instant::now() }
    }
}

#[async_trait]
impl Fault for Vanish {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        self.at = Instant::now();
        let third = (self.chance * 3.0) as u32;
        // Some come back before anybody noticed, some after.
        let away = scene.hall.timing.timeout.mul_f64(0.3 + 1.4 * self.chance) + Duration::from_millis(100);
        let _ = scene.hall.cries.send(Cry::Vanish(third, away));
        Ok(())
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        Ok(Mark { at: self.at, bound: scene.hall.timing.vanished() })
    }
}

/// Every socket of a gateway is cut, and all come back at once.
pub(super) struct Storm {
    victim: usize,
    at: Instant,
}

impl Storm {
    pub(super) fn on(victim: usize) -> Self {
        Self { victim, at: Instant::now() }
    }
}

#[async_trait]
impl Fault for Storm {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        self.at = Instant::now();
        let _ = scene.hall.cries.send(Cry::Storm(self.victim));
        Ok(())
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        Ok(Mark { at: self.at, bound: scene.hall.timing.vanished() })
    }
}
