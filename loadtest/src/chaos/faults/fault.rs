//! The interface between a run and the faults that it injects.

use std::time::Duration;

use anyhow::ensure;
use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use crate::chaos::testbed::Testbed;

const DONE_WITHIN: Duration = Duration::from_secs(20);
/// The pause between two looks at a server.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// The end of a fault: everything must be right again within `bound` after `at`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) at: Instant,
    pub(crate) bound: Duration,
}

impl Mark {
    /// The mark of a fault that has just ended and that gateways recover from by themselves.
    pub(crate) fn healed_from_now(testbed: &Testbed) -> Self {
        Self {
            at: Instant::now(),
            bound: testbed.state.timing.healed(),
        }
    }

    /// The same of a fault by which Redis lost writes.
    pub(crate) fn rebuilt_from_now(testbed: &Testbed) -> Self {
        Self {
            bound: testbed.state.timing.rebuilt(),
            ..Self::healed_from_now(testbed)
        }
    }
}

#[async_trait]
pub(crate) trait Fault: Send {
    /// Breaks something.
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()>;

    /// Repairs what was broken.
    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark>;

    /// Checks what shows only much later, after the audit.
    async fn after(&mut self, _testbed: &mut Testbed) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Waits until the servers of Redis have done what a fault needs of them.
pub(super) async fn wait_until(done: impl Fn() -> bool, otherwise: &str) -> anyhow::Result<()> {
    let began = Instant::now();
    while !done() {
        ensure!(
            began.elapsed() <= DONE_WITHIN,
            "{otherwise} within {DONE_WITHIN:?}"
        );
        sleep(LOOK).await;
    }
    Ok(())
}
