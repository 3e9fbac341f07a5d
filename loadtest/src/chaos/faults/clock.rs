//! Steps of Redis's wall clock while a run goes on. No viewer and no dashboard may notice them.

use std::time::Duration;

use anyhow::ensure;
use async_trait::async_trait;

use super::fault::{Fault, Mark};
use crate::chaos::testbed::Testbed;

/// Longer than any lease.
const STEP_S: i64 = 60;

/// Sets the clock ahead, back to the machine's time, behind it, and back.
pub(super) struct Step {
    /// The time between two steps.
    pub(super) hold: Duration,
}

#[async_trait]
impl Fault for Step {
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()> {
        ensure!(
            testbed.store.single()?.has_clock(),
            "clock-step sets the clock of Redis with libfaketime, which is not installed (Debian: faketime)"
        );
        for ahead in [STEP_S, 0] {
            testbed.store.single()?.set_clock(ahead).await;
            testbed.pass(self.hold).await?;
        }
        testbed.store.single()?.set_clock(-STEP_S).await;
        Ok(())
    }

    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark> {
        testbed.store.single()?.set_clock(0).await;
        Ok(Mark::healed_from_now(testbed))
    }
}

#[cfg(test)]
mod tests {
    use crate::chaos::store::cli;
    use crate::chaos::support::redis_server::{RedisServer, faketime};

    #[tokio::test(flavor = "multi_thread")]
    async fn the_clock_of_redis_steps_both_ways_and_survives_a_restart() {
        let library = faketime().expect("libfaketime is missing: ./tests/run installs it");
        let mut server = RedisServer::start_with_clock(library).await;
        let machine = RedisServer::start().await;
        let ahead = |server: &RedisServer| {
            let [set, own] = [server, &machine]
                .map(|redis| cli(redis, &["EVAL", "return redis.call('TIME')[1]", "0"]));
            set.parse::<i64>().unwrap() - own.parse::<i64>().unwrap()
        };
        for step in [0, 60, -60] {
            server.set_clock(step).await;
            assert!(
                (ahead(&server) - step).abs() <= 2,
                "{} instead of {step}",
                ahead(&server)
            );
        }
        server.restart_empty().await;
        assert!(
            (ahead(&server) + 60).abs() <= 2,
            "{} after a restart",
            ahead(&server)
        );
    }
}
