//! Limits how many requests a caller may make: a budget for each API key, for each user of tokens,
//! and for each address from which requests without good credentials come. Requests with good
//! credentials cost the address nothing, so nobody behind an address starves the others there.
//! [`super::authorization`] charges requests to the budgets, and [`super::bill`] charges the requests
//! for which nobody else has paid.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::http::Extensions;

use super::problem::{Problem, ProblemKind};
use crate::base::budgets::Budgets;
use crate::base::clock::{Clock, Millis};
use crate::base::gcra::Rate;
use crate::base::ids::UserId;
use crate::base::metrics::Metrics;
use crate::edge::client_address::ClientAddress;

/// Whose budget pays for a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Payer {
    /// An API key, by its name.
    Key(Arc<str>),
    /// The user of a token.
    User(UserId),
    Address(IpAddr),
}

impl Payer {
    /// The client's address. `None` if the client is on this machine, or its address is unknown. Of
    /// an IPv6 address only the network counts, because a client can use every address in it.
    pub(crate) fn address(extensions: &Extensions) -> Option<Self> {
        let address = match extensions.get::<ClientAddress>()?.limited()? {
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
            }
            address => address,
        };
        Some(Self::Address(address))
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Key(_) => "key",
            Self::User(_) => "user",
            Self::Address(_) => "address",
        }
    }
}

pub(crate) struct RateLimits {
    budgets: Budgets<Payer>,
    metrics: Arc<Metrics>,
    clock: Clock,
}

impl RateLimits {
    /// Each budget allows `per_second` requests, and twice as many at once; 0: no limit.
    pub(crate) fn new(per_second: u32, metrics: Arc<Metrics>, clock: Clock) -> Self {
        Self {
            budgets: Budgets::new(Rate::per_second(per_second)),
            metrics,
            clock,
        }
    }

    /// Takes one request from the payer's budget; without a payer it is free.
    ///
    /// # Errors
    /// The budget is spent.
    pub(crate) fn take(&self, payer: Option<Payer>) -> Result<(), Problem> {
        let Some(payer) = payer else { return Ok(()) };
        self.charge(&payer)
            .map_err(|wait| self.refuse(&payer, wait))
    }

    /// Takes one request from the payer's budget.
    ///
    /// # Errors
    /// The budget is spent; for how long, in ms.
    pub(crate) fn charge(&self, payer: &Payer) -> Result<(), Millis> {
        self.budgets.take(payer, 1, self.clock.now())
    }

    /// Counts a refusal, and returns its problem.
    pub(crate) fn refuse(&self, payer: &Payer, millis: u64) -> Problem {
        Metrics::count(&self.metrics.http_limited, payer.label());
        Problem::later(
            ProblemKind::RateLimited,
            millis.div_ceil(1_000),
            "too many requests; try again after Retry-After",
        )
    }
}
