//! The key of a session without a socket. Every gateway of the platform knows the session by it,
//! which the four bytes of a socket's [`SocketId`](super::socket_id::SocketId) could not do.

use std::fmt;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;

/// How long the id of a session is good, and the ticket of its datagrams. A beat brings another id
/// after half of that.
pub const ID_LIFE: Duration = Duration::from_secs(10 * 60);

/// How long the end of a session is remembered: for longer than any of its ids is good, on gateways
/// whose clocks differ.
pub const ENDS_KEPT: Duration = Duration::from_secs(ID_LIFE.as_secs() + 2 * 60);

/// How many bytes of a key are chosen at random: among four billion sessions at a time, two are the
/// same with a probability of 1 in 100,000.
pub const RANDOM_BYTES: usize = 10;

/// How many bytes follow them, by which a gateway recognises a key that a gateway has made.
pub const TAG_BYTES: usize = 6;

/// The length of a key, in bytes.
pub const KEY_BYTES: usize = RANDOM_BYTES + TAG_BYTES;

/// The key of a session without a socket: random bytes, and a tag that only gateways can make.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey([u8; KEY_BYTES]);

impl SessionKey {
    /// A key from its bytes. Nothing is checked.
    #[must_use]
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads what [`fmt::Display`] writes. `None` if it is nothing of that kind.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// All bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The bytes that were chosen at random.
    pub(crate) fn random_part(&self) -> &[u8] {
        &self.0[..RANDOM_BYTES]
    }

    /// The bytes that prove who made the key.
    pub(crate) fn tag(&self) -> &[u8] {
        &self.0[RANDOM_BYTES..]
    }
}

/// 22 characters of base64url.
impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64URL_NOPAD.encode(&self.0))
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for SessionKey {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for SessionKey {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a key of a session"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_as_it_was_written() {
        let key = SessionKey::from_bytes(*b"0123456789abcdef");
        assert_eq!(SessionKey::parse(&key.to_string()), Some(key));
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<SessionKey>(&json).unwrap(), key);
        for wrong in [
            "",
            "abc",
            "AAAAAAAAAAAAAAAAAAAAAA==",
            "AAAAAAAAAAAAAAAAAAAAA!",
        ] {
            assert_eq!(SessionKey::parse(wrong), None, "{wrong}");
        }
    }
}
