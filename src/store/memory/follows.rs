//! Owns the follow graph of the embedded store, kept from both ends so that each page and each check reads one map.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::{Edge, Followed, Follows, StoreResult};

/// One user's neighbours in one direction, by time.
#[derive(Debug, Default)]
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
        let Some(at) = self.since.remove(user) else { return false };
        self.by_time.remove(&(at, user.clone()))
    }
}

/// The graph.
#[derive(Debug, Default)]
pub(super) struct Graph {
    following: HashMap<UserId, Neighbours>,
    followers: HashMap<UserId, Neighbours>,
}

fn remove(from: &mut HashMap<UserId, Neighbours>, user: &UserId, other: &UserId) -> bool {
    let Some(neighbours) = from.get_mut(user) else { return false };
    let removed = neighbours.remove(other);
    if neighbours.since.is_empty() {
        from.remove(user);
    }
    removed
}

#[async_trait]
impl Follows for MemoryStore {
    async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let now = self.now();
        let mut graph = self.graph.lock();
        graph.following.entry(user.clone()).or_default().add(streamer, now);
        Ok(graph.followers.entry(streamer.clone()).or_default().add(user, now))
    }

    async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let mut graph = self.graph.lock();
        remove(&mut graph.following, user, streamer);
        Ok(remove(&mut graph.followers, streamer, user))
    }

    async fn follows(&self, streamer: &UserId, users: &[UserId]) -> StoreResult<Vec<bool>> {
        let graph = self.graph.lock();
        let fans = graph.followers.get(streamer);
        Ok(users.iter().map(|user| fans.is_some_and(|fans| fans.since.contains_key(user))).collect())
    }

    async fn follower_count(&self, streamer: &UserId) -> StoreResult<u64> {
        Ok(self.graph.lock().followers.get(streamer).map_or(0, |fans| fans.since.len() as u64))
    }

    async fn follow_page(
        &self,
        user: &UserId,
        edge: Edge,
        after: Option<&Followed>,
        limit: usize,
    ) -> StoreResult<Vec<Followed>> {
        let graph = self.graph.lock();
        let from = match edge {
            Edge::Following => &graph.following,
            Edge::Followers => &graph.followers,
        };
        let Some(neighbours) = from.get(user) else { return Ok(Vec::new()) };
        let end = after.map_or(Bound::Unbounded, |last| Bound::Excluded((last.at, last.user.clone())));
        let page = neighbours.by_time.range((Bound::Unbounded, end)).rev().take(limit);
        Ok(page.map(|(at, user)| Followed { user: user.clone(), at: *at }).collect())
    }
}
