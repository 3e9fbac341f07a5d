//! Asks in the log whether an address that reached a limit is a proxy whose clients share the
//! limit. Without the hint, an operator who forgot to name the proxies sees only refused clients.

use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The hint appears at most this often.
const EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct ProxyHint {
    /// What the address has too many of.
    what: &'static str,
    hinted_at: Mutex<Option<Instant>>,
}

impl ProxyHint {
    pub(crate) fn new(what: &'static str) -> Self {
        Self {
            what,
            hinted_at: Mutex::default(),
        }
    }

    /// Notes that a limit refused this address.
    pub(crate) fn refused(&self, address: IpAddr) {
        if !is_private(address) {
            return;
        }
        let mut hinted_at = self.hinted_at.lock();
        if hinted_at.is_none_or(|at| at.elapsed() >= EVERY) {
            *hinted_at = Some(Instant::now());
            let what = self.what;
            tracing::warn!(%address, "too many {what} of a private address: is this a proxy? see --trusted-proxies");
        }
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local() || ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_private_address_at_the_limit_is_logged_once_a_minute() {
        let hint = ProxyHint::new("sockets");
        let hinted_at = || *hint.hinted_at.lock();
        hint.refused("192.0.2.7".parse().unwrap());
        assert_eq!(
            hinted_at(),
            None,
            "a client of the internet is no proxy of ours"
        );
        let private = "10.0.0.1".parse().unwrap();
        let began = Instant::now();
        hint.refused(private);
        tokio::time::advance(EVERY / 2).await;
        hint.refused(private);
        assert_eq!(hinted_at(), Some(began));
        tokio::time::advance(EVERY / 2).await;
        hint.refused(private);
        assert_eq!(hinted_at(), Some(began + EVERY));
    }
}
