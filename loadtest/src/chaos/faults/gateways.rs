//! Faults of the processes of gateways.

use std::time::Duration;

use anyhow::anyhow;
use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::fault::{Fault, Mark};
use crate::chaos::device::CONNECT_WITHIN;
use crate::chaos::findings::{Broken, Promise};
use crate::chaos::testbed::Testbed;
use crate::client::{self, Failure, Socket};

/// kill -9 of one gateway, which starts again.
pub(super) struct Kill {
    victim: usize,
    at: Instant,
}

impl Kill {
    pub(super) fn of(victim: usize) -> Self {
        Self {
            victim,
            at: Instant::now(),
        }
    }
}

#[async_trait]
impl Fault for Kill {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        self.at = Instant::now();
        testbed.kill(self.victim).await
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.start(self.victim).await?;
        Ok(Mark {
            at: self.at,
            bound: testbed.state.timing.killed(),
        })
    }
}

/// kill -9 of all gateways. One starts again at once, the others a little later. A streamer who
/// does not come back had opened a live over a socket; that live must close after the streamer
/// timeout.
pub(super) struct KillAll {
    first: usize,
    at: Instant,
    streamer: Option<Socket>,
}

/// The live of that streamer; no viewer of the crowd joins it.
const ORPHAN: &str = "orphan";

impl KillAll {
    pub(super) fn but(first: usize) -> Self {
        Self {
            first,
            at: Instant::now(),
            streamer: None,
        }
    }
}

#[async_trait]
impl Fault for KillAll {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        self.streamer = Some(open_orphan(testbed, self.first).await?);
        self.at = Instant::now();
        for gateway in 0..testbed.gateways.len() {
            testbed.kill(gateway).await?;
        }
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.start(self.first).await?;
        testbed.pass(Duration::from_secs(3)).await?;
        for gateway in (0..testbed.gateways.len()).filter(|gateway| *gateway != self.first) {
            testbed.start(gateway).await?;
        }
        Ok(Mark {
            at: self.at,
            bound: testbed.state.timing.killed(),
        })
    }

    async fn after(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        let timing = testbed.state.timing;
        let bound = timing.streamer_timeout + timing.lease + timing.told();
        while testbed.backend.state(&testbed.up_but(None), ORPHAN).await? != "closed" {
            if self.at.elapsed() > bound {
                let detail =
                    format!("still open {bound:?} after the streamer's gateway was killed");
                testbed
                    .state
                    .broke(Broken::new(Promise::TooSlow, detail).live(ORPHAN.to_owned()));
                return Ok(());
            }
            sleep(Duration::from_millis(250)).await;
        }
        Ok(())
    }
}

fn cannot_open(failure: &Failure) -> anyhow::Error {
    anyhow!("the streamer cannot open a live: {}", failure.kind)
}

async fn open_orphan(testbed: &Testbed, gateway: usize) -> anyhow::Result<Socket> {
    let target = &testbed.state.endpoints[gateway].target;
    let query = "user_id=orphan-s&role=streamer";
    let mut socket = client::connect(target, None, query, CONNECT_WITHIN)
        .await
        .map_err(|failure| cannot_open(&failure))?;
    let open = format!(r#"{{"type":"open","live_id":"{ORPHAN}"}}"#);
    client::send(&mut socket, open)
        .await
        .map_err(|failure| cannot_open(&failure))?;
    loop {
        let text = client::receive(&mut socket)
            .await
            .map_err(|failure| cannot_open(&failure))?;
        if client::parse(&text).is_ok_and(|message| message.kind == "opened") {
            return Ok(socket);
        }
    }
}

/// SIGTERM of a gateway, which starts again when it has ended.
pub(super) struct Drain {
    victim: usize,
    at: Instant,
}

impl Drain {
    pub(super) fn of(victim: usize) -> Self {
        Self {
            victim,
            at: Instant::now(),
        }
    }
}

#[async_trait]
impl Fault for Drain {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.drain(self.victim).await?;
        self.at = Instant::now();
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.start(self.victim).await?;
        Ok(Mark {
            at: self.at,
            bound: testbed.state.timing.moved(),
        })
    }
}
