//! The viewers of a room who asked which of their friends are there, and whom they follow. One
//! index, from followed user to those who asked, serves the whole room: a move of a user whom
//! nobody who asked follows costs one look-up.
//!
//! State only. `sync::friends` reads whom a viewer follows, and where those users are, as far as
//! there is doubt; a socket sends the newest answer when it gets to it.

mod asker;
mod follows;
mod index;
mod recent;
mod work;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

pub use self::asker::Asker;
use self::asker::ByAddress;
pub use self::follows::Follows;
use self::index::Index;
pub use self::index::Sighting;
pub use self::recent::{FollowsRead, Reading, Recent, RecentFollows};
pub use self::work::{Pace, Work};
use super::conn::Conn;
use super::pushed_counts::EVERY;
use crate::base::clock::Millis;
use crate::base::ids::UserId;

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
        let Some(mut index) = self.index() else {
            return;
        };
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
        let Some(mut index) = self.index() else {
            return;
        };
        let askers: Vec<Arc<Asker>> = index.askers.drain().map(|asker| asker.0).collect();
        askers.iter().for_each(|asker| index.unfollow_all(asker));
        *index = Index::default();
    }

    /// Takes in whom moved. True if there is work.
    pub fn moved(&self, users: &[UserId]) -> bool {
        let Some(mut index) = self.index() else {
            return false;
        };
        let Index {
            followed, to_look, ..
        } = &mut *index;
        let before = to_look.len();
        to_look.extend(
            users
                .iter()
                .filter(|user| followed.contains_key(*user))
                .cloned(),
        );
        to_look.len() > before
    }

    /// Notes that this gateway hears of moves from now on, and may have missed some. True if there
    /// is work.
    pub fn hears(&self) -> bool {
        self.hears.store(true, Ordering::Release);
        let Some(mut index) = self.index() else {
            return false;
        };
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
        let Some(mut index) = self.index() else {
            return false;
        };
        index.doubt_all();
        !index.askers.is_empty()
    }

    /// Any viewer who asked may follow others by now. True if there is work.
    pub fn doubt_follows(&self) -> bool {
        let Some(mut index) = self.index() else {
            return false;
        };
        // Those who wait keep their places: doubts may come faster than all can be read.
        let Index {
            askers,
            doubted_askers,
            ..
        } = &mut *index;
        let waiting: HashSet<*const Asker> = doubted_askers.iter().map(Arc::as_ptr).collect();
        let others = askers
            .iter()
            .filter(|asker| !waiting.contains(&Arc::as_ptr(&asker.0)));
        doubted_askers.extend(others.map(|asker| asker.0.clone()));
        !index.askers.is_empty()
    }

    /// Other gateways live than before: those whom some gateway says to be here may be, or may not
    /// be. True if there is work.
    pub fn roster_changed(&self) -> bool {
        let Some(mut index) = self.index() else {
            return false;
        };
        let Index {
            followed, to_look, ..
        } = &mut *index;
        let named = followed
            .iter()
            .filter(|(_, there)| there.seen.is_some_and(|seen| seen != Sighting::Gone));
        to_look.extend(named.map(|(user, _)| user.clone()));
        !to_look.is_empty()
    }

    /// Has it read whom a viewer who asked follows, from this time on. A viewer who waits for that
    /// already keeps the place.
    pub fn load_at(&self, asker: &Arc<Asker>, at: Millis) {
        if let Some(mut index) = self
            .index()
            .filter(|index| index.has(asker) && !index.waits_to_load(asker))
        {
            index.postponed.push((at, asker.clone()));
        }
    }

    /// Takes what to do next, for up to `most` users at a time. What fails goes back with
    /// [`Self::failed`].
    pub fn next(&self, most: usize, now: Millis, pace: Pace) -> Work {
        let Some(mut index) = self.index() else {
            return Work::Nothing;
        };
        index.resume(now);
        match index.next(most, now, pace) {
            Work::Nothing => index.resumes_at().map_or(Work::Nothing, Work::Wait),
            Work::Wait(at) => Work::Wait(index.resumes_at().map_or(at, |resumes| resumes.min(at))),
            work => work,
        }
    }

    /// Puts back what could not be done. Viewers whose follows could not be read come after all
    /// else: perhaps only their part of the store is away.
    pub fn failed(&self, work: Work) {
        let Some(mut index) = self.index() else {
            return;
        };
        match work {
            Work::Ask => index.must_ask = true,
            Work::Load(askers) => {
                let still_there = askers
                    .into_iter()
                    .filter(|asker| index.has(asker))
                    .collect::<Vec<_>>();
                index.doubted_askers.extend(still_there);
            }
            Work::Look(users) => {
                let Index {
                    followed, to_look, ..
                } = &mut *index;
                to_look.extend(users.into_iter().filter(|user| followed.contains_key(user)));
            }
            Work::Wait(_) | Work::Nothing => {}
        }
    }

    /// Takes in whom a viewer follows. Answers of how many of them it must be read whether they are
    /// here.
    pub fn loaded(&self, asker: &Arc<Asker>, read: &FollowsRead) -> usize {
        let Some(mut index) = self.index().filter(|index| index.has(asker)) else {
            return 0;
        };
        let before = index.to_look.len();
        index.set_followed(asker, read.users.to_vec(), read.partial);
        index.to_look.len().saturating_sub(before)
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
