//! Who is at the other end of a socket, and what that role may do.

use super::ids::UserId;

/// What a socket may do; each role may do more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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

/// Who is at the other end of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Whose socket it is.
    pub user: UserId,
    /// What the user may do.
    pub role: Role,
    /// False with `?count=false` or `?invisible=true`, which mean the same, and if the token says
    /// so: the socket takes part, and is in no figure, no list, no time and no event.
    pub counted: bool,
}
