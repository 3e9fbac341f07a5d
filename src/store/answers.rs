//! The boundary for answers to requests that a client may repeat. Each is kept for a time, under a
//! name that the HTTP edge makes of the caller and of the key of the request.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;

use super::StoreResult;
use super::calls::calls;

/// Names an answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AnswerName(Arc<str>);

impl AnswerName {
    /// The name of the answer to what has this digest.
    pub fn of_digest(digest: &[u8; 16]) -> Self {
        Self(HEXLOWER.encode(digest).into())
    }
}

impl fmt::Display for AnswerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Stands, until its time is over, in the place of an answer or a claim that named a user who was
/// erased.
pub const ERASED_ANSWER: &str = r#"{"erased":true}"#;

calls! {
    /// Answers to requests that may be repeated.
    pub trait Answers {
        /// Keeps a claim under a name for so long, unless something is kept there. Answers what is
        /// there: `None` if the claim is new.
        async fn claim_answer(
            &self,
            name: &AnswerName,
            claim: &str,
            keep: Duration,
        ) -> StoreResult<Option<String>>, writes;

        /// Keeps an answer for so long in the place of its claim, unless another answer has taken it.
        /// Answers what is kept.
        async fn keep_answer(
            &self,
            name: &AnswerName,
            claim: &str,
            answer: &str,
            keep: Duration,
        ) -> StoreResult<String>, writes;
    }
}
