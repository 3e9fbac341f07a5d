//! How many requests a caller may make: a budget for each API key, for each user of tokens, and for each address that
//! shows no key. [`super::authorization`] asks, and [`super::bill`] for all that nobody else has paid for; upgrades
//! with good tokens cost the address nothing.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::Extensions;
use dashmap::DashMap;
use governor::clock::Clock as _;
use governor::{DefaultKeyedRateLimiter, NotUntil, Quota, RateLimiter};

use super::problem::{Kind, Problem};
use crate::base::clock::Clock;
use crate::base::ids::UserId;
use crate::base::metrics::Metrics;
use crate::edge::client_address::ClientAddress;

/// How often budgets that are full again are forgotten. A budget refills within two seconds, so the memory is bounded
/// by the requests of three.
const FORGET_EVERY: Duration = Duration::from_secs(1);

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
    /// The address, unless the client is on this machine, or unknown. Of an IPv6 address only the network counts: a
    /// client can use every address of its own.
    pub(crate) fn address(extensions: &Extensions) -> Option<Self> {
        let address = match extensions.get::<ClientAddress>()?.limited()? {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64))),
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

/// As logs name a caller: `key shop`.
impl fmt::Display for Payer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(name) => write!(f, "key {name}"),
            Self::User(user) => write!(f, "user {user}"),
            Self::Address(address) => write!(f, "address {address}"),
        }
    }
}

pub(crate) struct RateLimits {
    /// `None` without a limit.
    budgets: Option<DefaultKeyedRateLimiter<Payer>>,
    /// Whose budget is spent, and until when.
    spent: DashMap<Payer, u64>,
    metrics: Arc<Metrics>,
    clock: Clock,
    /// When budgets were forgotten last.
    forgot_at: AtomicU64,
}

impl RateLimits {
    /// `per_second` requests, and twice as many at once; 0: no limit.
    pub(crate) fn new(per_second: u32, metrics: Arc<Metrics>, clock: Clock) -> Self {
        let quota = |rate: NonZeroU32| Quota::per_second(rate).allow_burst(rate.saturating_add(rate.get()));
        let budgets = NonZeroU32::new(per_second).map(|rate| RateLimiter::keyed(quota(rate)));
        Self { budgets, spent: DashMap::new(), metrics, clock, forgot_at: AtomicU64::new(0) }
    }

    /// Takes one request from the payer's budget; without a payer it is free.
    ///
    /// # Errors
    /// The budget is spent.
    pub(crate) fn take(&self, payer: Option<Payer>) -> Result<(), Problem> {
        let Some(payer) = payer else { return Ok(()) };
        self.check(&payer).map_err(|wait| {
            let problem = self.refuse(&payer, wait);
            self.spent.insert(payer, self.clock.now() + wait);
            problem
        })
    }

    /// Takes one request for an answer that is made already. That a budget is spent by such answers is not noted for
    /// [`Self::look`]: they do not tell that somebody guesses credentials.
    ///
    /// # Errors
    /// The budget is spent; how long, in ms.
    pub(crate) fn charge(&self, payer: &Payer) -> Result<(), u64> {
        self.check(payer)
    }

    fn check(&self, payer: &Payer) -> Result<(), u64> {
        let Some(budgets) = &self.budgets else { return Ok(()) };
        self.forget(budgets);
        let wait = |refused: NotUntil<_>| refused.wait_time_from(budgets.clock().now()).as_millis() as u64 + 1;
        budgets.check_key(payer).map_err(wait)
    }

    /// Takes nothing, but asks whether the payer's last request found the budget spent, and it still is.
    ///
    /// # Errors
    /// The budget is spent.
    pub(crate) fn look(&self, payer: Option<&Payer>) -> Result<(), Problem> {
        let Some(payer) = payer else { return Ok(()) };
        let until = self.spent.get(payer).map_or(0, |until| *until);
        match until.saturating_sub(self.clock.now()) {
            0 => Ok(()),
            wait => Err(self.refuse(payer, wait)),
        }
    }

    /// Counts a refusal, and says it.
    pub(crate) fn refuse(&self, payer: &Payer, millis: u64) -> Problem {
        Metrics::count(&self.metrics.http_limited, payer.label());
        Problem::later(Kind::RateLimited, millis.div_ceil(1_000), "too many requests; try again after Retry-After")
    }

    fn forget(&self, budgets: &DefaultKeyedRateLimiter<Payer>) {
        let (now, last) = (self.clock.now(), self.forgot_at.load(Ordering::Relaxed));
        let is_due = now.saturating_sub(last) >= FORGET_EVERY.as_millis() as u64;
        // Only one of many requests does it.
        if is_due && self.forgot_at.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            budgets.retain_recent();
            budgets.shrink_to_fit();
            self.spent.retain(|_, until| *until > now);
            self.spent.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn budgets_that_are_full_again_take_no_memory() {
        const CLIENTS: u32 = 20_000;
        let limits = RateLimits::new(1_000, Arc::default(), Clock::start());
        let ask = |n: u32| limits.take(Some(Payer::Address(IpAddr::from(n.to_be_bytes()))));
        (0..CLIENTS).for_each(|n| ask(n).unwrap());
        let budgets = limits.budgets.as_ref().unwrap();
        let forgotten = async {
            while budgets.len() > 1 {
                sleep(Duration::from_millis(10)).await;
                ask(CLIENTS).unwrap();
            }
        };
        timeout(Duration::from_secs(20), forgotten).await.expect("the budgets are forgotten");
    }
}
