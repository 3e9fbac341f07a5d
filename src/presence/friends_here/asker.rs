//! A viewer's socket that asked for its friends in a room: whom the viewer follows, who of them is
//! here, and what the viewer was told.

use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::base::clock::Millis;
use crate::base::ids::UserId;
use crate::presence::conn::{Conn, Signals};

/// A viewer is shown so many friends at most.
const MOST_SHOWN: usize = 20;

#[derive(Debug)]
pub struct Asker {
    conn: Arc<Conn>,
    answer: Mutex<Answer>,
}

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) followed: HashSet<UserId>,
    pub(super) here: BTreeSet<UserId>,
    pub(super) partial: bool,
    /// It is known whom the viewer follows.
    pub(super) is_loaded: bool,
    /// Of so many of them it is not known yet whether they are here.
    pub(super) unknown: usize,
    /// The viewer is to be told.
    pub(super) waits: bool,
    pub(super) told_at: Option<Millis>,
    shown: Option<FriendsShown>,
}

/// What a viewer is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FriendsShown {
    pub count: usize,
    /// The first of them, by id.
    pub users: Vec<UserId>,
    /// Not all whom the viewer follows were looked for.
    pub partial: bool,
}

impl Answer {
    /// Whether it is known of everybody whom the viewer follows whether they are here.
    pub(super) fn is_known(&self) -> bool {
        self.is_loaded && self.unknown == 0
    }
}

impl Asker {
    pub(super) fn new(conn: Arc<Conn>) -> Self {
        Self {
            conn,
            answer: Mutex::default(),
        }
    }

    pub fn is_of(&self, conn: &Arc<Conn>) -> bool {
        Arc::ptr_eq(&self.conn, conn)
    }

    pub fn user(&self) -> &UserId {
        &self.conn.identity.user
    }

    pub(super) fn answer(&self) -> MutexGuard<'_, Answer> {
        self.answer.lock()
    }

    /// Has the socket send what is new.
    pub(super) fn wake(&self) {
        self.conn.signal(Signals::FRIENDS);
    }

    /// What the viewer is shown next, if that is anything new.
    pub fn news(&self) -> Option<FriendsShown> {
        let mut answer = self.answer.lock();
        if !answer.is_known() {
            return None;
        }
        let users = answer.here.iter().take(MOST_SHOWN).cloned().collect();
        let shown = FriendsShown {
            count: answer.here.len(),
            users,
            partial: answer.partial,
        };
        if answer.shown.as_ref() == Some(&shown) {
            return None;
        }
        answer.shown = Some(shown.clone());
        Some(shown)
    }

    #[cfg(test)]
    pub(super) fn take(&self, signals: Signals) -> Signals {
        self.conn.take(signals)
    }
}

/// An asker among others: each is itself alone.
#[derive(Debug, Clone)]
pub(super) struct ByAddress(pub(super) Arc<Asker>);

impl PartialEq for ByAddress {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ByAddress {}

impl Hash for ByAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Not the address: with that, the order in a set would be another one in each process.
        self.0.conn.identity.user.hash(state);
    }
}
