//! The follow graph of the embedded store, kept from both ends so that each page and each check
//! reads one map.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::{Edge, Followed};

/// The users whom one user follows, or who follow that user, by time.
#[derive(Debug, Clone, Default)]
struct Neighbours {
    since: HashMap<UserId, UnixMillis>,
    by_time: BTreeSet<(UnixMillis, UserId)>,
}

impl Neighbours {
    fn add(&mut self, user: &UserId, at: UnixMillis) -> bool {
        if self.since.contains_key(user) {
            return false;
        }
        self.since.insert(user.clone(), at);
        self.by_time.insert((at, user.clone()))
    }

    fn remove(&mut self, user: &UserId) -> bool {
        let Some(at) = self.since.remove(user) else {
            return false;
        };
        self.by_time.remove(&(at, user.clone()))
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Graph {
    following: HashMap<UserId, Neighbours>,
    followers: HashMap<UserId, Neighbours>,
}

impl Graph {
    pub(crate) fn follow(&mut self, user: &UserId, streamer: &UserId, now: UnixMillis) -> bool {
        self.following
            .entry(user.clone())
            .or_default()
            .add(streamer, now);
        self.followers
            .entry(streamer.clone())
            .or_default()
            .add(user, now)
    }

    pub(crate) fn unfollow(&mut self, user: &UserId, streamer: &UserId) -> bool {
        remove(&mut self.following, user, streamer);
        remove(&mut self.followers, streamer, user)
    }

    /// Removes all follows by a user and of a user. Answers how many there were of each.
    pub(crate) fn erase(&mut self, user: &UserId) -> (u64, u64) {
        let following = erase(&mut self.following, &mut self.followers, user);
        let followers = erase(&mut self.followers, &mut self.following, user);
        (following, followers)
    }

    pub(crate) fn follows(&self, user: &UserId, streamer: &UserId) -> bool {
        self.followers
            .get(streamer)
            .is_some_and(|fans| fans.since.contains_key(user))
    }

    pub(crate) fn is_following(&self, user: &UserId, streamer: &UserId) -> bool {
        self.following
            .get(user)
            .is_some_and(|followed| followed.since.contains_key(streamer))
    }

    fn end(&self, edge: Edge) -> &HashMap<UserId, Neighbours> {
        match edge {
            Edge::Following => &self.following,
            Edge::Followers => &self.followers,
        }
    }

    pub(crate) fn count(&self, user: &UserId, edge: Edge) -> u64 {
        match self.end(edge).get(user) {
            Some(neighbours) => neighbours.since.len() as u64,
            None => 0,
        }
    }

    pub(crate) fn page(
        &self,
        user: &UserId,
        edge: Edge,
        after: Option<&Followed>,
        limit: usize,
    ) -> Vec<Followed> {
        let Some(neighbours) = self.end(edge).get(user) else {
            return Vec::new();
        };
        let end = match after {
            Some(last) => Bound::Excluded((last.at, last.user.clone())),
            None => Bound::Unbounded,
        };
        let page = neighbours
            .by_time
            .range((Bound::Unbounded, end))
            .rev()
            .take(limit);
        page.map(|(at, user)| Followed {
            user: user.clone(),
            at: *at,
        })
        .collect()
    }
}

/// Removes the edges of a user from one end, and their other ends.
fn erase(
    ends: &mut HashMap<UserId, Neighbours>,
    others: &mut HashMap<UserId, Neighbours>,
    user: &UserId,
) -> u64 {
    let Some(neighbours) = ends.remove(user) else {
        return 0;
    };
    for other in neighbours.since.keys() {
        remove(others, other, user);
    }
    neighbours.since.len() as u64
}

fn remove(from: &mut HashMap<UserId, Neighbours>, user: &UserId, other: &UserId) -> bool {
    let Some(neighbours) = from.get_mut(user) else {
        return false;
    };
    let removed = neighbours.remove(other);
    if neighbours.since.is_empty() {
        from.remove(user);
    }
    removed
}
