//! The calls on answers to requests that may be repeated: a string each, which expires by itself.

use std::time::Duration;

use async_trait::async_trait;

use super::reply::text;
use super::{RedisCalls, args, scripts};
use crate::base::clock::millis;
use crate::store::{AnswerName, Answers, StoreResult};

#[async_trait]
impl Answers for RedisCalls {
    async fn claim_answer(
        &self,
        name: &AnswerName,
        claim: &str,
        keep: Duration,
    ) -> StoreResult<Option<String>> {
        let args = args![
            self.keys().answer(name),
            claim,
            "NX",
            "GET",
            "PX",
            millis(keep)
        ];
        let there = self.router.command("SET", args).await?;
        if there.is_null() {
            return Ok(None);
        }
        text(there).map(Some)
    }

    async fn keep_answer(
        &self,
        name: &AnswerName,
        claim: &str,
        answer: &str,
        keep: Duration,
    ) -> StoreResult<String> {
        let keys = vec![self.keys().answer(name)];
        let args = args![claim, answer, millis(keep)];
        let mut kept = self
            .router
            .script(&scripts::KEEP_ANSWER, keys, args)
            .await?;
        kept.text()
    }
}
