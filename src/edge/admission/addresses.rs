//! How many sockets one address may have. An IPv6 client owns a whole /64, so that counts as one
//! address. Clients on the same machine are exempt.

use std::sync::Arc;

use crate::base::keyed_permits::{KeyedPermit, KeyedPermits};
use crate::edge::client_address::proxy_hint::ProxyHint;
use crate::edge::client_address::{ClientAddress, network};

#[derive(Debug)]
pub(crate) struct Addresses {
    /// `None`: no limit.
    permits: Option<Arc<KeyedPermits>>,
    hint: ProxyHint,
}

/// The address has as many sockets as it may have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManySockets;

impl Addresses {
    pub(super) fn new(most: u32) -> Self {
        let permits = if most > 0 {
            Some(KeyedPermits::new(most))
        } else {
            None
        };
        Self {
            permits,
            hint: ProxyHint::new("sockets"),
        }
    }

    /// Gives a client the right to one more socket; `None` for a client without a limit.
    pub(crate) fn admit(
        &self,
        client: ClientAddress,
    ) -> Result<Option<KeyedPermit>, TooManySockets> {
        let Some(permits) = &self.permits else {
            return Ok(None);
        };
        let Some(address) = client.limited() else {
            return Ok(None);
        };
        match permits.acquire(network(address)) {
            Some(permit) => Ok(Some(permit)),
            None => {
                self.hint.refused(address);
                Err(TooManySockets)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(addresses: &Addresses, address: &str) -> Result<Option<KeyedPermit>, TooManySockets> {
        addresses.admit(ClientAddress::Peer(address.parse().unwrap()))
    }

    #[test]
    fn an_address_has_so_many_sockets_and_no_more() {
        let addresses = Addresses::new(1);
        let first = admit(&addresses, "192.0.2.7").unwrap();
        assert_eq!(admit(&addresses, "192.0.2.7").unwrap_err(), TooManySockets);
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
        assert_eq!(addresses.admit(proxy).unwrap_err(), TooManySockets);
        assert!(admit(&addresses, "127.0.0.1").unwrap().is_none());
    }
}
