//! Sessions without a socket that ended for good: their users left, or were sent away. A beat that
//! arrives late, on this gateway or another, must not bring such a session back, although its id is
//! still good. Each gateway remembers the ends for a while, and tells them to the others.
//!
//! A session that fell silent has not ended in this sense: its client may go on with it.

use std::time::Duration;

use moka::sync::Cache;

use super::queue::Queue;
use crate::base::session_key::SessionKey;

/// How long an end is remembered. A beat that is under way for longer is a client that wants to be
/// there again.
const REMEMBERED: Duration = Duration::from_secs(120);

/// About how many ends are remembered, the newest ones.
const MOST: u64 = 1 << 20;

pub(crate) struct EndedSessions {
    recent: Cache<SessionKey, ()>,
    /// Ends on this gateway that the others have not been told.
    pub(crate) to_tell: Queue<SessionKey>,
    /// Ends that other gateways told.
    pub(crate) heard: Queue<SessionKey>,
}

impl Default for EndedSessions {
    fn default() -> Self {
        Self {
            recent: Cache::builder()
                .max_capacity(MOST)
                .time_to_live(REMEMBERED)
                .build(),
            to_tell: Queue::default(),
            heard: Queue::default(),
        }
    }
}

impl EndedSessions {
    /// Notes that a session ended on this gateway.
    pub(crate) fn note(&self, key: SessionKey) {
        self.recent.insert(key, ());
        self.to_tell.push(key);
    }

    /// Notes that another gateway says that a session ended there.
    pub(crate) fn hear(&self, key: SessionKey) {
        self.recent.insert(key, ());
        self.heard.push(key);
    }

    /// Whether a session ended a short time ago.
    pub(crate) fn contains(&self, key: &SessionKey) -> bool {
        self.recent.contains_key(key)
    }
}
