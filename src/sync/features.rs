//! Where the core tells features what happens, and asks them. The core knows nothing else of them:
//! a feature implements [`Feature`] for what it needs, and the wiring lists it in [`Features`].

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{join_all, try_join_all};

use crate::base::ids::UserId;
use crate::presence::Room;
use crate::store::{LiveEpoch, LiveRecord, MAX_BATCH, StoreResult, both};

/// How a live came to be open.
#[derive(Debug, Clone, Copy)]
pub struct HowOpened {
    /// Whether this call opened it; otherwise it was open already.
    pub created: bool,
    /// The follower count of the streamer before the opening, if it was read.
    pub followers: Option<u64>,
}

/// A feature's part in what the core does. Every call may come again after an error, and on several
/// gateways at once.
#[async_trait]
pub trait Feature: Send + Sync {
    /// A client opened a live. An error fails the opening.
    async fn opened(&self, _: &LiveRecord, _: HowOpened) -> StoreResult<()> {
        Ok(())
    }

    /// The slices of a live are closed, and its record is about to say that it is over. The close
    /// goes on after all features have answered, and is made again after an error.
    async fn closing(&self, _: &LiveRecord) -> StoreResult<()> {
        Ok(())
    }

    /// This gateway finished a close.
    fn closed(&self) {}

    /// Another epoch took the place of this one, whose close this gateway did not see.
    async fn superseded(&self, _: &LiveRecord) -> StoreResult<()> {
        Ok(())
    }

    /// The room of an open live was made, or the record of its live was read again.
    async fn record_read(&self, _: &Arc<Room>, _: &LiveRecord) -> StoreResult<()> {
        Ok(())
    }

    /// The walk found a live open.
    fn found_open(&self, _: &LiveRecord) {}

    /// A regular walk found these lives open.
    async fn walked(&self, _: &[LiveRecord]) {}

    /// A regular walk is over.
    async fn walk_ended(&self) {}

    /// The store confirmed that a live is open of which this gateway has a room.
    async fn confirmed(&self, _: &Arc<Room>) -> StoreResult<()> {
        Ok(())
    }

    /// The store had lost the record of an open live, and this gateway wrote it again.
    async fn rewritten(&self, _: &Arc<Room>) -> StoreResult<()> {
        Ok(())
    }

    /// These fans are about to enter the sets of a live with attendance. Answers those of whom the
    /// feature could not take note; they are told again.
    async fn fans_come(&self, _: &LiveEpoch, _: &[UserId]) -> Vec<UserId> {
        Vec::new()
    }

    /// Whether each of these users, at most [`crate::store::MAX_BATCH`], is hidden from other users,
    /// in the same order. Nobody is, if the answer is empty.
    async fn are_hidden(&self, _: &[UserId]) -> StoreResult<Vec<bool>> {
        Ok(Vec::new())
    }

    /// A user follows a streamer now.
    async fn followed(&self, _user: &UserId, _streamer: &UserId) -> StoreResult<()> {
        Ok(())
    }

    /// A user follows a streamer no longer.
    async fn unfollowed(&self, _user: &UserId, _streamer: &UserId) -> StoreResult<()> {
        Ok(())
    }

    /// The others have buried this gateway: it was cut off. It is about to go on under a new id.
    async fn buried(&self) {}
}

/// The features of a gateway.
#[derive(Clone, Default)]
pub struct Features(Arc<[Arc<dyn Feature>]>);

impl FromIterator<Arc<dyn Feature>> for Features {
    fn from_iter<T: IntoIterator<Item = Arc<dyn Feature>>>(features: T) -> Self {
        Self(features.into_iter().collect())
    }
}

/// Waits for all answers. An error that is worth a retry comes before others.
async fn all(
    answers: impl Iterator<Item = impl Future<Output = StoreResult<()>>>,
) -> StoreResult<()> {
    join_all(answers).await.into_iter().fold(Ok(()), both)
}

impl Features {
    /// See [`Feature::opened`]; so do the others.
    pub async fn opened(&self, record: &LiveRecord, how: HowOpened) -> StoreResult<()> {
        all(self.0.iter().map(|feature| feature.opened(record, how))).await
    }

    pub async fn closing(&self, record: &LiveRecord) -> StoreResult<()> {
        all(self.0.iter().map(|feature| feature.closing(record))).await
    }

    pub fn closed(&self) {
        self.0.iter().for_each(|feature| feature.closed());
    }

    pub async fn superseded(&self, record: &LiveRecord) -> StoreResult<()> {
        all(self.0.iter().map(|feature| feature.superseded(record))).await
    }

    pub async fn record_read(&self, room: &Arc<Room>, record: &LiveRecord) -> StoreResult<()> {
        all(self
            .0
            .iter()
            .map(|feature| feature.record_read(room, record)))
        .await
    }

    pub fn found_open(&self, record: &LiveRecord) {
        self.0.iter().for_each(|feature| feature.found_open(record));
    }

    pub async fn walked(&self, open: &[LiveRecord]) {
        join_all(self.0.iter().map(|feature| feature.walked(open))).await;
    }

    pub async fn walk_ended(&self) {
        join_all(self.0.iter().map(|feature| feature.walk_ended())).await;
    }

    pub async fn confirmed(&self, room: &Arc<Room>) -> StoreResult<()> {
        all(self.0.iter().map(|feature| feature.confirmed(room))).await
    }

    pub async fn rewritten(&self, room: &Arc<Room>) -> StoreResult<()> {
        all(self.0.iter().map(|feature| feature.rewritten(room))).await
    }

    pub async fn fans_come(&self, of: &LiveEpoch, fans: &[UserId]) -> Vec<UserId> {
        let missed = join_all(self.0.iter().map(|feature| feature.fans_come(of, fans))).await;
        missed.concat()
    }

    /// Those of these users whom any feature hides from other users.
    pub async fn hidden_among(&self, users: &[UserId]) -> StoreResult<HashSet<UserId>> {
        let mut hidden = HashSet::new();
        for users in users.chunks(MAX_BATCH) {
            let asked = self.0.iter().map(|feature| feature.are_hidden(users));
            for answer in try_join_all(asked).await? {
                let found = users.iter().zip(answer).filter(|(_, is_hidden)| *is_hidden);
                hidden.extend(found.map(|(user, _)| user.clone()));
            }
        }
        Ok(hidden)
    }

    pub async fn followed(&self, user: &UserId, streamer: &UserId) -> StoreResult<()> {
        all(self
            .0
            .iter()
            .map(|feature| feature.followed(user, streamer)))
        .await
    }

    pub async fn unfollowed(&self, user: &UserId, streamer: &UserId) -> StoreResult<()> {
        all(self
            .0
            .iter()
            .map(|feature| feature.unfollowed(user, streamer)))
        .await
    }

    pub async fn buried(&self) {
        join_all(self.0.iter().map(|feature| feature.buried())).await;
    }
}
