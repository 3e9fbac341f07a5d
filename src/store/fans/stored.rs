//! The follow graph in the store: the streamer's `followers:`, or each viewer's own `following:`.

use std::sync::Arc;

use async_trait::async_trait;

use super::lookup::{FanAnswers, FanError, FanLookup};
use crate::base::ids::UserId;
use crate::config::FanKey;
use crate::store::{Store, StoreResult};

pub(crate) struct StoredFans {
    store: Arc<dyn Store>,
    key: FanKey,
}

impl StoredFans {
    pub(crate) fn new(store: Arc<dyn Store>, key: FanKey) -> Self {
        Self { store, key }
    }

    /// Asks the viewers' own keys, which lie on many nodes: if a node is away, only the users on it
    /// stay unknown.
    async fn ask_users(
        &self,
        asked: &[(UserId, Vec<UserId>)],
    ) -> Vec<Result<FanAnswers, FanError>> {
        let mut pairs = Vec::new();
        for (streamer, users) in asked {
            for user in users {
                pairs.push((user.clone(), streamer.clone()));
            }
        }
        let mut answers = self.store.are_following(&pairs).await.into_iter();
        asked
            .iter()
            .map(|(_, users)| known(answers.by_ref().take(users.len())))
            .collect()
    }
}

/// The answers, or an error if there is none at all.
fn known(answers: impl Iterator<Item = StoreResult<bool>>) -> Result<FanAnswers, FanError> {
    let mut known = Vec::new();
    let mut last_error = None;
    for answer in answers {
        match answer {
            Ok(is_fan) => known.push(Some(is_fan)),
            Err(why) => {
                known.push(None);
                last_error = Some(why);
            }
        }
    }
    match last_error {
        Some(why) if known.iter().all(Option::is_none) => Err(why.into()),
        _ => Ok(known),
    }
}

fn all_known(answers: StoreResult<Vec<bool>>) -> Result<FanAnswers, FanError> {
    Ok(answers?.into_iter().map(Some).collect())
}

#[async_trait]
impl FanLookup for StoredFans {
    async fn ask(&self, streamer: &UserId, users: &[UserId]) -> Result<FanAnswers, FanError> {
        match self.key {
            FanKey::Followers => all_known(self.store.follows(streamer, users).await),
            FanKey::Following => {
                let pairs: Vec<_> = users
                    .iter()
                    .map(|user| (user.clone(), streamer.clone()))
                    .collect();
                known(self.store.are_following(&pairs).await.into_iter())
            }
        }
    }

    async fn ask_each(&self, asked: &[(UserId, Vec<UserId>)]) -> Vec<Result<FanAnswers, FanError>> {
        match self.key {
            FanKey::Followers => self
                .store
                .follows_each(asked)
                .await
                .into_iter()
                .map(all_known)
                .collect(),
            FanKey::Following => self.ask_users(asked).await,
        }
    }
}
