//! The interface between a run and the faults that it injects.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::chaos::testbed::Testbed;

/// The end of a fault: everything must be right again within `bound` after `at`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) at: Instant,
    pub(crate) bound: Duration,
}

#[async_trait]
pub(crate) trait Fault: Send {
    /// Breaks something.
    async fn begin(&mut self, testbed: &mut Testbed) -> anyhow::Result<()>;

    /// Repairs what was broken.
    async fn end(&mut self, testbed: &mut Testbed) -> anyhow::Result<Mark>;

    /// Checks what shows only much later, after the audit.
    async fn after(&mut self, _scene: &mut Testbed) -> anyhow::Result<()> {
        Ok(())
    }
}
