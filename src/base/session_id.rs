//! The name of one socket's session, which `welcome` tells the client and which stands in the log
//! lines of the socket. A session keeps a number of four bytes only, because a gateway has millions
//! of them.
//!
//! This is not the `session_id` of attendance: that names a stay of a user in a live, over all the
//! user's sockets.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ids::random_name;

/// Distinguishes the ids of this process from those of all others.
static PROCESS: LazyLock<String> = LazyLock::new(random_name);

static LAST: AtomicU32 = AtomicU32::new(0);

/// The id of a session, unique over all processes until four billion more sessions have begun in
/// this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionId(u32);

impl SessionId {
    /// The id of the next session that begins.
    pub(crate) fn next() -> Self {
        Self(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1))
    }

    /// How many sessions have begun after this one, up to `newer`.
    pub(crate) fn before(self, newer: Self) -> u32 {
        newer.0.wrapping_sub(self.0)
    }

    #[cfg(test)]
    pub(crate) fn numbered(number: u32) -> Self {
        Self(number)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:08x}", *PROCESS, self.0)
    }
}

impl serde::Serialize for SessionId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_ids_of_their_own_in_the_order_in_which_they_began() {
        let ids = [SessionId::next(), SessionId::next()];
        assert_ne!(ids[0].to_string(), ids[1].to_string());
        // Other tests begin sessions, too.
        assert!((1..1_000_000).contains(&ids[0].before(ids[1])));
        assert_eq!(
            SessionId::numbered(u32::MAX).before(SessionId::numbered(4)),
            5
        );
    }
}
