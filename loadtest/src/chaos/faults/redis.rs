//! What can happen to Redis.

use std::time::Duration;

use anyhow::bail;
use async_trait::async_trait;
use tokio::time::Instant;

use super::fault::{Fault, Mark};
use super::links::SAID;
use crate::chaos::store::cli;
use crate::chaos::testbed::{GATEWAYS, Testbed};

/// All is well, and whole within a refresh and a second.
fn well(testbed: &Testbed) -> Mark {
    testbed.state.all_well();
    Mark { at: Instant::now(), bound: testbed.state.timing.healed() }
}

fn expect_ok(said: &[String]) -> anyhow::Result<()> {
    match said.iter().find(|said| said.as_str() != "OK") {
        Some(refusal) => bail!("Redis said {refusal:?}"),
        None => Ok(()),
    }
}

/// SIGSTOP, SIGCONT.
pub(super) struct Frozen {
    pub(super) hold: Duration,
}

#[async_trait]
impl Fault for Frozen {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble_for_all();
        testbed.store.single()?.freeze();
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        if self.hold > SAID {
            (0..GATEWAYS).for_each(|gateway| testbed.expect_honest(gateway));
        }
        testbed.store.single()?.thaw();
        Ok(well(testbed))
    }
}

/// kill -9; it comes back with an old backup, in which there is nothing of the gateways.
pub(super) struct Killed;

#[async_trait]
impl Fault for Killed {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble_for_all();
        testbed.store.single()?.kill();
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.store.single()?.restart_empty().await;
        Ok(well(testbed))
    }
}

/// In one step, so that no gateway asks for followers in between: those are the platform's to lose.
const FLUSH: &str = "local kept = {} \
    for _, key in ipairs(redis.call('KEYS', 'follow*')) do kept[key] = redis.call('DUMP', key) end \
    redis.call('FLUSHALL') \
    for key, value in pairs(kept) do redis.call('RESTORE', key, 0, value) end \
    return redis.status_reply('OK')";

/// FLUSHALL.
pub(super) struct Flushed;

#[async_trait]
impl Fault for Flushed {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble_for_all();
        expect_ok(&[cli(testbed.store.single()?, &["EVAL", FLUSH, "0"])])
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        Ok(well(testbed))
    }
}

/// Connections of one type are closed by the server.
pub(super) struct ClientsKilled(pub(super) &'static str);

#[async_trait]
impl Fault for ClientsKilled {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble_for_all();
        let killed = testbed.store.on_masters(&["CLIENT", "KILL", "TYPE", self.0]);
        match killed.iter().any(|killed| killed != "0") {
            true => Ok(()),
            false => bail!("there were no {} connections to kill", self.0),
        }
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        Ok(well(testbed))
    }
}

/// No memory for any write.
pub(super) struct Full;

#[async_trait]
impl Fault for Full {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble_for_all();
        expect_ok(&testbed.store.on_masters(&["CONFIG", "SET", "maxmemory", "1"]))
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        expect_ok(&testbed.store.on_masters(&["CONFIG", "SET", "maxmemory", "0"]))?;
        Ok(well(testbed))
    }
}
