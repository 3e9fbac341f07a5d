//! The calls on announcements. An author's announcements and profile lie in one slot, so both
//! change in one step.

use crate::features::feeds::scripts;
use async_trait::async_trait;

use crate::base::ids::{PostId, UserId};
use crate::features::feeds::store::statuses::{Post, StatusId, StatusSubject, Statuses};
use crate::features::feeds::store::timelines::{MAX_TIMELINE, Timeline, Timelines};
use crate::store::StoreResult;
use crate::store::redis::reply::{next_answer, nonsense, text};
use crate::store::redis::{RedisCalls, args};

fn post_of(status: &StatusId) -> Option<&PostId> {
    match status.subject() {
        StatusSubject::Post(post) => Some(post),
        StatusSubject::Live(..) => None,
    }
}

fn read_post(json: &str) -> StoreResult<Post> {
    serde_json::from_str(json).map_err(|_| nonsense("an announcement"))
}

impl RedisCalls {
    fn post_keys(&self, author: &UserId) -> Vec<String> {
        vec![
            self.keys().timeline(&Timeline::Profile(author.clone())),
            self.keys().posts(author),
        ]
    }
}

#[async_trait]
impl Statuses for RedisCalls {
    async fn put_post(&self, status: &StatusId, post: &Post) -> StoreResult<Post> {
        let Some(id) = post_of(status) else {
            return Err(nonsense("an announcement of a live"));
        };
        let json = serde_json::to_string(post).map_err(|why| nonsense(why.to_string()))?;
        let args = args![MAX_TIMELINE, post.at, status, id, json];
        let keys = self.post_keys(status.author());
        let there = self
            .router
            .script(&scripts::PUT_POST, keys, args)
            .await?
            .text()?;
        serde_json::from_str(&there).map_err(|why| nonsense(why.to_string()))
    }

    async fn drop_post(&self, status: &StatusId) -> StoreResult<bool> {
        let Some(id) = post_of(status) else {
            return Ok(false);
        };
        let keys = self.post_keys(status.author());
        let args = args![status, id];
        self.router
            .script(&scripts::DROP_POST, keys, args)
            .await?
            .flag()
    }

    async fn posts(&self, statuses: &[StatusId]) -> Vec<StoreResult<Option<Post>>> {
        self.router
            .read_each(
                "posts",
                statuses,
                |status| match post_of(status) {
                    Some(id) => vec![("HGET", args![self.keys().posts(status.author()), id])],
                    None => Vec::new(),
                },
                |status, answers| {
                    if post_of(status).is_none() {
                        return Ok(None);
                    }
                    let found = next_answer(answers)?;
                    if found.is_null() {
                        return Ok(None);
                    }
                    Ok(Some(read_post(&text(found)?)?))
                },
            )
            .await
    }

    async fn count_posts(&self, author: &UserId) -> StoreResult<u64> {
        self.timeline_len(&Timeline::Profile(author.clone())).await
    }
}
