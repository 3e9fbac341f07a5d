//! The boundary for the ends of sessions without a socket. The id of such a session is signed, and
//! any gateway takes it for as long as it is good. So the store remembers for longer than that which
//! ids are over, and a gateway asks before it goes on with a session that it does not have.

use serde::{Deserialize, Serialize};

use super::StoreResult;
use super::calls::calls;
use crate::base::session_key::SessionKey;

/// Why ids of a session are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// The client left, or its token expired.
    Left,
    /// The session switched to another live, and has a newer id.
    Switched,
    /// A moderator removed the user.
    Removed,
    /// The user has too many sockets.
    CrowdedOut,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

impl Over {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Switched => "switched",
            Self::Removed => "removed",
            Self::CrowdedOut => "crowded_out",
            Self::Other => "other",
        }
    }

    /// Reads what [`Self::as_str`] writes.
    pub fn from_word(word: &str) -> Self {
        match word {
            "left" => Self::Left,
            "switched" => Self::Switched,
            "removed" => Self::Removed,
            "crowded_out" => Self::CrowdedOut,
            _ => Self::Other,
        }
    }
}

/// Which ids of a session are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedSession {
    /// The session.
    pub key: SessionKey,
    /// The ids with a lower number are over.
    pub below: u32,
    /// Why they are.
    pub why: Over,
}

impl EndedSession {
    /// All ids of the session are over.
    pub fn for_good(key: SessionKey, why: Over) -> Self {
        Self {
            key,
            below: u32::MAX,
            why,
        }
    }

    /// Why the id with this number is over; `None` if it may still be good.
    pub fn over(&self, number: u32) -> Option<Over> {
        if number < self.below {
            Some(self.why)
        } else {
            None
        }
    }
}

calls! {
    /// The ends of sessions without a socket.
    pub trait SessionEnds {
        /// Notes up to [`MAX_BATCH`](super::MAX_BATCH) ends for
        /// [`ENDS_KEPT`](crate::base::session_key::ENDS_KEPT), and publishes the message, unless it
        /// is empty, on the gateways' channel in the same step. Of two ends of a session the one with
        /// more ids stays.
        async fn end_sessions(&self, ended: &[EndedSession], message: &str) -> StoreResult<()>, writes;

        /// What is noted of up to [`MAX_BATCH`](super::MAX_BATCH) sessions, in no particular order.
        async fn ended_sessions(&self, keys: &[SessionKey]) -> StoreResult<Vec<EndedSession>>, reads;
    }
}
