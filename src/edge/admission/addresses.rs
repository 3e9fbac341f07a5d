//! How many sockets one address may have. An IPv6 client owns a whole /64, so that counts as one address. Clients on
//! the same machine are exempt.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::base::keyed_permits::{KeyedPermit, KeyedPermits};
use crate::edge::client_address::ClientAddress;

/// How often the log asks whether an address is a proxy.
const HINT_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Addresses {
    /// `None`: no limit.
    permits: Option<Arc<KeyedPermits>>,
    hinted_at: Mutex<Option<Instant>>,
}

/// The address has as many sockets as it may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl Addresses {
    pub(super) fn new(most: u32) -> Self {
        Self { permits: (most > 0).then(|| KeyedPermits::new(most)), hinted_at: Mutex::default() }
    }

    /// The right to one more socket; `None` for a client that needs none.
    pub(crate) fn admit(&self, client: ClientAddress) -> Result<Option<KeyedPermit>, TooMany> {
        let (Some(permits), Some(address)) = (&self.permits, client.limited()) else { return Ok(None) };
        let permit = permits.acquire(key(address));
        if permit.is_none() && is_private(address) {
            self.hint(address);
        }
        permit.map(Some).ok_or(TooMany)
    }

    fn hint(&self, address: IpAddr) {
        let mut hinted_at = self.hinted_at.lock();
        if hinted_at.is_none_or(|at| at.elapsed() >= HINT_EVERY) {
            *hinted_at = Some(Instant::now());
            tracing::warn!(%address, "too many sockets of a private address: is this a proxy? see --trusted-proxies");
        }
    }
}

/// The prefix of an IPv6 address. IPv4 addresses are in `::/32`, which no IPv6 client has.
fn key(address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(ip) => ip.to_bits().into(),
        IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64,
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

    fn admit(addresses: &Addresses, address: &str) -> Result<Option<KeyedPermit>, TooMany> {
        addresses.admit(ClientAddress::Peer(address.parse().unwrap()))
    }

    #[test]
    fn an_address_has_so_many_sockets_and_no_more() {
        let addresses = Addresses::new(1);
        let first = admit(&addresses, "192.0.2.7").unwrap();
        assert_eq!(admit(&addresses, "192.0.2.7").unwrap_err(), TooMany);
        assert!(admit(&addresses, "192.0.2.8").is_ok());
        drop(first);
        assert!(admit(&addresses, "192.0.2.7").is_ok());
    }

    #[test]
    fn an_ipv6_network_of_64_bits_counts_as_one_address() {
        let addresses = Addresses::new(1);
        let _first = admit(&addresses, "2001:db8:1:2::7").unwrap();
        assert!(admit(&addresses, "2001:db8:1:2:ffff::8").is_err());
        assert!(admit(&addresses, "2001:db8:1:3::7").is_ok());
    }

    #[test]
    fn loopback_is_exempt_and_zero_is_no_limit() {
        let (one, none) = (Addresses::new(1), Addresses::new(0));
        for _ in 0..3 {
            assert!(admit(&one, "127.0.0.1").unwrap().is_none());
            assert!(admit(&one, "::1").unwrap().is_none());
            assert!(admit(&none, "192.0.2.7").unwrap().is_none());
        }
    }

    #[test]
    fn a_proxy_on_this_machine_is_not_exempt() {
        let addresses = Addresses::new(1);
        let proxy = ClientAddress::Forwarded("127.0.0.1".parse().unwrap());
        let _first = addresses.admit(proxy).unwrap();
        assert_eq!(addresses.admit(proxy).unwrap_err(), TooMany);
        assert!(admit(&addresses, "127.0.0.1").unwrap().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_private_address_at_the_limit_is_logged_once_a_minute() {
        let addresses = Addresses::new(1);
        let _held = admit(&addresses, "10.0.0.1").unwrap();
        let hinted_at = || *addresses.hinted_at.lock();
        let began = Instant::now();
        assert!(admit(&addresses, "10.0.0.1").is_err());
        tokio::time::advance(HINT_EVERY / 2).await;
        assert!(admit(&addresses, "10.0.0.1").is_err());
        assert_eq!(hinted_at(), Some(began));
        tokio::time::advance(HINT_EVERY / 2).await;
        assert!(admit(&addresses, "10.0.0.1").is_err());
        assert_eq!(hinted_at(), Some(began + HINT_EVERY));
    }
}
