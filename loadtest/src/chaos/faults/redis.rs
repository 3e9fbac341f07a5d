//! Faults of a single Redis server.

use std::time::Duration;

use anyhow::bail;
use async_trait::async_trait;

use super::fault::{Fault, Mark};
use super::links::SAID;
use crate::chaos::store::cli;
use crate::chaos::testbed::Testbed;

/// Marks Redis as well again.
fn well(testbed: &Testbed) -> Mark {
    testbed.state.all_well();
    Mark::healed_from_now(testbed)
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
            (0..testbed.gateways.len()).for_each(|gateway| testbed.expect_honest(gateway));
        }
        testbed.store.single()?.thaw();
        Ok(well(testbed))
    }
}

/// kill -9. Redis comes back from an old backup that holds nothing that gateways wrote.
pub(super) struct Killed;

#[async_trait]
impl Fault for Killed {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.loss_for_all();
        testbed.store.single()?.kill();
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.store.single()?.restart_empty().await;
        testbed.state.all_well();
        Ok(Mark::rebuilt_from_now(testbed))
    }
}

/// Keeps the follow graph, which the platform owns. One script does it, so that no gateway can read
/// in between.
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
        testbed.state.loss_for_all();
        expect_ok(&[cli(testbed.store.single()?, &["EVAL", FLUSH, "0"])])
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.state.all_well();
        Ok(Mark::rebuilt_from_now(testbed))
    }
}

/// Redis closes all connections of one type.
pub(super) struct ClientsKilled(pub(super) &'static str);

#[async_trait]
impl Fault for ClientsKilled {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble_for_all();
        let killed = testbed
            .store
            .on_masters(&["CLIENT", "KILL", "TYPE", self.0]);
        match killed
            .iter()
            .any(|killed| killed.parse().is_ok_and(|count: u64| count > 0))
        {
            true => Ok(()),
            false => bail!("there were no {} connections to kill", self.0),
        }
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        Ok(well(testbed))
    }
}

/// Redis has no memory for any write.
pub(super) struct Full;

#[async_trait]
impl Fault for Full {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        testbed.state.trouble_for_all();
        expect_ok(
            &testbed
                .store
                .on_masters(&["CONFIG", "SET", "maxmemory", "1"]),
        )
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        expect_ok(
            &testbed
                .store
                .on_masters(&["CONFIG", "SET", "maxmemory", "0"]),
        )?;
        Ok(well(testbed))
    }
}
