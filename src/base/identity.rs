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
        [Self::Viewer, Self::Streamer, Self::Service].into_iter().find(|role| role.as_str() == word)
    }
}

/// Who is at the other end of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Whose socket it is.
    pub user: UserId,
    /// What the user may do.
    pub role: Role,
    /// False with `?count=false`: the socket takes part but is in no figure.
    pub counted: bool,
    /// True with `invisible: true` in the token: the socket counts, but its user is in no list. A socket may become
    /// so later.
    pub invisible: bool,
}
