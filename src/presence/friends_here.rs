//! The viewers of a room who asked which of their friends are there (the *askers*), and the users
//! whom they follow. One index, from followed users to askers, serves the whole room: a move of a
//! user whom no asker follows costs one look-up.
//!
//! State only. `sync::room_friends` reads the follows of an asker, and where those users are if that is
//! in doubt; a socket sends the newest answer when its task runs.

mod asker;
mod index;
mod kept_follows;
mod recent;
mod work;

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};

pub use self::asker::Asker;
use self::asker::ByAddress;
use self::index::Index;
pub use self::index::Sighting;
pub use self::kept_follows::KeptFollows;
pub use self::recent::{FollowsRead, FollowsReading, KnownFollows, RecentFollows};
pub use self::work::{Work, WorkPace};
use super::conn::Conn;
use super::pushed_counts::EVERY;
use crate::base::clock::Moment;
use crate::base::ids::UserId;

/// Made when the first viewer asks: most rooms have none.
#[derive(Debug, Default)]
pub struct FriendsHere {
    index: OnceLock<Box<Mutex<Index>>>,
    /// Whether this gateway gets messages about moves.
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

    /// Notes that this gateway no longer gets messages about moves.
    pub fn set_deaf(&self) {
        self.hears.store(false, Ordering::Release);
    }

    /// Adds a viewer's socket.
    pub fn add(&self, conn: &Arc<Conn>, follows: &Arc<KeptFollows>, now: Moment) -> Arc<Asker> {
        let mut index = self.index.get_or_init(Box::default).lock();
        let asker = Arc::new(Asker::new(conn.clone()));
        if index.askers.is_empty() {
            index.follows = follows.clone();
            index.deaf_since = if self.is_deaf() { Some(now) } else { None };
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

    /// Forgets all askers: the room has ended.
    pub fn clear(&self) {
        let Some(mut index) = self.index() else {
            return;
        };
        let askers: Vec<ByAddress> = index.askers.drain().collect();
        for ByAddress(asker) in &askers {
            index.unfollow_all(asker);
        }
        *index = Index::default();
    }

    /// Notes that these users moved. True if there is work.
    pub fn moved(&self, users: &[UserId]) -> bool {
        let Some(mut index) = self.index() else {
            return false;
        };
        let Index {
            followed, to_look, ..
        } = &mut *index;
        let before = to_look.len();
        for user in users {
            if followed.contains_key(user) {
                to_look.insert(user.clone());
            }
        }
        to_look.len() > before
    }

    /// Notes that this gateway gets messages about moves from now on, and may have missed some.
    /// True if there is work.
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

    /// Notes that any user may have moved. True if there is work.
    pub fn doubt(&self) -> bool {
        let Some(mut index) = self.index() else {
            return false;
        };
        index.doubt_all();
        !index.askers.is_empty()
    }

    /// Notes that the follows of any asker may have changed. True if there is work.
    pub fn doubt_follows(&self) -> bool {
        let Some(mut index) = self.index() else {
            return false;
        };
        // Askers who wait keep their places: doubts may come faster than the reads of all follows.
        let Index {
            askers,
            doubted_askers,
            ..
        } = &mut *index;
        let waiting: HashSet<*const Asker> = doubted_askers.iter().map(Arc::as_ptr).collect();
        for ByAddress(asker) in askers.iter() {
            if !waiting.contains(&Arc::as_ptr(asker)) {
                doubted_askers.push_back(asker.clone());
            }
        }
        !index.askers.is_empty()
    }

    /// Notes that other gateways live than before: each followed user whom some gateway names may
    /// be here by now, or may be gone. True if there is work.
    pub fn roster_changed(&self) -> bool {
        let Some(mut index) = self.index() else {
            return false;
        };
        let Index {
            followed, to_look, ..
        } = &mut *index;
        for (user, there) in followed.iter() {
            match there.seen {
                Some(Sighting::Here | Sighting::Unsure) => {
                    to_look.insert(user.clone());
                }
                Some(Sighting::Gone) | None => {}
            }
        }
        !to_look.is_empty()
    }

    /// Queues a read of an asker's follows for the time `at`. An asker who already waits for a read
    /// keeps the place.
    pub fn load_at(&self, asker: &Arc<Asker>, at: Moment) {
        let Some(mut index) = self.index() else {
            return;
        };
        if index.has(asker) && !index.waits_to_load(asker) {
            index.postponed.push((at, asker.clone()));
        }
    }

    /// Takes the next work, for up to `most` users at a time. Failed work goes back with
    /// [`Self::failed`].
    pub fn next(&self, most: usize, now: Moment, pace: WorkPace) -> Work {
        let Some(mut index) = self.index() else {
            return Work::Nothing;
        };
        index.resume(now);
        match index.next(most, now, pace) {
            Work::Nothing => match index.resumes_at() {
                Some(resumes) => Work::Wait(resumes),
                None => Work::Nothing,
            },
            Work::Wait(at) => match index.resumes_at() {
                Some(resumes) => Work::Wait(resumes.min(at)),
                None => Work::Wait(at),
            },
            work => work,
        }
    }

    /// Puts back failed work. Askers whose follows could not be read come after all other work:
    /// perhaps only their part of the store is away.
    pub fn failed(&self, work: Work) {
        let Some(mut index) = self.index() else {
            return;
        };
        match work {
            Work::Ask => index.must_ask = true,
            Work::Load(askers) => {
                for asker in askers {
                    if index.has(&asker) {
                        index.doubted_askers.push_back(asker);
                    }
                }
            }
            Work::Look(users) => {
                for user in users {
                    if index.followed.contains_key(&user) {
                        index.to_look.insert(user);
                    }
                }
            }
            Work::Wait(_) | Work::Nothing => {}
        }
    }

    /// Notes the follows of an asker. Returns how many followed users must be looked for.
    pub fn loaded(&self, asker: &Arc<Asker>, read: &FollowsRead) -> usize {
        let Some(mut index) = self.index() else {
            return 0;
        };
        if !index.has(asker) {
            return 0;
        }
        let before = index.to_look.len();
        index.set_followed(asker, read.users.to_vec(), read.partial);
        index.to_look.len().saturating_sub(before)
    }

    /// Notes where users are.
    pub fn looked<'a>(&self, seen: impl Iterator<Item = (&'a UserId, Sighting)>) {
        if let Some(mut index) = self.index() {
            for (user, seen) in seen {
                index.note_seen(user, seen);
            }
        }
    }

    /// Wakes the sockets with news, each as often as counts are pushed. Returns when the next
    /// socket is due.
    pub fn tell(&self, now: Moment) -> Option<Moment> {
        let mut index = self.index()?;
        let mut next: Option<Moment> = None;
        let waiting = std::mem::take(&mut index.to_tell);
        for asker in waiting {
            let mut answer = asker.answer();
            let due = match answer.told_at {
                Some(at) => at + EVERY,
                None => now,
            };
            if answer.is_known() && due <= now {
                answer.waits = false;
                answer.told_at = Some(now);
                asker.wake();
                continue;
            }
            if answer.is_known() {
                next = match next {
                    Some(next) => Some(next.min(due)),
                    None => Some(due),
                };
            }
            // An answer that is not known yet comes back here when the reads under way end.
            drop(answer);
            index.to_tell.push(asker);
        }
        next
    }
}

#[cfg(test)]
mod tests;
