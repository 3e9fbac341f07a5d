//! The user at the other end of a socket, and the user's role.

use super::address_prefix::AddressPrefix;
use super::ids::UserId;

/// The role of a socket; each role may do more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Joins lives and is counted.
    Viewer,
    /// Opens, closes and watches its own lives.
    Streamer,
    /// A back end: opens and closes for any streamer, watches any live.
    Service,
}

impl Role {
    /// The role in a query or a token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Streamer => "streamer",
            Self::Service => "service",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Viewer, Self::Streamer, Self::Service]
            .into_iter()
            .find(|role| role.as_str() == word)
    }
}

/// The user at the other end of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user of the socket.
    pub user: UserId,
    /// The role of the user.
    pub role: Role,
    /// False with `?count=false` or `?invisible=true`, which mean the same, and if the token says
    /// so: the socket takes part, and is in no figure, no list, no time and no event.
    pub counted: bool,
    /// Where the socket comes from; unknown to those who make no connection.
    pub network: AddressPrefix,
}
