//! The answers that the embedded store keeps, until their time is over.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::{UnixMillis, millis};
use crate::store::{AnswerName, Answers, StoreResult};

/// An answer, or the claim to one.
#[derive(Debug)]
struct Kept {
    text: String,
    until: UnixMillis,
}

#[derive(Debug, Default)]
pub(super) struct KeptAnswers(HashMap<AnswerName, Kept>);

impl KeptAnswers {
    fn put(&mut self, name: &AnswerName, text: &str, until: UnixMillis) {
        let text = text.to_owned();
        self.0.insert(name.clone(), Kept { text, until });
    }
}

impl KeptAnswers {
    /// Forgets the answers that are meant. Answers how many there were.
    pub(super) fn erase(&mut self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let before = self.0.len();
        self.0.retain(|_, kept| !is_meant(&kept.text));
        (before - self.0.len()) as u64
    }
}

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
        // Those whose time is over would stay for ever otherwise.
        answers.0.retain(|_, kept| kept.until > now);
        if let Some(there) = answers.0.get(name) {
            return Ok(Some(there.text.clone()));
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
