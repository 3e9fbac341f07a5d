//! The index from followed users to the askers who follow them, and the queues of the reads that it
//! needs.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::asker::{Asker, ByAddress, FriendsAnswer};
use super::kept_follows::KeptFollows;
use super::work::{HEARS_WITHIN, MAX_ASKERS_PER_LOAD, Work, WorkPace};
use crate::base::clock::Moment;
use crate::base::ids::UserId;

/// Where a user is, as gateways say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighting {
    /// A living gateway says that the user is here.
    Here,
    /// Only gateways that may live or not say that the user is here.
    Unsure,
    /// No gateway says that the user is here, except perhaps dead ones.
    Gone,
}

/// A user whom an asker follows.
#[derive(Debug, Default)]
pub(super) struct FollowedUser {
    /// `None` if the index does not know yet.
    pub(super) seen: Option<Sighting>,
    pub(super) by: HashSet<ByAddress>,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) askers: HashSet<ByAddress>,
    pub(super) followed: HashMap<UserId, FollowedUser>,
    pub(super) follows: Arc<KeptFollows>,
    /// Askers whose follows must be read.
    pub(super) to_load: VecDeque<Arc<Asker>>,
    /// Askers who go to `to_load` at this time.
    pub(super) postponed: Vec<(Moment, Arc<Asker>)>,
    /// Followed users who must be looked for.
    pub(super) to_look: HashSet<UserId>,
    /// Followed users who must be looked for without haste, because the gateway may have missed a
    /// message about them.
    pub(super) doubted: HashSet<UserId>,
    /// Askers whose follows must be read again without haste.
    pub(super) doubted_askers: VecDeque<Arc<Asker>>,
    pub(super) to_tell: Vec<Arc<Asker>>,
    /// The gateway must ask the other gateways for messages about moves.
    pub(super) must_ask: bool,
    /// When the first viewer asked, until the gateway gets messages about moves.
    pub(super) deaf_since: Option<Moment>,
}

/// Takes up to `most` users out.
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

    /// Whether the asker waits for a read of the follows.
    pub(super) fn waits_to_load(&self, asker: &Arc<Asker>) -> bool {
        let postponed = self.postponed.iter().map(|(_, asker)| asker);
        let mut waiting = self.to_load.iter().chain(postponed);
        waiting.any(|other| Arc::ptr_eq(other, asker))
    }

    /// Ends the wait of askers whose time has come.
    pub(super) fn resume(&mut self, now: Moment) {
        let due = self.postponed.extract_if(.., |(until, _)| *until <= now);
        self.to_load.extend(due.map(|(_, asker)| asker));
    }

    /// When the next wait ends.
    pub(super) fn resumes_at(&self) -> Option<Moment> {
        self.postponed.iter().map(|(until, _)| *until).min()
    }

    /// The next work, apart from the postponed askers.
    pub(super) fn next(&mut self, most: usize, now: Moment, pace: WorkPace) -> Work {
        if std::mem::take(&mut self.must_ask) {
            return Work::Ask;
        }
        // A look before the gateway gets messages about moves would have to be repeated then.
        let deaf_until = match self.deaf_since {
            Some(since) if now < since + HEARS_WITHIN => Some(since + HEARS_WITHIN),
            _ => None,
        };
        // A crowd of new askers must not delay the answers of earlier ones.
        let is_enough = self.to_look.len() >= most && deaf_until.is_none();
        if !self.to_load.is_empty() && !is_enough {
            let some = self.to_load.len().min(MAX_ASKERS_PER_LOAD);
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
        if let WorkPace::From(at) = pace {
            return Work::Wait(at);
        }
        if !self.doubted.is_empty() {
            return Work::Look(take(&mut self.doubted, most));
        }
        match self.doubted_askers.pop_front() {
            Some(asker) => Work::Load(vec![asker]),
            None => Work::Nothing,
        }
    }

    pub(super) fn doubt_all(&mut self) {
        self.doubted.extend(self.followed.keys().cloned());
    }

    /// Notes the users whom an asker follows; `partial` if these are not all.
    pub(super) fn set_followed(
        &mut self,
        asker: &Arc<Asker>,
        mut users: Vec<UserId>,
        mut partial: bool,
    ) {
        let mut answer = asker.answer();
        let mut wanted = HashSet::with_capacity(users.len());
        users.retain(|user| wanted.insert(user.clone()));
        let no_longer: Vec<UserId> = answer.followed.difference(&wanted).cloned().collect();
        for user in &no_longer {
            self.unfollow(user, asker, &mut answer);
        }
        self.follows.give_back(no_longer.len());
        users.retain(|user| !answer.followed.contains(user));
        let room = self.follows.take(users.len());
        if room < users.len() {
            users.truncate(room);
            partial = true;
        }
        for user in users {
            self.follow(user, asker, &mut answer);
        }
        answer.partial = partial;
        answer.is_loaded = true;
        self.must_tell(asker, &mut answer);
    }

    fn follow(&mut self, user: UserId, asker: &Arc<Asker>, answer: &mut FriendsAnswer) {
        let there = match self.followed.entry(user.clone()) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(new) => {
                self.to_look.insert(user.clone());
                new.insert(FollowedUser::default())
            }
        };
        there.by.insert(ByAddress(asker.clone()));
        match there.seen {
            Some(Sighting::Here) => {
                answer.here.insert(user.clone());
            }
            Some(Sighting::Unsure | Sighting::Gone) => {}
            None => answer.unknown += 1,
        }
        answer.followed.insert(user);
    }

    fn unfollow(&mut self, user: &UserId, asker: &Arc<Asker>, answer: &mut FriendsAnswer) {
        answer.followed.remove(user);
        answer.here.remove(user);
        let Some(there) = self.followed.get_mut(user) else {
            return;
        };
        there.by.remove(&ByAddress(asker.clone()));
        if there.seen.is_none() {
            answer.unknown -= 1;
        }
        if there.by.is_empty() {
            self.followed.remove(user);
            self.to_look.remove(user);
            self.doubted.remove(user);
        }
    }

    /// Forgets an asker and all its follows.
    pub(super) fn unfollow_all(&mut self, asker: &Arc<Asker>) {
        let mut answer = asker.answer();
        let all: Vec<UserId> = answer.followed.iter().cloned().collect();
        for user in &all {
            self.unfollow(user, asker, &mut answer);
        }
        self.follows.give_back(all.len());
        answer.is_loaded = false;
        drop(answer);
        self.to_load.retain(|other| !Arc::ptr_eq(other, asker));
        self.postponed
            .retain(|(_, other)| !Arc::ptr_eq(other, asker));
        self.doubted_askers
            .retain(|other| !Arc::ptr_eq(other, asker));
        self.to_tell.retain(|other| !Arc::ptr_eq(other, asker));
    }

    /// Notes where a user is.
    pub(super) fn note_seen(&mut self, user: &UserId, seen: Sighting) {
        let Self {
            followed, to_tell, ..
        } = self;
        let Some(there) = followed.get_mut(user) else {
            return;
        };
        let before = there.seen.replace(seen);
        let is_here = seen == Sighting::Here;
        let was_here = before.map(|before| before == Sighting::Here);
        if was_here == Some(is_here) {
            return;
        }
        for ByAddress(asker) in &there.by {
            let mut answer = asker.answer();
            if is_here {
                answer.here.insert(user.clone());
            } else {
                answer.here.remove(user);
            }
            if before.is_none() {
                answer.unknown -= 1;
            }
            if !std::mem::replace(&mut answer.waits, true) {
                to_tell.push(asker.clone());
            }
        }
    }

    fn must_tell(&mut self, asker: &Arc<Asker>, answer: &mut FriendsAnswer) {
        if !std::mem::replace(&mut answer.waits, true) {
            self.to_tell.push(asker.clone());
        }
    }
}
