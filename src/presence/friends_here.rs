//! The viewers of a room who asked which of their friends are there, and whom they follow. One index, from followed
//! user to those who asked, serves the whole room: a move of a user whom nobody who asked follows costs one look-up.
//!
//! State only. `sync::friends` reads whom a viewer follows, and where those users are, as far as there is doubt; a
//! socket sends the newest answer when it gets to it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

use super::conn::{Conn, Signals};
use super::pushed_counts::EVERY;
use crate::base::clock::Millis;
use crate::base::ids::UserId;

/// A viewer is shown so many friends at most.
pub const MOST_SHOWN: usize = 20;

/// On this gateway, so many follows of viewers who asked are kept at most, each of some 250 bytes. Those who ask then
/// get a partial answer.
const MOST_FOLLOWS: usize = 500_000;

/// So many viewers' follows are read at a time.
const LOADED_AT_ONCE: usize = 16;

/// So long the first answer of a room waits until the gateway hears of moves, in ms.
const HEARS_WITHIN: Millis = 1_000;

/// How many follows are kept on this gateway.
#[derive(Debug, Default)]
pub struct Follows(AtomicUsize);

impl Follows {
    /// Takes room for up to so many follows; how many there is room for.
    fn take(&self, wanted: usize) -> usize {
        let mut taken = 0;
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| {
            taken = wanted.min(MOST_FOLLOWS.saturating_sub(kept));
            Some(kept + taken)
        });
        taken
    }

    fn give_back(&self, some: usize) {
        self.0.fetch_sub(some, Ordering::Relaxed);
    }

    pub fn kept(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// A viewer's socket that asked.
#[derive(Debug)]
pub struct Asker {
    conn: Arc<Conn>,
    answer: Mutex<Answer>,
}

#[derive(Debug, Default)]
struct Answer {
    followed: HashSet<UserId>,
    here: BTreeSet<UserId>,
    partial: bool,
    /// It is known whom the viewer follows.
    is_loaded: bool,
    /// Of so many of them it is not known yet whether they are here.
    unknown: usize,
    /// The viewer is to be told.
    waits: bool,
    told_at: Option<Millis>,
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

impl Asker {
    pub fn is_of(&self, conn: &Arc<Conn>) -> bool {
        Arc::ptr_eq(&self.conn, conn)
    }

    pub fn user(&self) -> &UserId {
        &self.conn.identity.user
    }

    /// What the viewer is shown next, if that is anything new.
    pub fn news(&self) -> Option<FriendsShown> {
        let mut answer = self.answer.lock();
        let users = answer.here.iter().take(MOST_SHOWN).cloned().collect();
        let shown = FriendsShown { count: answer.here.len(), users, partial: answer.partial };
        if !answer.is_loaded || answer.unknown > 0 || answer.shown.as_ref() == Some(&shown) {
            return None;
        }
        answer.shown = Some(shown.clone());
        Some(shown)
    }
}

#[derive(Debug, Clone)]
struct ByAddress(Arc<Asker>);

impl PartialEq for ByAddress {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ByAddress {}

impl Hash for ByAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

/// A user whom somebody who asked follows.
#[derive(Debug, Default)]
struct Followed {
    /// `None`: not known yet.
    is_here: Option<bool>,
    by: HashSet<ByAddress>,
}

#[derive(Debug, Default)]
struct Index {
    askers: HashSet<ByAddress>,
    followed: HashMap<UserId, Followed>,
    follows: Arc<Follows>,
    /// Viewers of whom it must be read whom they follow.
    to_load: VecDeque<Arc<Asker>>,
    /// Followed users of whom it must be read whether they are here.
    to_look: HashSet<UserId>,
    /// The same of users about whom a message may have been missed. They have time.
    doubted: HashSet<UserId>,
    doubted_askers: VecDeque<Arc<Asker>>,
    to_tell: Vec<Arc<Asker>>,
    /// The other gateways must be asked to tell who moves.
    must_ask: bool,
    /// When the first viewer asked, until the gateway hears of moves.
    deaf_since: Option<Millis>,
}

/// What to do next for a room.
#[derive(Debug)]
pub enum Work {
    /// Ask the other gateways to tell who moves.
    Ask,
    /// Read whom these viewers follow.
    Load(Vec<Arc<Asker>>),
    /// Read whether these users are here.
    Look(Vec<UserId>),
    /// Nothing before this time.
    Wait(Millis),
    Nothing,
}

/// Whether work that has time may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    Free,
    /// From this time on.
    From(Millis),
}

/// Made when the first viewer asks: most rooms have none.
#[derive(Debug, Default)]
pub struct FriendsHere {
    index: OnceLock<Box<Mutex<Index>>>,
    /// Whether this gateway hears of moves.
    hears: AtomicBool,
}

impl FriendsHere {
    fn index(&self) -> Option<MutexGuard<'_, Index>> {
        self.index.get().map(|index| index.lock())
    }

    pub fn is_empty(&self) -> bool {
        self.index().is_none_or(|index| index.askers.is_empty())
    }

    /// Notes that this gateway will hear of moves no longer.
    pub fn set_deaf(&self) {
        self.hears.store(false, Ordering::Release);
    }

    /// Adds a viewer's socket.
    pub fn add(&self, conn: &Arc<Conn>, follows: &Arc<Follows>, now: Millis) -> Arc<Asker> {
        let mut index = self.index.get_or_init(Box::default).lock();
        let asker = Arc::new(Asker { conn: conn.clone(), answer: Mutex::default() });
        if index.askers.is_empty() {
            index.follows = follows.clone();
            index.deaf_since = (!self.hears.load(Ordering::Acquire)).then_some(now);
        }
        index.askers.insert(ByAddress(asker.clone()));
        index.to_load.push_back(asker.clone());
        asker
    }

    pub fn remove(&self, asker: &Arc<Asker>) {
        let Some(mut index) = self.index() else { return };
        if !index.askers.remove(&ByAddress(asker.clone())) {
            return;
        }
        index.unfollow_all(asker);
        if index.askers.is_empty() {
            *index = Index::default();
        }
    }

    /// Forgets everybody: the room has ended.
    pub fn clear(&self) {
        let Some(mut index) = self.index() else { return };
        let askers: Vec<Arc<Asker>> = index.askers.drain().map(|asker| asker.0).collect();
        askers.iter().for_each(|asker| index.unfollow_all(asker));
        *index = Index::default();
    }

    /// Takes in whom moved. True if there is work.
    pub fn moved(&self, users: &[UserId]) -> bool {
        let Some(mut index) = self.index() else { return false };
        let Index { followed, to_look, .. } = &mut *index;
        let before = to_look.len();
        to_look.extend(users.iter().filter(|user| followed.contains_key(*user)).cloned());
        to_look.len() > before
    }

    /// Notes that this gateway hears of moves from now on, and may have missed some. True if there is work.
    pub fn hears(&self) -> bool {
        self.hears.store(true, Ordering::Release);
        let Some(mut index) = self.index() else { return false };
        if index.askers.is_empty() {
            return false;
        }
        index.must_ask = true;
        if index.deaf_since.take().is_none() {
            index.doubt_all();
        }
        true
    }

    /// Anybody may have moved. True if there is work.
    pub fn doubt(&self) -> bool {
        let Some(mut index) = self.index() else { return false };
        index.doubt_all();
        !index.askers.is_empty()
    }

    /// Any viewer who asked may follow others by now. True if there is work.
    pub fn doubt_follows(&self) -> bool {
        let Some(mut index) = self.index() else { return false };
        index.doubted_askers = index.askers.iter().map(|asker| asker.0.clone()).collect();
        !index.askers.is_empty()
    }

    /// A gateway died, so those who are here may not be. True if there is work.
    pub fn look_for_those_here(&self) -> bool {
        let Some(mut index) = self.index() else { return false };
        let Index { followed, to_look, .. } = &mut *index;
        to_look.extend(followed.iter().filter(|(_, there)| there.is_here == Some(true)).map(|(user, _)| user.clone()));
        !to_look.is_empty()
    }

    /// A viewer who asked follows others by now.
    pub fn load_again(&self, asker: &Arc<Asker>) {
        let Some(mut index) = self.index() else { return };
        if index.has(asker) && !index.to_load.iter().any(|other| Arc::ptr_eq(other, asker)) {
            index.to_load.push_back(asker.clone());
        }
    }

    /// Takes what to do next, for up to `most` users at a time. What fails goes back with [`Self::failed`].
    pub fn next(&self, most: usize, now: Millis, pace: Pace) -> Work {
        let Some(mut index) = self.index() else { return Work::Nothing };
        if std::mem::take(&mut index.must_ask) {
            return Work::Ask;
        }
        if !index.to_load.is_empty() {
            let some = index.to_load.len().min(LOADED_AT_ONCE);
            return Work::Load(index.to_load.drain(..some).collect());
        }
        if !index.to_look.is_empty() {
            return match index.deaf_since.map(|since| since + HEARS_WITHIN).filter(|until| now < *until) {
                Some(until) => Work::Wait(until),
                None => {
                    // What is read before the gateway hears of moves must be read again then.
                    index.deaf_since = None;
                    Work::Look(take(&mut index.to_look, most))
                }
            };
        }
        if index.doubted.is_empty() && index.doubted_askers.is_empty() {
            return Work::Nothing;
        }
        if let Pace::From(at) = pace {
            return Work::Wait(at);
        }
        match index.doubted_askers.pop_front() {
            Some(asker) => Work::Load(vec![asker]),
            None => Work::Look(take(&mut index.doubted, most)),
        }
    }

    /// Puts back what could not be done.
    pub fn failed(&self, work: Work) {
        let Some(mut index) = self.index() else { return };
        match work {
            Work::Ask => index.must_ask = true,
            Work::Load(askers) => {
                let still_there = askers.into_iter().filter(|asker| index.has(asker)).collect::<Vec<_>>();
                index.to_load.extend(still_there);
            }
            Work::Look(users) => {
                let Index { followed, to_look, .. } = &mut *index;
                to_look.extend(users.into_iter().filter(|user| followed.contains_key(user)));
            }
            Work::Wait(_) | Work::Nothing => {}
        }
    }

    /// Takes in whom a viewer follows, and whether those are all.
    pub fn loaded(&self, asker: &Arc<Asker>, mut users: Vec<UserId>, mut partial: bool) {
        let Some(mut index) = self.index() else { return };
        if !index.has(asker) {
            return;
        }
        let mut answer = asker.answer.lock();
        let wanted: HashSet<&UserId> = users.iter().collect();
        let over: Vec<UserId> = answer.followed.iter().filter(|user| !wanted.contains(user)).cloned().collect();
        over.iter().for_each(|user| index.unfollow(user, asker, &mut answer));
        index.follows.give_back(over.len());
        users.retain(|user| !answer.followed.contains(user));
        let room = index.follows.take(users.len());
        if room < users.len() {
            users.truncate(room);
            partial = true;
        }
        users.into_iter().for_each(|user| index.follow(user, asker, &mut answer));
        (answer.partial, answer.is_loaded) = (partial, true);
        index.must_tell(asker, &mut answer);
    }

    /// Takes in whether users are here, in the same order.
    pub fn looked(&self, users: &[UserId], are_here: &[bool]) {
        let Some(mut index) = self.index() else { return };
        let Index { followed, to_tell, .. } = &mut *index;
        for (user, is_here) in users.iter().zip(are_here) {
            let Some(there) = followed.get_mut(user).filter(|there| there.is_here != Some(*is_here)) else { continue };
            let was_unknown = there.is_here.replace(*is_here).is_none();
            for ByAddress(asker) in &there.by {
                let mut answer = asker.answer.lock();
                if *is_here {
                    answer.here.insert(user.clone())
                } else {
                    answer.here.remove(user)
                };
                answer.unknown -= usize::from(was_unknown);
                if !std::mem::replace(&mut answer.waits, true) {
                    to_tell.push(asker.clone());
                }
            }
        }
    }

    /// Wakes the sockets with news, each as often as counts are pushed. When the next is due.
    pub fn tell(&self, now: Millis) -> Option<Millis> {
        let mut index = self.index()?;
        let mut next = None::<Millis>;
        let waiting = std::mem::take(&mut index.to_tell);
        for asker in waiting {
            let mut answer = asker.answer.lock();
            if !answer.is_loaded || answer.unknown > 0 {
                // What is under way brings it back here.
                drop(answer);
                index.to_tell.push(asker);
                continue;
            }
            match answer.told_at.map(|at| at + EVERY).filter(|due| now < *due) {
                Some(due) => {
                    next = Some(next.map_or(due, |next| next.min(due)));
                    drop(answer);
                    index.to_tell.push(asker);
                }
                None => {
                    answer.waits = false;
                    answer.told_at = Some(now);
                    drop(answer);
                    asker.conn.signal(Signals::FRIENDS);
                }
            }
        }
        next
    }
}

fn take(users: &mut HashSet<UserId>, most: usize) -> Vec<UserId> {
    if users.len() <= most {
        return std::mem::take(users).into_iter().collect();
    }
    let some: Vec<UserId> = users.iter().take(most).cloned().collect();
    for user in &some {
        users.remove(user);
    }
    some
}

impl Index {
    fn has(&self, asker: &Arc<Asker>) -> bool {
        self.askers.contains(&ByAddress(asker.clone()))
    }

    fn doubt_all(&mut self) {
        self.doubted.extend(self.followed.keys().cloned());
    }

    fn follow(&mut self, user: UserId, asker: &Arc<Asker>, answer: &mut Answer) {
        let there = match self.followed.entry(user.clone()) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(new) => {
                self.to_look.insert(user.clone());
                new.insert(Followed::default())
            }
        };
        there.by.insert(ByAddress(asker.clone()));
        match there.is_here {
            Some(true) => drop(answer.here.insert(user.clone())),
            Some(false) => {}
            None => answer.unknown += 1,
        }
        answer.followed.insert(user);
    }

    fn unfollow(&mut self, user: &UserId, asker: &Arc<Asker>, answer: &mut Answer) {
        answer.followed.remove(user);
        answer.here.remove(user);
        let Some(there) = self.followed.get_mut(user) else { return };
        there.by.remove(&ByAddress(asker.clone()));
        answer.unknown -= usize::from(there.is_here.is_none());
        if there.by.is_empty() {
            self.followed.remove(user);
            self.to_look.remove(user);
            self.doubted.remove(user);
        }
    }

    fn unfollow_all(&mut self, asker: &Arc<Asker>) {
        let mut answer = asker.answer.lock();
        let all: Vec<UserId> = answer.followed.iter().cloned().collect();
        all.iter().for_each(|user| self.unfollow(user, asker, &mut answer));
        self.follows.give_back(all.len());
        answer.is_loaded = false;
        drop(answer);
        let is_other = |other: &Arc<Asker>| !Arc::ptr_eq(other, asker);
        self.to_load.retain(is_other);
        self.doubted_askers.retain(is_other);
        self.to_tell.retain(is_other);
    }

    fn must_tell(&mut self, asker: &Arc<Asker>, answer: &mut Answer) {
        if !std::mem::replace(&mut answer.waits, true) {
            self.to_tell.push(asker.clone());
        }
    }
}

#[cfg(test)]
mod tests;
