//! What the coordinator of a crowd and its workers tell each other; between processes each message
//! is a line of JSON.

use serde::{Deserialize, Serialize};

use crate::tally::{Latencies, Tally, is_count};

/// What a worker is told. The ramp begins without a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerCommand {
    /// The measured phase begins.
    Steady,
    /// The measured phase ends: no new heartbeats, acks still count.
    Cool,
    /// Every viewer but the bystanders loses the connection and reconnects.
    Cut,
    /// Count the viewers that are in each live now.
    Count,
    /// Hand over the ack latencies since the last time, or since the measured phase began.
    TakeAcks,
    /// Every viewer closes its socket; then the worker sends its tally.
    Leave,
}

/// What a worker answers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WorkerEvent {
    /// Sent periodically.
    Progress(Progress),
    /// The answer to [`WorkerCommand::Count`]: viewers and fans by live.
    Counted(Vec<[u32; 3]>),
    /// The answer to [`WorkerCommand::TakeAcks`].
    Acks(Latencies),
    /// The last event.
    Done(Box<Tally>),
    /// The worker ended without a tally.
    Died(String),
}

/// How far a worker is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) joined: u64,
    pub(crate) failed: u64,
    /// Reconnected after a cut.
    pub(crate) returned: u64,
    /// Gave up reconnecting.
    pub(crate) stranded: u64,
    pub(crate) lost: u64,
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) pending: u64,
    /// No heartbeat is sent any more, so `pending` can only fall.
    pub(crate) cool: bool,
}

impl Progress {
    /// Whether a run can be so far: it may come from another process.
    pub(crate) fn makes_sense(&self) -> bool {
        let Self {
            joined,
            failed,
            returned,
            stranded,
            lost,
            sent,
            acked,
            pending,
            ..
        } = *self;
        [
            joined, failed, returned, stranded, lost, sent, acked, pending,
        ]
        .into_iter()
        .all(is_count)
    }
}
