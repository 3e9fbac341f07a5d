//! Addresses of clients, as bytes that can be hashed: they are compared, and never read back. And
//! sessions, as numbers for tables.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};

use crate::base::session_key::SessionKey;
use crate::session::socketless::datagram_state::AddressHash;

/// The bytes of an address: those of IPv6, and the port.
pub(crate) const ADDRESS: usize = 18;

/// Hashes addresses with a key that only this process knows, so that nobody can look for an address
/// with the hash of somebody else's.
#[derive(Debug, Default)]
pub(crate) struct AddressHasher(RandomState);

impl AddressHasher {
    pub(crate) fn hash(&self, address: SocketAddr) -> AddressHash {
        AddressHash(self.0.hash_one(canonical(address)))
    }
}

/// The bytes of an address, which are the same whether an IPv4 address came through a socket for
/// IPv4 or through one for both.
pub(crate) fn canonical(address: SocketAddr) -> [u8; ADDRESS] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; ADDRESS];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

/// A number for a session whose key a gateway made. Its first bytes are random, so they are as good
/// as a hash.
pub(crate) fn key_of(session: &SessionKey) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&session.as_bytes()[..8]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_the_same_hash_if_and_only_if_they_are_the_same() {
        let hasher = AddressHasher::default();
        let hash = |text: &str| hasher.hash(text.parse().unwrap());
        assert_eq!(hash("192.0.2.1:40"), hash("[::ffff:192.0.2.1]:40"));
        assert_ne!(hash("192.0.2.1:40"), hash("192.0.2.1:41"));
        assert_ne!(hash("192.0.2.1:40"), hash("192.0.2.2:40"));
        let other = AddressHasher::default().hash("192.0.2.1:40".parse().unwrap());
        assert_ne!(hash("192.0.2.1:40"), other);
    }
}
