//! The streamers' sockets on this gateway, and the lives whose streamer is gone. State only: `sync::streamers` tells
//! the store, and `sync::streamer_timeout` judges who is gone.
//!
//! A live with a streamer timeout lasts while the streamer is connected to any gateway, whether or not that gateway has
//! a room of the live.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::base::clock::Millis;
use crate::base::identity::Role;
use crate::base::ids::{LiveId, UserId};
use crate::presence::conn::Conn;
use crate::store::Presence;

/// The time for which a streamer who left is remembered, in ms. A failover may take back what the store was told since,
/// so where there is doubt the store is told once more.
const LEFT_KEPT: Millis = 60_000;

#[derive(Debug, Default)]
pub struct Streamers {
    here: DashMap<UserId, Vec<Arc<Conn>>>,
    /// The streamers whom the store may have to be told about, each with the time when a socket was last heard.
    changed: Mutex<HashMap<UserId, Millis>>,
    notify: Notify,
    told: Mutex<HashMap<UserId, Told>>,
    /// The lives whose streamer is gone.
    absent: Mutex<HashMap<LiveId, Absence>>,
    someone_left: Notify,
    /// Whether this gateway walks over all lives, and so also judges the streamers of other gateways.
    judges_all: AtomicBool,
}

/// What the store was told of a streamer.
#[derive(Debug, Clone, Copy)]
struct Told {
    presence: Presence,
    /// The incarnation of this gateway that told the store; 0 if the store may have lost it since.
    incarnation: u32,
    at: Millis,
}

/// What the store must be told of a streamer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    pub presence: Presence,
    /// The store was told the same before, and may have lost it.
    pub again: bool,
}

/// Since when a streamer is gone, by this gateway's clock.
#[derive(Debug, Clone, Copy)]
pub struct Absence {
    pub since: Millis,
    /// When to look whether the streamer has come back.
    pub look_at: Millis,
    /// The last look had no answer: while the store was away nobody could tell it who is connected.
    pub failed: bool,
}

impl Streamers {
    /// Notes a socket, if it is a streamer's.
    pub fn admit(&self, conn: &Arc<Conn>) {
        if conn.role() != Role::Streamer {
            return;
        }
        let user = &conn.identity.user;
        let mut conns = self.here.entry(user.clone()).or_default();
        conns.push(conn.clone());
        if conns.len() == 1 {
            self.change(user.clone(), conn.last_heard());
        }
    }

    /// Forgets a socket that ended, or is no streamer's any more.
    pub fn forget(&self, conn: &Arc<Conn>) {
        // No role is ever raised, and nearly all sockets are viewers'.
        if conn.identity.role == Role::Viewer {
            return;
        }
        let user = &conn.identity.user;
        if let Some(mut conns) = self.here.get_mut(user) {
            conns.retain(|other| !Arc::ptr_eq(other, conn));
        }
        if self.here.remove_if(user, |_, conns| conns.is_empty()).is_some() {
            self.change(user.clone(), conn.last_heard());
        }
    }

    pub fn is_here(&self, streamer: &UserId) -> bool {
        self.here.contains_key(streamer)
    }

    // ---------------------------------------------------------------------------------------- what the store is told

    /// Makes everything due again: the store may have lost what it was told, or was told it under another id.
    pub fn tell_all_again(&self) {
        let mut users: HashSet<UserId> = self.here.iter().map(|there| there.key().clone()).collect();
        for (user, told) in self.told.lock().iter_mut() {
            told.incarnation = 0;
            users.insert(user.clone());
        }
        users.into_iter().for_each(|user| self.change(user, 0));
    }

    fn change(&self, user: UserId, heard: Millis) {
        let mut changed = self.changed.lock();
        let there = changed.entry(user).or_insert(heard);
        *there = heard.max(*there);
        drop(changed);
        self.notify.notify_one();
    }

    pub async fn changes(&self) {
        self.notify.notified().await;
    }

    pub fn take_changed(&self) -> HashMap<UserId, Millis> {
        std::mem::take(&mut *self.changed.lock())
    }

    /// What this incarnation must tell the store of a streamer, if anything.
    pub fn news(&self, user: &UserId, incarnation: u32) -> Option<News> {
        let presence = if self.is_here(user) { Presence::Here } else { Presence::Gone };
        match self.told.lock().get(user) {
            Some(told) if told.presence != presence => Some(News { presence, again: false }),
            Some(told) => (told.incarnation != incarnation).then_some(News { presence, again: true }),
            None => (presence == Presence::Here).then_some(News { presence, again: false }),
        }
    }

    /// Notes that this incarnation told the store.
    pub fn note_told(&self, user: &UserId, news: News, incarnation: u32, now: Millis) {
        let mut told = self.told.lock();
        let at = told.get(user).filter(|_| news.again).map_or(now, |told| told.at);
        told.insert(user.clone(), Told { presence: news.presence, incarnation, at });
    }

    /// Forgets the streamers who left long ago.
    pub fn forget_left(&self, now: Millis) {
        let is_kept = |told: &Told| told.presence == Presence::Here || now.saturating_sub(told.at) < LEFT_KEPT;
        self.told.lock().retain(|_, told| is_kept(told));
    }

    // ---------------------------------------------------------------------------------------------- who is absent

    /// Notes that the streamer of these lives left a gateway, and was last heard at `since`.
    pub fn left(&self, lives: &[LiveId], since: Millis) {
        let mut absent = self.absent.lock();
        for live in lives {
            let absence = absent.entry(live.clone()).or_insert(Absence { since, look_at: since, failed: false });
            // A streamer who came back and left again gets the whole timeout again.
            absence.since = absence.since.max(since);
        }
        self.someone_left.notify_one();
    }

    /// As [`Streamers::left`], told by a peer. The gateway that walks judges these streamers too, in case the peer
    /// dies.
    pub fn peer_says_left(&self, lives: &[LiveId], since: Millis) {
        if self.judges_all.load(Ordering::Relaxed) {
            self.left(lives, since);
        }
    }

    pub fn judge_all(&self, judges_all: bool) {
        self.judges_all.store(judges_all, Ordering::Relaxed);
    }

    /// Notes that the walk found the streamer of a live gone.
    pub fn found_absent(&self, live: &LiveId, now: Millis) {
        self.absent.lock().entry(live.clone()).or_insert(Absence { since: now, look_at: now, failed: false });
        self.someone_left.notify_one();
    }

    /// Notes that the walk found the streamer of a live connected.
    pub fn found_present(&self, live: &LiveId) {
        self.absent.lock().remove(live);
    }

    pub async fn departures(&self) {
        self.someone_left.notified().await;
    }

    pub fn next_look(&self) -> Option<Millis> {
        self.absent.lock().values().map(|absence| absence.look_at).min()
    }

    pub fn looks_due(&self, now: Millis) -> Vec<(LiveId, Absence)> {
        let absent = self.absent.lock();
        absent.iter().filter(|(_, there)| there.look_at <= now).map(|(live, there)| (live.clone(), *there)).collect()
    }

    /// Notes what a look at `seen` led to: when to look again, and whether the look failed; `None` settles the matter.
    pub fn looked(&self, live: &LiveId, seen: &Absence, next: Option<(Millis, bool)>, now: Millis) {
        let mut absent = self.absent.lock();
        match (next, absent.get_mut(live)) {
            (Some((look_at, failed)), Some(there)) => (there.look_at, there.failed) = (look_at, failed),
            (None, Some(there)) if there.since == seen.since => drop(absent.remove(live)),
            // The streamer left once more meanwhile.
            (None, Some(there)) => there.look_at = now,
            (_, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::identity::Identity;

    fn streamer() -> Arc<Conn> {
        let identity = Identity { user: UserId::parse("s1").unwrap(), role: Role::Streamer, counted: true };
        Arc::new(Conn::new(identity, 0))
    }

    const HERE: News = News { presence: Presence::Here, again: false };
    const GONE: News = News { presence: Presence::Gone, again: false };

    #[test]
    fn a_departure_is_told_after_an_arrival_that_may_have_been_written() {
        let (streamers, conn) = (Streamers::default(), streamer());
        let user = &conn.identity.user;
        streamers.admit(&conn);
        assert_eq!(streamers.news(user, 1), Some(HERE));
        streamers.note_told(user, HERE, 0, 10);
        streamers.forget(&conn);
        assert_eq!(streamers.news(user, 1), Some(GONE));
    }

    #[test]
    fn a_departure_is_told_once_more_after_doubt_and_only_for_a_while() {
        let (streamers, conn) = (Streamers::default(), streamer());
        let user = &conn.identity.user;
        streamers.admit(&conn);
        streamers.note_told(user, HERE, 1, 10);
        streamers.forget(&conn);
        streamers.note_told(user, GONE, 1, 1_000);
        assert_eq!(streamers.news(user, 1), None);
        streamers.tell_all_again();
        assert_eq!(streamers.news(user, 1), Some(News { again: true, ..GONE }));
        streamers.forget_left(1_000 + LEFT_KEPT);
        assert_eq!(streamers.news(user, 1), None);
    }
}
