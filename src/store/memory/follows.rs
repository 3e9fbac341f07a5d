//! The calls on the follow graph of the embedded store.

use crate::store::FinishedChanges;
use async_trait::async_trait;

use super::MemoryStore;
use crate::base::ids::UserId;
use crate::store::{Edge, Followed, Follows, StoreResult};

#[async_trait]
impl Follows for MemoryStore {
    async fn finish_changes(&self) -> StoreResult<FinishedChanges> {
        Ok(FinishedChanges::default())
    }

    async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let now = self.now();
        Ok(self.graph.lock().follow(user, streamer, now))
    }

    async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        Ok(self.graph.lock().unfollow(user, streamer))
    }

    async fn follows(&self, streamer: &UserId, users: &[UserId]) -> StoreResult<Vec<bool>> {
        let graph = self.graph.lock();
        Ok(users
            .iter()
            .map(|user| graph.follows(user, streamer))
            .collect())
    }

    async fn follows_each(&self, asked: &[(UserId, Vec<UserId>)]) -> Vec<StoreResult<Vec<bool>>> {
        let mut answers = Vec::with_capacity(asked.len());
        for (streamer, users) in asked {
            answers.push(self.follows(streamer, users).await);
        }
        answers
    }

    async fn are_following(&self, pairs: &[(UserId, UserId)]) -> Vec<StoreResult<bool>> {
        let graph = self.graph.lock();
        pairs
            .iter()
            .map(|(user, streamer)| Ok(graph.is_following(user, streamer)))
            .collect()
    }

    async fn follow_count(&self, user: &UserId, edge: Edge) -> StoreResult<u64> {
        Ok(self.graph.lock().count(user, edge))
    }

    async fn newest_followed(&self, user: &UserId, most: usize) -> StoreResult<Vec<UserId>> {
        let page = self.graph.lock().page(user, Edge::Following, None, most);
        Ok(page.into_iter().map(|followed| followed.user).collect())
    }

    async fn follow_page(
        &self,
        user: &UserId,
        edge: Edge,
        after: Option<&Followed>,
        limit: usize,
    ) -> StoreResult<Vec<Followed>> {
        Ok(self.graph.lock().page(user, edge, after, limit))
    }
}
