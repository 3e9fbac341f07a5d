//! Limits how many requests a caller may make: a budget for each API key, for each user of tokens,
//! and for each address that shows no key. [`super::authorization`] charges requests to the budgets,
//! and [`super::bill`] charges the requests for which nobody else has paid. Upgrades with good tokens
//! cost the address nothing.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use axum::http::Extensions;
use dashmap::DashMap;

use super::problem::{Kind, Problem};
use crate::base::budgets::{Budgets, TimeToForget};
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
    /// The callers whose budget is spent, and until when it is.
    spent: DashMap<Payer, Millis>,
    time_to_forget: TimeToForget,
    metrics: Arc<Metrics>,
    clock: Clock,
}

impl RateLimits {
    /// Each budget allows `per_second` requests, and twice as many at once; 0: no limit.
    pub(crate) fn new(per_second: u32, metrics: Arc<Metrics>, clock: Clock) -> Self {
        Self {
            budgets: Budgets::new(Rate::per_second(per_second)),
            spent: DashMap::new(),
            time_to_forget: TimeToForget::default(),
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
        let Err(wait) = self.charge(&payer) else {
            return Ok(());
        };
        let now = self.clock.now();
        if self.time_to_forget.is_due(now) {
            self.spent.retain(|_, until| *until > now);
            self.spent.shrink_to_fit();
        }
        self.spent.insert(payer.clone(), now + wait);
        Err(self.refuse(&payer, wait))
    }

    /// Takes one request for an answer that is ready already. [`Self::look`] ignores budgets that
    /// such answers have spent: they are no sign that somebody guesses credentials.
    ///
    /// # Errors
    /// The budget is spent; for how long, in ms.
    pub(crate) fn charge(&self, payer: &Payer) -> Result<(), Millis> {
        self.budgets.take(payer, 1, self.clock.now())
    }

    /// Takes nothing, but checks whether [`Self::take`] has found the payer's budget spent, and it
    /// still is.
    ///
    /// # Errors
    /// The budget is spent.
    pub(crate) fn look(&self, payer: Option<&Payer>) -> Result<(), Problem> {
        let Some(payer) = payer else { return Ok(()) };
        let Some(until) = self.spent.get(payer).map(|until| *until) else {
            return Ok(());
        };
        match until.saturating_sub(self.clock.now()) {
            0 => Ok(()),
            wait => Err(self.refuse(payer, wait)),
        }
    }

    /// Counts a refusal, and returns its problem.
    pub(crate) fn refuse(&self, payer: &Payer, millis: u64) -> Problem {
        Metrics::count(&self.metrics.http_limited, payer.label());
        Problem::later(
            Kind::RateLimited,
            millis.div_ceil(1_000),
            "too many requests; try again after Retry-After",
        )
    }
}
