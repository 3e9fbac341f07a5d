//! How a viewer that was cut off reconnects: at once, and after a refusal as late as the gateway
//! says.

use std::time::Duration;

use tokio::time::sleep;

use super::state::WorkerState;
use super::viewer::come_in;
use crate::client::{Failure, WebSocket};
use crate::error_kind::{self, ErrorName};
use crate::plan::JoinBy;

const MAX_TRIES: u32 = 20;
/// Between two tries when the gateway did not say how long to wait.
const DEFAULT_WAIT: Duration = Duration::from_secs(1);
const SERVICE_UNAVAILABLE: u16 = 503;

/// Tries until the viewer has joined again; the error is that of the last try.
pub(super) async fn reconnect(worker: &WorkerState, number: usize) -> Result<WebSocket, ErrorName> {
    let mut last = error_kind::CONNECT_TIMEOUT;
    for _ in 0..MAX_TRIES {
        let Failure {
            kind,
            code,
            retry_after,
        } = match enter(worker, number).await {
            Ok(socket) => return Ok(socket),
            Err(failure) => failure,
        };
        let wait = retry_after.filter(|_| code == Some(SERVICE_UNAVAILABLE));
        worker.tally(|tally| match wait {
            Some(wait) => tally.storm.told.record(wait),
            None if code == Some(SERVICE_UNAVAILABLE) => tally.storm.untimed += 1,
            None => tally.error(ErrorName::Owned(format!("return:{kind}")), 1),
        });
        last = kind;
        sleep(wait.unwrap_or(DEFAULT_WAIT)).await;
    }
    Err(last)
}

async fn enter(worker: &WorkerState, number: usize) -> Result<WebSocket, Failure> {
    let plan = &worker.plan;
    // From other source addresses than before: the ports of those are still taken by the cut
    // connections.
    let source = if plan.target.address.is_ipv4() {
        Some(plan.sources + number % plan.sources)
    } else {
        None
    };
    let (socket, _) = come_in(worker, number, source, JoinBy::Message, |_| {}).await?;
    Ok(socket)
}
