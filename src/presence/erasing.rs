//! What this gateway knows of erasures. While a user is being erased, the gateway lets nobody be
//! that user and changes nothing about the user. Whose erasure ended it remembers for a day, as
//! digests: a session that began before does not come back. `sync::eraser` reads both from the
//! store.
//!
//! A gateway that was cut off during a whole erasure *missed* it: when it is back, it may still hold
//! something of the user.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::RwLock;
use tokio::sync::Notify;

use crate::base::clock::{Moment, UnixMillis, millis};
use crate::base::ids::{ErasureId, UserId};
use crate::base::user_digest::UserDigest;
use crate::store::ERASED_KEPT;

/// How far the clocks of gateways and of the store may differ, in ms. Nobody begins a session in the
/// last seconds of an erasure, so that much may be taken from its end.
const SKEW: UnixMillis = 5_000;

/// So much of what was heard is asked for again, in ms: another node of the store may have taken
/// over, whose clock is behind.
const OVERLAP: UnixMillis = 60_000;

#[derive(Debug, Default)]
pub struct ErasingUsers {
    /// Whether there are any. Nearly always there are none, and nobody takes the lock then.
    any: AtomicBool,
    /// Whether something erases users here, and tells of it.
    expected: AtomicBool,
    known: RwLock<KnownErasures>,
    asked: Notify,
    to_send_away: Notify,
    to_clear: Notify,
}

#[derive(Debug, Default)]
struct KnownErasures {
    running: HashMap<UserId, Running>,
    /// When the erasure of a user ended, by the store's clock.
    ended: HashMap<UserDigest, UnixMillis>,
    /// What was missed, until the sessions of these users were sent away.
    missed: Missed,
    /// The users whose erasure began or ended, until the rooms were cleared of them.
    changed: Vec<UserId>,
    /// The store's time of the last news; 0 before the first.
    heard: UnixMillis,
    /// When the store last did not tell.
    deaf: Moment,
}

#[derive(Debug)]
struct Running {
    id: ErasureId,
    /// When this gateway learned of it.
    since: Moment,
}

/// Erasures that began and ended while this gateway heard of none.
#[derive(Debug, Default)]
pub struct Missed(HashSet<UserDigest>);

impl Missed {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the erasure of this user is among them.
    pub fn has(&self, user: &UserId) -> bool {
        !self.is_empty() && self.0.contains(&UserDigest::of(user))
    }
}

impl ErasingUsers {
    /// Whether nobody is being erased.
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Acquire)
    }

    /// Whether a user is being erased.
    pub fn contains(&self, user: &UserId) -> bool {
        !self.is_empty() && self.known.read().running.contains_key(user)
    }

    /// How many are being erased.
    pub fn len(&self) -> usize {
        self.known.read().running.len()
    }

    /// Whether a session that began at this time was over with an erasure of its user.
    pub fn has_erased_since(&self, user: &UserId, began: UnixMillis) -> bool {
        let known = self.known.read();
        if known.ended.is_empty() {
            return false;
        }
        let ended = known.ended.get(&UserDigest::of(user));
        ended.is_some_and(|ended| began.saturating_add(SKEW) < *ended)
    }

    /// From now on this gateway waits for the store to tell of erasures.
    pub fn expect_news(&self) {
        self.expected.store(true, Ordering::Release);
    }

    /// Whether the store has told anything yet, or nobody is to be erased.
    pub fn has_heard(&self) -> bool {
        !self.expected.load(Ordering::Acquire) || self.known.read().heard > 0
    }

    /// Since when this gateway has known without a break that a user is being erased; `None` if it
    /// knows of nothing. What keeps this gateway from the store may keep others from it, too.
    pub fn known_since(&self, user: &UserId) -> Option<Moment> {
        let known = self.known.read();
        let running = known.running.get(user)?;
        Some(running.since.max(known.deaf))
    }

    /// Notes an erasure that this gateway was asked for.
    pub fn ask(&self, user: &UserId, id: &ErasureId, now: Moment) {
        let mut known = self.known.write();
        known.learn(user.clone(), id.clone(), now);
        self.any.store(true, Ordering::Release);
        drop(known);
        self.asked.notify_one();
        self.to_send_away.notify_one();
        self.to_clear.notify_one();
    }

    /// After which end to ask for news.
    pub fn heard(&self) -> UnixMillis {
        self.known.read().heard.saturating_sub(OVERLAP)
    }

    /// Notes that the store did not tell.
    pub fn note_deaf(&self, now: Moment) {
        let mut known = self.known.write();
        known.deaf = known.deaf.max(now);
    }

    /// The erasures in the news that this process missed, which began at `started`.
    pub fn missed(&self, news: &ErasureNews, started: UnixMillis) -> Missed {
        let known = self.known.read();
        let mut missed = HashSet::new();
        for (digest, at) in &news.ended {
            let is_known = known.ended.get(digest).is_some_and(|known| known >= at);
            if !is_known && at.saturating_add(SKEW) > started {
                missed.insert(*digest);
            }
        }
        if !missed.is_empty() {
            for user in known.running.keys() {
                missed.remove(&UserDigest::of(user));
            }
        }
        Missed(missed)
    }

    /// Takes the news in, with what was missed. An erasure that was asked for after `read_at` stays:
    /// the store may have answered before. Answers the users whose erasure has ended.
    pub fn hear(
        &self,
        news: ErasureNews,
        missed: Missed,
        read_at: Moment,
        now: Moment,
    ) -> Vec<UserId> {
        let mut known = self.known.write();
        let mut running = HashSet::new();
        for (user, id) in news.running {
            running.insert(user.clone());
            known.learn(user, id, now);
        }
        let gone = known
            .running
            .extract_if(|user, it| !running.contains(user) && it.since < read_at);
        let gone: Vec<UserId> = gone.map(|(user, _)| user).collect();
        known.changed.extend(gone.iter().cloned());
        if !news.ended.is_empty() {
            known.ended.extend(news.ended);
            let oldest = news.at.saturating_sub(millis(ERASED_KEPT));
            known.ended.retain(|_, at| *at > oldest);
        }
        known.missed.0.extend(missed.0);
        known.heard = known.heard.max(news.at);
        self.any.store(!known.running.is_empty(), Ordering::Release);
        if !known.changed.is_empty() {
            self.to_clear.notify_one();
            self.to_send_away.notify_one();
        }
        if !known.missed.is_empty() {
            self.to_send_away.notify_one();
        }
        gone
    }

    /// Waits until this gateway was asked for an erasure.
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Waits until sessions are to be sent away: those of the users who are being erased, and those
    /// of whom the answer says so.
    pub async fn to_send_away(&self) -> Missed {
        self.to_send_away.notified().await;
        std::mem::take(&mut self.known.write().missed)
    }

    /// Waits until rooms are to be cleared of users, and answers of whom.
    pub async fn to_clear(&self) -> Vec<UserId> {
        self.to_clear.notified().await;
        std::mem::take(&mut self.known.write().changed)
    }
}

impl KnownErasures {
    fn learn(&mut self, user: UserId, id: ErasureId, now: Moment) {
        if let Some(known) = self.running.get(&user)
            && known.id == id
        {
            return;
        }
        self.changed.push(user.clone());
        self.running.insert(user, Running { id, since: now });
    }
}

/// What every gateway must know of erasures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErasureNews {
    /// When the store answered, by its clock.
    pub at: UnixMillis,
    /// The users who are being erased, each with the erasure.
    pub running: Vec<(UserId, ErasureId)>,
    /// When the oldest of these erasures was asked for.
    pub oldest: Option<UnixMillis>,
    /// The users whose erasure has ended, and when, by the store's clock.
    pub ended: Vec<(UserDigest, UnixMillis)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn running(users: &[&str]) -> ErasureNews {
        let mut news = ErasureNews::default();
        for id in users {
            let erasure = ErasureId::parse(&format!("er-{id}")).unwrap();
            news.running.push((user(id), erasure));
        }
        news
    }

    fn ended(id: &str, at: UnixMillis) -> ErasureNews {
        ErasureNews {
            at,
            ended: vec![(UserDigest::of(&user(id)), at)],
            ..ErasureNews::default()
        }
    }

    fn hear(erasing: &ErasingUsers, news: ErasureNews, read_at: Moment) -> Vec<UserId> {
        let missed = erasing.missed(&news, 0);
        erasing.hear(news, missed, read_at, read_at + 10)
    }

    #[test]
    fn a_user_is_in_the_set_until_the_store_says_otherwise() {
        let erasing = ErasingUsers::default();
        let [ann, bob] = ["ann", "bob"].map(user);
        assert!(!erasing.contains(&ann));
        erasing.ask(&ann, &ErasureId::parse("er-ann").unwrap(), moment(100));
        // The store answered before the erasure was noted there.
        assert!(hear(&erasing, running(&["bob"]), moment(90)).is_empty());
        assert!(erasing.contains(&ann) && erasing.contains(&bob));
        hear(&erasing, running(&["ann", "bob"]), moment(120));
        let known = [erasing.known_since(&ann), erasing.known_since(&bob)];
        assert_eq!(known, [Some(moment(100)), Some(moment(100))]);
        erasing.note_deaf(moment(130));
        assert_eq!(erasing.known_since(&bob), Some(moment(130)));
        // The next erasure of the same user is another one.
        erasing.ask(&bob, &ErasureId::parse("er-2").unwrap(), moment(135));
        assert_eq!(erasing.known_since(&bob), Some(moment(135)));
        let ended = hear(&erasing, running(&["bob"]), moment(140));
        assert!(!erasing.contains(&ann) && erasing.len() == 1);
        assert_eq!(ended, [ann]);
    }

    #[test]
    fn an_erasure_was_missed_if_it_was_neither_known_nor_before_this_process() {
        let erasing = ErasingUsers::default();
        let [ann, bob] = ["ann", "bob"].map(user);
        let news = ended("ann", 50_000);
        assert!(erasing.missed(&news, 60_000).is_empty(), "long before");
        assert!(erasing.missed(&news, 54_000).has(&ann));
        assert!(!erasing.missed(&news, 54_000).has(&bob));
        hear(&erasing, news.clone(), moment(10));
        assert!(erasing.missed(&news, 0).is_empty(), "it is known");
        // A session that began before it does not come back; one that began after it stays.
        assert!(erasing.has_erased_since(&ann, 44_999));
        assert!(!erasing.has_erased_since(&ann, 45_000));
        assert!(!erasing.has_erased_since(&bob, 0));
        assert!(erasing.missed(&ended("ann", 90_000), 0).has(&ann), "again");
        // Of this one the gateway has heard while it ran.
        hear(&erasing, running(&["bob"]), moment(20));
        let end = ended("bob", 100_000);
        assert!(erasing.missed(&end, 0).is_empty());
        assert_eq!(hear(&erasing, end, moment(40)), [bob]);
        let day = millis(ERASED_KEPT);
        hear(&erasing, ended("bob", 50_000 + day), moment(50));
        assert!(!erasing.has_erased_since(&ann, 0), "a day is over");
    }

    #[tokio::test]
    async fn what_is_to_do_waits_until_it_is_taken() {
        let erasing = ErasingUsers::default();
        let ann = user("ann");
        hear(&erasing, ended("ann", 50_000), moment(10));
        hear(&erasing, running(&["bob"]), moment(20));
        assert!(erasing.to_send_away().await.has(&ann));
        assert_eq!(erasing.to_clear().await, [user("bob")]);
        hear(&erasing, ErasureNews::default(), moment(40));
        assert_eq!(erasing.to_clear().await, [user("bob")]);
    }
}
