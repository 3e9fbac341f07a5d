//! The calls on the follow graph. Each edge is in two sorted sets, one from each end, in different
//! slots of a cluster. The fan check reads `followers:` unless it is set to read `following:`, so a
//! follow writes `followers:` last and an unfollow clears it first. [`super::changes`] says how a
//! call that got only half way is finished.

use crate::store::FinishedChanges;
use std::collections::HashSet;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::future::try_join_all;
use futures_util::try_join;

use super::changes::{BegunChange, NotedChange, in_time};
use super::keys::Keys;
use super::node::Command;
use super::paging::{PageOrder, Scored};
use super::reply::{Reply, next_answer, nonsense, number};
use super::{RedisCalls, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::{Edge, Followed, Follows, MAX_BATCH, StoreResult};

fn read_followed((user, at): Scored) -> Option<Followed> {
    Some(Followed {
        user: UserId::parse(&user).ok()?,
        at,
    })
}

impl RedisCalls {
    /// The two ends of an edge.
    pub(crate) fn edge_keys(&self, user: &UserId, streamer: &UserId) -> [String; 2] {
        [
            self.keys().edge(user, Edge::Following),
            self.keys().edge(streamer, Edge::Followers),
        ]
    }

    /// Adds one end of an edge. Answers whether it is new, and its time.
    async fn add_end(
        &self,
        key: &str,
        other: &UserId,
        at: &str,
        until: UnixMillis,
    ) -> StoreResult<(bool, String)> {
        let reply = self
            .router
            .script(
                &scripts::FOLLOW,
                vec![key.to_owned()],
                args![other, at, until],
            )
            .await?;
        let mut reply = in_time(self, key, reply)?;
        Ok((reply.flag()?, reply.text()?))
    }

    async fn remove_end(&self, key: &str, other: &UserId, until: UnixMillis) -> StoreResult<bool> {
        let reply = self
            .router
            .script(
                &scripts::UNFOLLOW,
                vec![key.to_owned()],
                args![other, until],
            )
            .await?;
        in_time(self, key, reply)?.flag()
    }

    /// Writes both ends of an edge whose change has begun. The time is `at`, or the node's if `at`
    /// is empty. `guards` are the times until which the two nodes accept the writes. True if the
    /// edge is new.
    pub(crate) async fn write_follow(
        &self,
        user: &UserId,
        streamer: &UserId,
        at: &str,
        begun: &BegunChange,
        guards: [UnixMillis; 2],
    ) -> StoreResult<bool> {
        let [first, second] = guards;
        let [following, followers] = self.edge_keys(user, streamer);
        let added = self.add_end(&following, streamer, at, first).await;
        let (_, since) = self.or_end(begun, added).await?;
        let (is_new, _) = self.add_end(&followers, user, &since, second).await?;
        Ok(is_new)
    }

    /// Removes both ends of an edge whose change has begun. `guards` are as in
    /// [`Self::write_follow`]. True if there was an edge.
    pub(crate) async fn write_unfollow(
        &self,
        user: &UserId,
        streamer: &UserId,
        begun: &BegunChange,
        guards: [UnixMillis; 2],
    ) -> StoreResult<bool> {
        let [first, second] = guards;
        let [following, followers] = self.edge_keys(user, streamer);
        let removed = self.remove_end(&followers, user, second).await;
        let known = self.or_end(begun, removed).await?;
        let listed = self.remove_end(&following, streamer, first).await?;
        Ok(known || listed)
    }

    /// As [`Follows::follow`], with the time of the follow; `at` is empty if the time is unknown.
    pub(crate) async fn follow_since(
        &self,
        user: &UserId,
        streamer: &UserId,
        at: &str,
    ) -> StoreResult<bool> {
        let change = NotedChange::Follow {
            user: user.clone(),
            streamer: streamer.clone(),
        };
        let guards = self.guards(&change).await?;
        let begun = self.begin_change(&change).await?;
        let new = self
            .write_follow(user, streamer, at, &begun, guards)
            .await?;
        self.end_change(&begun).await;
        Ok(new)
    }

    /// Up to [`MAX_BATCH`] users from the rank `first` on, but none at the rank `most` or behind it.
    async fn newest_page(&self, key: &str, first: usize, most: usize) -> StoreResult<Vec<UserId>> {
        let last = most.min(first + MAX_BATCH) - 1;
        let names = self
            .router
            .command("ZREVRANGE", args![key, first, last])
            .await?;
        let mut names = Reply::of(names)?;
        let mut page = Vec::new();
        while let Some(name) = names.piece() {
            // Another program may write there, so skip a name that is no id of a user.
            page.extend(
                name.as_str()
                    .and_then(|name| UserId::parse(name.as_ref()).ok()),
            );
        }
        Ok(page)
    }

    async fn edge_count(&self, key: &str) -> StoreResult<u64> {
        number(&self.router.command("ZCARD", args![key]).await?)
    }
}

/// The fan check of some users: ZMSCORE and its arguments.
fn fan_check(keys: &Keys, streamer: &UserId, users: &[UserId]) -> Command {
    let mut args = args![keys.edge(streamer, Edge::Followers)];
    args.extend(users.iter().map(|user| Value::from(user.as_str())));
    ("ZMSCORE", args)
}

fn read_fans(users: &[UserId], scores: Value) -> StoreResult<Vec<bool>> {
    let mut scores = Reply::of(scores)?;
    let mut answers = Vec::with_capacity(users.len());
    while let Some(score) = scores.piece() {
        answers.push(!score.is_null());
    }
    if answers.len() == users.len() {
        Ok(answers)
    } else {
        Err(nonsense("a fan check of another length"))
    }
}

#[async_trait]
impl Follows for RedisCalls {
    async fn finish_changes(&self) -> StoreResult<FinishedChanges> {
        let noted = self
            .router
            .call("noted_changes", self.noted_changes())
            .await?;
        let mut finished = FinishedChanges::default();
        for (change, _) in noted {
            let done = self
                .router
                .call("finish_change", self.finish_change(&change))
                .await;
            match done {
                Ok(true) => {
                    finished.count += 1;
                    finished.follows.extend(change.into_follow());
                }
                Ok(false) => {}
                // One key that is away must not keep the others waiting.
                Err(why) => finished.failed = Some(why),
            }
        }
        Ok(finished)
    }

    async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        self.follow_since(user, streamer, "").await
    }

    async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let change = NotedChange::Unfollow {
            user: user.clone(),
            streamer: streamer.clone(),
        };
        let guards = self.guards(&change).await?;
        let begun = self.begin_change(&change).await?;
        let known = self.write_unfollow(user, streamer, &begun, guards).await?;
        self.end_change(&begun).await;
        Ok(known)
    }

    async fn follows(&self, streamer: &UserId, users: &[UserId]) -> StoreResult<Vec<bool>> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let (command, args) = fan_check(self.keys(), streamer, users);
        read_fans(users, self.router.command(command, args).await?)
    }

    async fn follows_each(&self, asked: &[(UserId, Vec<UserId>)]) -> Vec<StoreResult<Vec<bool>>> {
        self.router
            .read_each(
                "follows",
                asked,
                |(streamer, users)| vec![fan_check(self.keys(), streamer, users)],
                |(_, users), answers| read_fans(users, next_answer(answers)?),
            )
            .await
    }

    async fn are_following(&self, pairs: &[(UserId, UserId)]) -> Vec<StoreResult<bool>> {
        self.router
            .read_each(
                "are_following",
                pairs,
                |(user, streamer)| {
                    let key = self.keys().edge(user, Edge::Following);
                    vec![("ZSCORE", args![key, streamer])]
                },
                |_, answers| Ok(!next_answer(answers)?.is_null()),
            )
            .await
    }

    async fn follow_count(&self, user: &UserId, edge: Edge) -> StoreResult<u64> {
        let key = self.keys().edge(user, edge);
        self.edge_count(&key).await
    }

    /// Reads pages by rank and without times, which are several times as cheap as pages by time.
    async fn newest_followed(&self, user: &UserId, most: usize) -> StoreResult<Vec<UserId>> {
        let key = self.keys().edge(user, Edge::Following);
        let (mut all, size) = try_join!(self.newest_page(&key, 0, most), self.edge_count(&key))?;
        let size = size as usize;
        let mut asking = Vec::new();
        for first in (MAX_BATCH..most.min(size)).step_by(MAX_BATCH) {
            asking.push(self.newest_page(&key, first, most));
        }
        for page in try_join_all(asking).await? {
            all.extend(page);
        }
        if size > MAX_BATCH {
            // A follow at the same time moves the last user of a page to the next page.
            let mut known = HashSet::with_capacity(all.len());
            all.retain(|user| known.insert(user.clone()));
        }
        Ok(all)
    }

    async fn follow_page(
        &self,
        user: &UserId,
        edge: Edge,
        after: Option<&Followed>,
        limit: usize,
    ) -> StoreResult<Vec<Followed>> {
        let after = after.map(|last| (last.user.as_str().to_owned(), last.at));
        let key = self.keys().edge(user, edge);
        self.page(&key, PageOrder::Down, after, limit, read_followed)
            .await
    }
}
