//! What can happen to a gateway's process.

use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use futures_util::{SinkExt, StreamExt};
use tokio::time::{Instant, sleep};
use tokio_tungstenite::tungstenite::Message;

use super::{Fault, Mark};
use crate::chaos::device::{Said, Socket, connect};
use crate::chaos::findings::{Broken, Promise};
use crate::chaos::scene::{GATEWAYS, Scene};
use crate::chaos::truth::How;

/// kill -9 of one, which comes back.
pub(super) struct Kill {
    victim: usize,
    at: Instant,
}

impl Kill {
    pub(super) fn of(victim: usize) -> Self {
        Self { victim, at: Instant::now() }
    }
}

#[async_trait]
impl Fault for Kill {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        self.at = Instant::now();
        scene.kill(self.victim).await
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        scene.start(self.victim).await?;
        Ok(Mark { at: self.at, bound: scene.hall.timing.killed() })
    }
}

/// kill -9 of all; one comes back at once, the others a little later. A live was opened over the socket of a streamer
/// who does not come back: it closes when its timeout says so.
pub(super) struct KillAll {
    first: usize,
    at: Instant,
    streamer: Option<Socket>,
}

/// Not one of the crowd's.
const ORPHAN: &str = "orphan";

impl KillAll {
    pub(super) fn but(first: usize) -> Self {
        Self { first, at: Instant::now(), streamer: None }
    }
}

#[async_trait]
impl Fault for KillAll {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        self.streamer = Some(open_orphan(scene, self.first).await?);
        self.at = Instant::now();
        for gateway in 0..GATEWAYS {
            scene.kill(gateway).await?;
        }
        Ok(())
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        scene.start(self.first).await?;
        scene.pass(Duration::from_secs(3)).await?;
        for gateway in (0..GATEWAYS).filter(|gateway| *gateway != self.first) {
            scene.start(gateway).await?;
        }
        Ok(Mark { at: self.at, bound: scene.hall.timing.killed() })
    }

    async fn after(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        let timing = scene.hall.timing;
        let bound = timing.streamer_timeout + timing.lease + timing.told();
        while scene.backend.state(&scene.up_but(None), ORPHAN).await? != "closed" {
            if self.at.elapsed() > bound {
                let detail = format!("still open {bound:?} after the streamer's gateway was killed");
                scene.hall.broke(Broken::new(Promise::TooSlow, detail).live(ORPHAN.to_owned()));
                return Ok(());
            }
            sleep(Duration::from_millis(250)).await;
        }
        Ok(())
    }
}

async fn open_orphan(scene: &Scene, gateway: usize) -> anyhow::Result<Socket> {
    let socket = connect(&scene.hall, gateway, "user_id=orphan-s&role=streamer").await;
    let mut socket = socket.ok().context("the streamer of a live cannot connect")?;
    socket.send(Message::text(format!(r#"{{"type":"open","live_id":"{ORPHAN}"}}"#))).await?;
    while let Some(frame) = socket.next().await {
        if let Message::Text(text) = frame?
            && serde_json::from_str::<Said<'_>>(&text)?.kind == "opened"
        {
            return Ok(socket);
        }
    }
    anyhow::bail!("a live is not opened")
}

/// SIGTERM, and a new start when it has ended.
pub(super) struct Drain {
    victim: usize,
    at: Instant,
}

impl Drain {
    pub(super) fn of(victim: usize) -> Self {
        Self { victim, at: Instant::now() }
    }
}

#[async_trait]
impl Fault for Drain {
    async fn begin(&mut self, scene: &mut Scene) -> anyhow::Result<()> {
        scene.hall.gateway_leaves(self.victim);
        let within = scene.hall.timing.drain + Duration::from_secs(10);
        scene.gateways[self.victim].drain(within).await?;
        self.at = Instant::now();
        scene.hall.gateway_ended(self.victim, How::Moved);
        Ok(())
    }

    async fn end(&mut self, scene: &mut Scene) -> anyhow::Result<Mark> {
        scene.start(self.victim).await?;
        Ok(Mark { at: self.at, bound: scene.hall.timing.moved() })
    }
}
