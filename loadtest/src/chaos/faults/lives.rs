//! What can happen to lives while people are in them.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::{Fault, Mark};
use crate::chaos::scene::Scene;
use crate::chaos::truth::Live;

/// Two lives close and open again, twice, each time with another number of slices.
pub(super) struct CloseReopen {
    pub(super) lives: [Live; 2],
    pub(super) chance: f64,
}

#[async_trait]
impl Fault for CloseReopen {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        for round in 0..2 {
            for live in self.lives {
                scene.close(live, None).await?;
                scene.pass(Duration::from_millis((400.0 * self.chance) as u64)).await?;
                let power = (live + round + (4.0 * self.chance) as usize) % 4;
                scene.open(live, 1 << power, None).await?;
                scene.pass(Duration::from_millis(500)).await?;
            }
        }
        Ok(())
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        Ok(Mark { at: Instant::now(), bound: scene.hall.timing.healed() })
    }
}

/// A close that no gateway can carry out at first.
pub(super) struct CloseCut {
    pub(super) live: Live,
    pub(super) hold: Duration,
}

#[async_trait]
impl Fault for CloseCut {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        scene.hall.trouble_for_all();
        scene.links.iter().for_each(|link| link.cut());
        scene.hall.closing(self.live);
        let (hall, links) = (scene.hall.clone(), &scene.links);
        let heals = async {
            sleep(self.hold).await;
            links.iter().for_each(|link| link.heal());
            hall.all_well();
        };
        let (at, id) = (scene.up_but(None), hall.live_id(self.live));
        let (closed, ()) = tokio::join!(scene.backend.close(&at, &id), heals);
        closed?;
        scene.hall.closed(self.live);
        Ok(())
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        Ok(Mark { at: Instant::now(), bound: scene.hall.timing.healed() })
    }
}
