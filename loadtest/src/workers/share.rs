//! What every worker gets, wherever it runs: its share, its ends of the channels, and a runtime of
//! one thread.

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::plan::CrowdPlan;
use crate::worker::messages::{WorkerCommand, WorkerEvent};

/// What a worker in another process is told first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Assignment {
    pub(super) plan: CrowdPlan,
    pub(super) process: usize,
}

/// A worker's ends of the two channels.
pub(super) struct Ends {
    pub(super) commands: mpsc::Receiver<WorkerCommand>,
    pub(super) events: mpsc::Sender<WorkerEvent>,
}

pub(super) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("a runtime")
}
