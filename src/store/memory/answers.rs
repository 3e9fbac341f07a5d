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
        answers.forget(now);
        if let Some(there) = answers.get(name) {
            return Ok(Some(there.to_owned()));
        }
        answers.put(name, claim, now + millis(keep));
        Ok(None)
    }

    async fn keep_answer(
        &self,
        name: &AnswerName,
        answer: &str,
        keep: Duration,
    ) -> StoreResult<()> {
        let until = self.now() + millis(keep);
        self.answers.lock().put(name, answer, until);
        Ok(())
    }
}
