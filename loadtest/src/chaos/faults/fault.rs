//! What the faults share: the mark of their end, and what is checked after it.

use std::time::Duration;

use anyhow::ensure;
use tokio::time::{Instant, sleep};

use crate::chaos::support::redis_server::RedisServer;
use crate::chaos::testbed::Testbed;
use crate::client::WebSocket;

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

/// What is left of a fault until the audit after it is over.
pub(crate) enum Later {
    /// A streamer's gateway was killed, and the streamer does not come back: the live must close.
    OrphanCloses {
        streamer: Box<WebSocket>,
        killed: Instant,
    },
    /// Nothing may name the gateway as it was called before.
    IsForgotten {
        gateway: usize,
        id: String,
        since: Instant,
    },
    /// Old connections stay open to this server until it ends.
    ServerEnds(#[allow(dead_code, reason = "it ends when this is dropped")] Box<RedisServer>),
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
