//! The network in which a client's address is, as platforms compare addresses: the first 24 bits of
//! an IPv4 address, the first 48 of an IPv6 address. It lies in memory only, and no text shows it.

use std::fmt;
use std::net::IpAddr;

/// Six bytes, because every connection has one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct AddressPrefix([u8; 6]);

impl AddressPrefix {
    /// The prefix of an address. Those of IPv4 are in `0:100::/24`, which no IPv6 client has.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(ip) => {
                let [a, b, c, _] = ip.octets();
                Self([0, 0, 1, a, b, c])
            }
            IpAddr::V6(ip) => {
                let [a, b, c, d, e, f, ..] = ip.octets();
                Self([a, b, c, d, e, f])
            }
        }
    }

    /// False for a client whose address nobody noted.
    pub(crate) fn is_known(self) -> bool {
        self != Self::default()
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 6] {
        &self.0
    }
}

impl fmt::Debug for AddressPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressPrefix(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str) -> AddressPrefix {
        AddressPrefix::of(address.parse().unwrap())
    }

    #[test]
    fn addresses_of_one_network_have_one_prefix() {
        for (one, other) in [
            ("198.51.100.7", "198.51.100.250"),
            ("198.51.100.7", "::ffff:198.51.100.9"),
            ("2001:db8:7:1::1", "2001:db8:7:ffff::2"),
        ] {
            assert_eq!(prefix(one), prefix(other));
        }
        for (one, other) in [
            ("198.51.100.7", "198.51.101.7"),
            ("2001:db8:7::1", "2001:db8:8::1"),
            ("0.0.0.1", "::1"),
        ] {
            assert_ne!(prefix(one), prefix(other));
        }
        assert!(prefix("0.0.0.0").is_known() && !AddressPrefix::default().is_known());
        assert_eq!(format!("{:?}", prefix("198.51.100.7")), "AddressPrefix(…)");
    }
}
