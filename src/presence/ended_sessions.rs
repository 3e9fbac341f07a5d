//! Sessions without a socket of which an id is over: the user left, was sent away, or has another id
//! since a switch to another live. A beat that arrives late with such an id, on this gateway or
//! another, must not bring the user back, although the signature of the id is still good. The store
//! remembers what is over for longer than an id is good ([`crate::store::SessionEnds`]), and
//! `sync::session_ends` writes it. What this gateway remembers itself spares it the question, and
//! goes back to a store that lost it.
//!
//! A session that fell silent is not over: its client may go on with it.

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use tokio::sync::Notify;

use super::queue::Queue;
use crate::base::session_key::{ENDS_KEPT, SessionKey};
use crate::store::{EndedSession, Over};

/// About how many are remembered, the newest ones.
const MOST: u64 = 1 << 20;

pub(crate) struct EndedSessions {
    recent: Cache<SessionKey, EndedSession>,
    /// What the store has not been told.
    pub(crate) to_tell: Queue<EndedSession>,
    /// What other gateways told.
    pub(crate) heard: Queue<EndedSession>,
    /// Wakes the task that asks the store about every session here.
    pub(crate) missed: Notify,
}

impl Default for EndedSessions {
    fn default() -> Self {
        Self {
            recent: Cache::builder()
                .max_capacity(MOST)
                .time_to_live(ENDS_KEPT)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            to_tell: Queue::default(),
            heard: Queue::default(),
            missed: Notify::new(),
        }
    }
}

impl EndedSessions {
    /// Notes what is over because of something on this gateway.
    pub(crate) fn note(&self, ended: EndedSession) {
        self.remember(ended);
        self.to_tell.push(ended);
    }

    /// Notes what another gateway or the store says is over.
    pub(crate) fn hear(&self, ended: EndedSession) {
        self.remember(ended);
        self.heard.push(ended);
    }

    /// Notes that other gateways may have told something that did not arrive.
    pub(crate) fn note_missed(&self) {
        self.missed.notify_one();
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

    /// Why the id with this number is over, as far as this gateway remembers.
    pub(crate) fn over(&self, key: &SessionKey, number: u32) -> Option<Over> {
        self.recent.get(key)?.over(number)
    }

    /// Whether an end is still worth telling.
    pub(crate) fn remembers(&self, ended: &EndedSession) -> bool {
        self.recent.contains_key(&ended.key)
    }

    /// Everything that this gateway remembers.
    pub(crate) fn all(&self) -> Vec<EndedSession> {
        self.recent.iter().map(|(_, ended)| ended).collect()
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
