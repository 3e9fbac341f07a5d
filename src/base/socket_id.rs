//! The name of one socket, which `welcome` tells the client and which stands in the log lines of the
//! socket. A socket keeps a number of four bytes only, because a gateway has millions of them.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ids::random_name;

/// Distinguishes the ids of this process from those of all others.
static PROCESS: LazyLock<String> = LazyLock::new(random_name);

static LAST: AtomicU32 = AtomicU32::new(0);

/// The id of a socket, unique over all processes until four billion more sockets have opened in this
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketId(u32);

impl SocketId {
    /// The id of the next socket that opens.
    pub(crate) fn next() -> Self {
        Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    /// How many sockets have opened after this one, up to `newer`.
    pub(crate) fn before(self, newer: Self) -> u32 {
        newer.0.wrapping_sub(self.0)
    }

    #[cfg(test)]
    pub(crate) fn numbered(number: u32) -> Self {
        Self(number)
    }
}

impl fmt::Display for SocketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08x}", *PROCESS, self.0)
    }
}

impl serde::Serialize for SocketId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_have_ids_of_their_own_in_the_order_in_which_they_opened() {
        let ids = [SocketId::next(), SocketId::next()];
        assert_ne!(ids[0].to_string(), ids[1].to_string());
        // Other tests open sockets, too.
        assert!((1..1_000_000).contains(&ids[0].before(ids[1])));
        assert_eq!(
            SocketId::numbered(u32::MAX).before(SocketId::numbered(4)),
            5
        );
    }
}
