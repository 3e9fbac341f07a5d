//! Sessions without a socket of which an id is over: the user left, was sent away, or has another id
//! since a switch to another live. A beat that arrives late with such an id, on this gateway or
//! another, must not bring the user back, although the signature of the id is still good. Each
//! gateway remembers what is over for a while, and tells it to the others.
//!
//! A session that fell silent is not over: its client may go on with it.

use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use serde::{Deserialize, Serialize};

use super::queue::Queue;
use crate::base::session_key::SessionKey;

/// How long it is remembered. A beat that is under way for longer is a client that wants to be there
/// again.
const REMEMBERED: Duration = Duration::from_secs(120);

/// About how many are remembered, the newest ones.
const MOST: u64 = 1 << 20;

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

/// Which ids of a session are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedSession {
    pub key: SessionKey,
    /// The ids with a lower number are over.
    pub below: u32,
    pub why: Over,
}

impl EndedSession {
    /// All ids of the session are over.
    pub(crate) fn for_good(key: SessionKey, why: Over) -> Self {
        Self {
            key,
            below: u32::MAX,
            why,
        }
    }
}

pub(crate) struct EndedSessions {
    recent: Cache<SessionKey, EndedSession>,
    /// What the other gateways have not been told.
    pub(crate) to_tell: Queue<EndedSession>,
    /// What other gateways told.
    pub(crate) heard: Queue<EndedSession>,
}

impl Default for EndedSessions {
    fn default() -> Self {
        Self {
            recent: Cache::builder()
                .max_capacity(MOST)
                .time_to_live(REMEMBERED)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            to_tell: Queue::default(),
            heard: Queue::default(),
        }
    }
}

impl EndedSessions {
    /// Notes what is over because of something on this gateway.
    pub(crate) fn note(&self, ended: EndedSession) {
        self.remember(ended);
        self.to_tell.push(ended);
    }

    /// Notes what another gateway says is over.
    pub(crate) fn hear(&self, ended: EndedSession) {
        self.remember(ended);
        self.heard.push(ended);
    }

    fn remember(&self, ended: EndedSession) {
        let is_newer = match self.recent.get(&ended.key) {
            Some(known) => known.below < ended.below,
            None => true,
        };
        if is_newer {
            self.recent.insert(ended.key, ended);
        }
    }

    /// Why the id with this number is over; `None` if it may still be good.
    pub(crate) fn over(&self, key: &SessionKey, number: u32) -> Option<Over> {
        let ended = self.recent.get(key)?;
        if number < ended.below {
            Some(ended.why)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_from_before_a_switch_are_over_and_those_from_after_it_are_not() {
        let ended = EndedSessions::default();
        let key = SessionKey::from_bytes([7; 16]);
        assert_eq!(ended.over(&key, 0), None);
        let switched = EndedSession {
            key,
            below: 2,
            why: Over::Switched,
        };
        ended.note(switched);
        assert_eq!(ended.over(&key, 1), Some(Over::Switched));
        assert_eq!(ended.over(&key, 2), None);
        ended.hear(EndedSession::for_good(key, Over::Removed));
        // News that come late change nothing.
        ended.hear(switched);
        assert_eq!(ended.over(&key, 2), Some(Over::Removed));
        assert_eq!(ended.to_tell.take().len(), 1);
        assert_eq!(ended.heard.take().len(), 2);
    }
}
