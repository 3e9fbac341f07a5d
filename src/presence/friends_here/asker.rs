//! A viewer's socket that asked for its friends in a room: the users whom the viewer follows, those
//! among them who are here, and the last answer to the viewer.

use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::base::clock::Moment;
use crate::base::ids::UserId;
use crate::presence::conn::{Conn, Signals};

/// The most friends that an answer shows.
const MOST_SHOWN: usize = 20;

#[derive(Debug)]
pub struct Asker {
    conn: Arc<Conn>,
    answer: Mutex<FriendsAnswer>,
}

#[derive(Debug, Default)]
pub(super) struct FriendsAnswer {
    pub(super) followed: HashSet<UserId>,
    pub(super) here: BTreeSet<UserId>,
    pub(super) partial: bool,
    /// Whether the follows of the viewer were read.
    pub(super) is_loaded: bool,
    /// The number of followed users who may be here or not, as far as the index knows yet.
    pub(super) unknown: usize,
    /// Whether the viewer waits for an answer.
    pub(super) waits: bool,
    pub(super) told_at: Option<Moment>,
    shown: Option<FriendsShown>,
}

/// An answer to a viewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FriendsShown {
    pub count: usize,
    /// The first friends by id.
    pub users: Vec<UserId>,
    /// The gateway did not look for all users whom the viewer follows.
    pub partial: bool,
}

impl FriendsAnswer {
    /// Whether the index knows for each followed user whether the user is here.
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

    pub(super) fn answer(&self) -> MutexGuard<'_, FriendsAnswer> {
        self.answer.lock()
    }

    /// Makes the socket send the news.
    pub(super) fn wake(&self) {
        self.conn.signal(Signals::FRIENDS);
    }

    /// The next answer to the viewer, if it differs from the last one.
    pub fn update(&self) -> Option<FriendsShown> {
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

/// An asker in a set, equal only to itself.
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
        // Not the address, which would make the order in a set differ from process to process.
        self.0.conn.identity.user.hash(state);
    }
}
