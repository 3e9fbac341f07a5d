//! The viewers of a room who asked which of their friends are there, and whom they follow. One index, from followed
//! user to those who asked, serves the whole room: a move of a user whom nobody who asked follows costs one look-up.
//!
//! State only. `sync::friends` reads whom a viewer follows, and where those users are, as far as there is doubt; a
//! socket sends the newest answer when it gets to it.

mod asker;
mod follows;
mod index;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

pub use self::asker::Asker;
use self::asker::ByAddress;
pub use self::follows::Follows;
pub use self::index::Sighting;
use self::index::{Index, take};
use super::conn::Conn;
use super::pushed_counts::EVERY;
use crate::base::clock::Millis;
use crate::base::ids::UserId;

/// So many viewers' follows are read at a time.
const LOADED_AT_ONCE: usize = 16;

/// So long the first answer of a room waits until the gateway hears of moves, in ms.
const HEARS_WITHIN: Millis = 1_000;

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

    pub fn is_deaf(&self) -> bool {
        !self.hears.load(Ordering::Acquire)
    }

    /// Notes that this gateway will hear of moves no longer.
    pub fn set_deaf(&self) {
        self.hears.store(false, Ordering::Release);
    }

    /// Adds a viewer's socket.
    pub fn add(&self, conn: &Arc<Conn>, follows: &Arc<Follows>, now: Millis) -> Arc<Asker> {
        let mut index = self.index.get_or_init(Box::default).lock();
        let asker = Arc::new(Asker::new(conn.clone()));
        if index.askers.is_empty() {
            index.follows = follows.clone();
            index.deaf_since = self.is_deaf().then_some(now);
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
        // Those who wait keep their places: doubts may come faster than all can be read.
        let Index { askers, doubted_askers, .. } = &mut *index;
        let waiting: HashSet<*const Asker> = doubted_askers.iter().map(Arc::as_ptr).collect();
        let others = askers.iter().filter(|asker| !waiting.contains(&Arc::as_ptr(&asker.0)));
        doubted_askers.extend(others.map(|asker| asker.0.clone()));
        !index.askers.is_empty()
    }

    /// Other gateways live than before: those whom some gateway says to be here may be, or may not be. True if there is
    /// work.
    pub fn roster_changed(&self) -> bool {
        let Some(mut index) = self.index() else { return false };
        let Index { followed, to_look, .. } = &mut *index;
        let named = followed.iter().filter(|(_, there)| there.seen.is_some_and(|seen| seen != Sighting::Gone));
        to_look.extend(named.map(|(user, _)| user.clone()));
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
        // What is read before the gateway hears of moves must be read again then.
        let deaf_until = index.deaf_since.map(|since| since + HEARS_WITHIN).filter(|until| now < *until);
        // Viewers who come in great numbers do not keep those from their answer who came before.
        let is_enough = index.to_look.len() >= most && deaf_until.is_none();
        if !index.to_load.is_empty() && !is_enough {
            let some = index.to_load.len().min(LOADED_AT_ONCE);
            return Work::Load(index.to_load.drain(..some).collect());
        }
        if !index.to_look.is_empty() {
            if let Some(until) = deaf_until {
                return Work::Wait(until);
            }
            index.deaf_since = None;
            return Work::Look(take(&mut index.to_look, most));
        }
        if index.doubted.is_empty() && index.doubted_askers.is_empty() {
            return Work::Nothing;
        }
        if let Pace::From(at) = pace {
            return Work::Wait(at);
        }
        if !index.doubted.is_empty() {
            return Work::Look(take(&mut index.doubted, most));
        }
        index.doubted_askers.pop_front().map_or(Work::Nothing, |asker| Work::Load(vec![asker]))
    }

    /// Puts back what could not be done. Viewers whose follows could not be read come after all else: perhaps only
    /// their part of the store is away.
    pub fn failed(&self, work: Work) {
        let Some(mut index) = self.index() else { return };
        match work {
            Work::Ask => index.must_ask = true,
            Work::Load(askers) => {
                let still_there = askers.into_iter().filter(|asker| index.has(asker)).collect::<Vec<_>>();
                index.doubted_askers.extend(still_there);
            }
            Work::Look(users) => {
                let Index { followed, to_look, .. } = &mut *index;
                to_look.extend(users.into_iter().filter(|user| followed.contains_key(user)));
            }
            Work::Wait(_) | Work::Nothing => {}
        }
    }

    /// Takes in whom a viewer follows, and whether those are all.
    pub fn loaded(&self, asker: &Arc<Asker>, users: Vec<UserId>, partial: bool) {
        if let Some(mut index) = self.index().filter(|index| index.has(asker)) {
            index.set_followed(asker, users, partial);
        }
    }

    /// Takes in where users are.
    pub fn looked<'a>(&self, seen: impl Iterator<Item = (&'a UserId, Sighting)>) {
        if let Some(mut index) = self.index() {
            seen.for_each(|(user, seen)| index.note_seen(user, seen));
        }
    }

    /// Wakes the sockets with news, each as often as counts are pushed. When the next is due.
    pub fn tell(&self, now: Millis) -> Option<Millis> {
        let mut index = self.index()?;
        let mut next = None::<Millis>;
        let waiting = std::mem::take(&mut index.to_tell);
        for asker in waiting {
            let mut answer = asker.answer();
            let due = answer.told_at.map_or(now, |at| at + EVERY);
            if answer.is_known() && due <= now {
                (answer.waits, answer.told_at) = (false, Some(now));
                asker.wake();
                continue;
            }
            if answer.is_known() {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
            // If it is not known yet, what is under way brings it back here.
            drop(answer);
            index.to_tell.push(asker);
        }
        next
    }
}

#[cfg(test)]
mod tests;
