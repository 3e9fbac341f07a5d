//! From each user whom somebody who asked follows, to those who asked; and what of it has to be
//! read.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::asker::{Answer, Asker, ByAddress};
use super::follows::Follows;
use super::work::{HEARS_WITHIN, LOADED_AT_ONCE, Pace, Work};
use crate::base::clock::Millis;
use crate::base::ids::UserId;

/// What gateways say of where a user is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighting {
    /// A living gateway says that the user is here.
    Here,
    /// Only gateways say so of which nobody knows whether they live.
    Unsure,
    /// No gateway says so, but perhaps dead ones.
    Gone,
}

/// A user whom somebody who asked follows.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// `None`: not known yet.
    pub(super) seen: Option<Sighting>,
    pub(super) by: HashSet<ByAddress>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) askers: HashSet<ByAddress>,
    pub(super) followed: HashMap<UserId, Followed>,
    pub(super) follows: Arc<Follows>,
    /// Viewers of whom it must be read whom they follow.
    pub(super) to_load: VecDeque<Arc<Asker>>,
    /// Viewers who go to `to_load` at this time.
    pub(super) postponed: Vec<(Millis, Arc<Asker>)>,
    /// Followed users of whom it must be read whether they are here.
    pub(super) to_look: HashSet<UserId>,
    /// The same of users about whom a message may have been missed. They have time.
    pub(super) doubted: HashSet<UserId>,
    /// Viewers of whom it must be read again whom they follow. They have time, too.
    pub(super) doubted_askers: VecDeque<Arc<Asker>>,
    pub(super) to_tell: Vec<Arc<Asker>>,
    /// The other gateways must be asked to tell who moves.
    pub(super) must_ask: bool,
    /// When the first viewer asked, until the gateway hears of moves.
    pub(super) deaf_since: Option<Millis>,
}

/// Takes up to so many users out.
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
    pub(super) fn has(&self, asker: &Arc<Asker>) -> bool {
        self.askers.contains(&ByAddress(asker.clone()))
    }

    /// Whether it is to be read soon whom a viewer follows.
    pub(super) fn waits_to_load(&self, asker: &Arc<Asker>) -> bool {
        let mut waiting = self
            .to_load
            .iter()
            .chain(self.postponed.iter().map(|(_, asker)| asker));
        waiting.any(|other| Arc::ptr_eq(other, asker))
    }

    /// Ends the wait of viewers whose time has come.
    pub(super) fn resume(&mut self, now: Millis) {
        let due = self.postponed.extract_if(.., |(until, _)| *until <= now);
        self.to_load.extend(due.map(|(_, asker)| asker));
    }

    /// When the next wait ends.
    pub(super) fn resumes_at(&self) -> Option<Millis> {
        self.postponed.iter().map(|(until, _)| *until).min()
    }

    /// What to do next of what need not wait for a viewer.
    pub(super) fn next(&mut self, most: usize, now: Millis, pace: Pace) -> Work {
        if std::mem::take(&mut self.must_ask) {
            return Work::Ask;
        }
        // What is read before the gateway hears of moves must be read again then.
        let deaf_until = self
            .deaf_since
            .map(|since| since + HEARS_WITHIN)
            .filter(|until| now < *until);
        // Viewers who come in great numbers do not keep those from their answer who came before.
        let is_enough = self.to_look.len() >= most && deaf_until.is_none();
        if !self.to_load.is_empty() && !is_enough {
            let some = self.to_load.len().min(LOADED_AT_ONCE);
            return Work::Load(self.to_load.drain(..some).collect());
        }
        if !self.to_look.is_empty() {
            if let Some(until) = deaf_until {
                return Work::Wait(until);
            }
            self.deaf_since = None;
            return Work::Look(take(&mut self.to_look, most));
        }
        if self.doubted.is_empty() && self.doubted_askers.is_empty() {
            return Work::Nothing;
        }
        if let Pace::From(at) = pace {
            return Work::Wait(at);
        }
        if !self.doubted.is_empty() {
            return Work::Look(take(&mut self.doubted, most));
        }
        self.doubted_askers
            .pop_front()
            .map_or(Work::Nothing, |asker| Work::Load(vec![asker]))
    }

    pub(super) fn doubt_all(&mut self) {
        self.doubted.extend(self.followed.keys().cloned());
    }

    /// Takes in whom a viewer follows, and whether those are all.
    pub(super) fn set_followed(
        &mut self,
        asker: &Arc<Asker>,
        mut users: Vec<UserId>,
        mut partial: bool,
    ) {
        let mut answer = asker.answer();
        let mut wanted = HashSet::with_capacity(users.len());
        users.retain(|user| wanted.insert(user.clone()));
        let over: Vec<UserId> = answer.followed.difference(&wanted).cloned().collect();
        over.iter()
            .for_each(|user| self.unfollow(user, asker, &mut answer));
        self.follows.give_back(over.len());
        users.retain(|user| !answer.followed.contains(user));
        let room = self.follows.take(users.len());
        if room < users.len() {
            users.truncate(room);
            partial = true;
        }
        users
            .into_iter()
            .for_each(|user| self.follow(user, asker, &mut answer));
        (answer.partial, answer.is_loaded) = (partial, true);
        self.must_tell(asker, &mut answer);
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
        match there.seen {
            Some(Sighting::Here) => drop(answer.here.insert(user.clone())),
            Some(Sighting::Unsure | Sighting::Gone) => {}
            None => answer.unknown += 1,
        }
        answer.followed.insert(user);
    }

    fn unfollow(&mut self, user: &UserId, asker: &Arc<Asker>, answer: &mut Answer) {
        answer.followed.remove(user);
        answer.here.remove(user);
        let Some(there) = self.followed.get_mut(user) else {
            return;
        };
        there.by.remove(&ByAddress(asker.clone()));
        answer.unknown -= usize::from(there.seen.is_none());
        if there.by.is_empty() {
            self.followed.remove(user);
            self.to_look.remove(user);
            self.doubted.remove(user);
        }
    }

    /// Forgets all that a viewer wanted.
    pub(super) fn unfollow_all(&mut self, asker: &Arc<Asker>) {
        let mut answer = asker.answer();
        let all: Vec<UserId> = answer.followed.iter().cloned().collect();
        all.iter()
            .for_each(|user| self.unfollow(user, asker, &mut answer));
        self.follows.give_back(all.len());
        answer.is_loaded = false;
        drop(answer);
        let is_other = |other: &Arc<Asker>| !Arc::ptr_eq(other, asker);
        self.to_load.retain(is_other);
        self.postponed.retain(|(_, other)| is_other(other));
        self.doubted_askers.retain(is_other);
        self.to_tell.retain(is_other);
    }

    /// Takes in where a user is.
    pub(super) fn note_seen(&mut self, user: &UserId, seen: Sighting) {
        let Self {
            followed, to_tell, ..
        } = self;
        let Some(there) = followed.get_mut(user) else {
            return;
        };
        let before = there.seen.replace(seen);
        let is_here = seen == Sighting::Here;
        if before.is_some_and(|before| (before == Sighting::Here) == is_here) {
            return;
        }
        for ByAddress(asker) in &there.by {
            let mut answer = asker.answer();
            if is_here {
                answer.here.insert(user.clone())
            } else {
                answer.here.remove(user)
            };
            answer.unknown -= usize::from(before.is_none());
            if !std::mem::replace(&mut answer.waits, true) {
                to_tell.push(asker.clone());
            }
        }
    }

    fn must_tell(&mut self, asker: &Arc<Asker>, answer: &mut Answer) {
        if !std::mem::replace(&mut answer.waits, true) {
            self.to_tell.push(asker.clone());
        }
    }
}
