//! The users who are being erased, as far as this gateway knows. While a user is among them, the
//! gateway lets nobody be that user and changes nothing about the user. The loop in
//! `sync::erasure` reads the set from the store.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::base::clock::Millis;
use crate::base::ids::UserId;

#[derive(Debug, Default)]
pub struct ErasingUsers {
    /// Whether there are any. Nearly always there are none, and nobody takes the lock then.
    any: AtomicBool,
    /// Each with the time at which this gateway learned of it.
    since: RwLock<HashMap<UserId, Millis>>,
    asked: Notify,
    added: Notify,
}

impl ErasingUsers {
    /// Whether nobody is being erased.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Whether a user is being erased.
    pub fn contains(&self, user: &UserId) -> bool {
        !self.is_empty() && self.since.read().contains_key(user)
    }

    /// When this gateway learned that a user is being erased; `None` if it knows of nothing.
    pub fn since(&self, user: &UserId) -> Option<Millis> {
        self.since.read().get(user).copied()
    }

    /// All of them.
    pub fn all(&self) -> Vec<UserId> {
        self.since.read().keys().cloned().collect()
    }

    /// Notes an erasure that this gateway was asked for.
    pub fn ask(&self, user: &UserId, now: Millis) {
        let mut since = self.since.write();
        since.entry(user.clone()).or_insert(now);
        self.any.store(true, Ordering::Release);
        drop(since);
        self.asked.notify_one();
        self.added.notify_one();
    }

    /// Replaces the set by what the store says. An erasure that was asked for after `read_at` stays:
    /// the store may have answered before.
    pub fn replace(&self, users: Vec<UserId>, read_at: Millis, now: Millis) {
        let mut since = self.since.write();
        let mut new = HashMap::with_capacity(users.len());
        let mut is_larger = false;
        for user in users {
            let known = since.get(&user).copied();
            is_larger |= known.is_none();
            new.insert(user, known.unwrap_or(now));
        }
        for (user, at) in since.drain() {
            if at >= read_at {
                new.entry(user).or_insert(at);
            }
        }
        *since = new;
        self.any.store(!since.is_empty(), Ordering::Release);
        drop(since);
        if is_larger {
            self.added.notify_one();
        }
    }

    /// Waits until this gateway was asked for an erasure.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Waits until the set has grown.
    pub async fn added(&self) {
        self.added.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_in_the_set_until_the_store_says_otherwise() {
        let erasing = ErasingUsers::default();
        let [ann, bob] = ["ann", "bob"].map(|id| UserId::parse(id).unwrap());
        assert!(!erasing.contains(&ann));
        erasing.ask(&ann, 100);
        // The store answered before the erasure was noted there.
        erasing.replace(vec![bob.clone()], 90, 110);
        assert!(erasing.contains(&ann) && erasing.contains(&bob));
        erasing.replace(vec![ann.clone(), bob.clone()], 120, 130);
        let known = [erasing.since(&ann), erasing.since(&bob)];
        assert_eq!(known, [Some(100), Some(110)]);
        erasing.replace(Vec::new(), 140, 150);
        assert!(!erasing.contains(&ann) && erasing.all().is_empty());
    }
}
