//! The answers that the embedded store keeps, until their time is over.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::millis;
use crate::store::{AnswerName, Answers, StoreResult};

#[async_trait]
impl Answers for MemoryStore {
    async fn claim_answer(
        &self,
        name: &AnswerName,
        claim: &str,
        keep: Duration,
    ) -> StoreResult<Option<String>> {
        let now = self.now();
        let mut answers = self.answers.lock();
        if let Some(there) = answers.get(name, now) {
            return Ok(Some(there));
        }
        answers.put(name, claim.to_owned(), now + millis(keep));
        Ok(None)
    }

    async fn keep_answer(
        &self,
        name: &AnswerName,
        claim: &str,
        answer: &str,
        keep: Duration,
    ) -> StoreResult<String> {
        let now = self.now();
        let mut answers = self.answers.lock();
        if let Some(there) = answers.get(name, now)
            && there != claim
        {
            return Ok(there);
        }
        answers.put(name, answer.to_owned(), now + millis(keep));
        Ok(answer.to_owned())
    }
}
