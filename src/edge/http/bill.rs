//! Charges requests for which nobody else has paid to the client's address: every answer costs
//! somebody one request of a budget.
//!
//! An API key, a user or an address that pays on the way settles the [`Bill`]. Nobody pays for
//! probes, unknown paths, broken handshakes, and refusals of the outer layers. Their answers cost
//! next to nothing, so this layer charges them afterwards. It answers a probe even if the budget is
//! spent, because an orchestrator restarts a gateway that does not answer; but it ends the probe's
//! connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::{Problem, ProblemKind};
use super::rate_limits::Payer;
use super::state::AppState;
use crate::edge::keep_alive::{ConnectionEnding, Crowded};

const OPEN: u8 = 0;
const BY_ADDRESS: u8 = 1;
const BY_CALLER: u8 = 2;

/// Who has paid for a request. The extensions of the request hold it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bill(Arc<AtomicU8>);

impl Bill {
    /// The address has paid, or it has no budget left and was refused.
    pub(crate) fn settle_by_address(&self) {
        self.0.store(BY_ADDRESS, Ordering::Relaxed);
    }

    /// Somebody with good credentials pays.
    pub(crate) fn settle_by_caller(&self) {
        self.0.store(BY_CALLER, Ordering::Relaxed);
    }

    fn paid_by(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bill of a request; a new one where no layer keeps bills.
pub(crate) fn of(extensions: &axum::http::Extensions) -> Bill {
    extensions.get::<Bill>().cloned().unwrap_or_default()
}

pub(crate) async fn charge(
    State(state): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.extensions().get::<Crowded>().is_some() {
        let detail =
            "your address has as many requests under way as one address may have; try again";
        return Problem::later(ProblemKind::RateLimited, 1, detail).into_response();
    }
    let payer = Payer::address(request.extensions());
    let bill = Bill::default();
    request.extensions_mut().insert(bill.clone());
    let mut answer = next.run(request).await;
    match bill.paid_by() {
        BY_CALLER => {
            answer.extensions_mut().insert(ConnectionEnding::Spared);
        }
        OPEN if is_charged(answer.status()) => {
            if let Some(payer) = payer
                && let Err(wait) = state.rate_limits.charge(&payer)
            {
                if answer.status().is_client_error() {
                    answer = in_place_of(&answer, state.rate_limits.refuse(&payer, wait));
                }
                answer
                    .extensions_mut()
                    .insert(ConnectionEnding::BudgetSpent);
            }
        }
        _ => {}
    }
    answer
}

/// Whether an answer with this status costs a request. A socket has limits of its own, and a failure
/// of the gateway is not the client's fault.
fn is_charged(status: StatusCode) -> bool {
    status != StatusCode::SWITCHING_PROTOCOLS && !status.is_server_error()
}

/// The response with a problem that replaces an answer.
fn in_place_of(answer: &Response, problem: Problem) -> Response {
    let mut refused = problem.into_response();
    // A page may read this refusal if it may read the answer.
    for (name, value) in answer.headers() {
        if *name == header::VARY || name.as_str().starts_with("access-control-") {
            refused.headers_mut().append(name, value.clone());
        }
    }
    refused
}
