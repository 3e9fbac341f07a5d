//! The calls on the follow graph: each edge is in two sorted sets, one from each end, in different
//! slots of a cluster. The fan check reads `followers:` unless it is set to read `following:`, so a
//! follow writes it last and an unfollow clears it first. A call that got only half way is finished
//! as [`super::changes`] says.

use std::collections::HashSet;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::future::try_join_all;
use futures_util::try_join;

use super::changes::{Begun, Change, in_time};
use super::keys::Keys;
use super::node::Command;
use super::paging::{Order, Scored};
use super::reply::{Reply, next_answer, nonsense, number};
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::{Edge, Followed, Follows, MAX_BATCH, StoreResult};

impl RedisStore {
    /// The two ends of an edge.
    pub(super) fn edge_keys(&self, user: &UserId, streamer: &UserId) -> [String; 2] {
        [
            self.keys().edge(user, Edge::Following),
            self.keys().edge(streamer, Edge::Followers),
        ]
    }

    /// Adds one end of an edge; answers whether it is new, and its time.
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

    /// Writes both ends of an edge whose change has begun; the first with this time, or the node's
    /// if there is none. True if the edge is new.
    pub(super) async fn write_follow(
        &self,
        (user, streamer): (&UserId, &UserId),
        at: &str,
        (begun, [first, second]): (&Begun, [UnixMillis; 2]),
    ) -> StoreResult<bool> {
        let [following, followers] = self.edge_keys(user, streamer);
        let added = self.add_end(&following, streamer, at, first).await;
        let (_, since) = self.or_end(begun, added).await?;
        Ok(self.add_end(&followers, user, &since, second).await?.0)
    }

    /// Removes both ends of an edge whose change has begun. True if there was one.
    pub(super) async fn write_unfollow(
        &self,
        (user, streamer): (&UserId, &UserId),
        (begun, [first, second]): (&Begun, [UnixMillis; 2]),
    ) -> StoreResult<bool> {
        let [following, followers] = self.edge_keys(user, streamer);
        let removed = self.remove_end(&followers, user, second).await;
        let known = self.or_end(begun, removed).await?;
        let listed = self.remove_end(&following, streamer, first).await?;
        Ok(known || listed)
    }

    /// As [`Follows::follow`], with the time of the follow where it is known.
    pub(crate) async fn follow_since(
        &self,
        user: &UserId,
        streamer: &UserId,
        at: &str,
    ) -> StoreResult<bool> {
        let change = Change::Follow {
            user: user.clone(),
            streamer: streamer.clone(),
        };
        let guards = self.guards(&change).await?;
        let begun = self.begin_change(&change).await?;
        let new = self
            .write_follow((user, streamer), at, (&begun, guards))
            .await?;
        self.end_change(&begun).await;
        Ok(new)
    }

    /// Pages by rank and without times are several times as cheap as pages by time.
    async fn read_newest(&self, user: &UserId, most: usize) -> StoreResult<Vec<UserId>> {
        let key = self.keys().edge(user, Edge::Following);
        let page = async |first: usize| {
            let last = most.min(first + MAX_BATCH) - 1;
            let mut names = Reply::of(
                self.router
                    .command("ZREVRANGE", args![key, first, last])
                    .await?,
            )?;
            let names = std::iter::from_fn(|| names.piece());
            // What another program wrote there and is no id of a user is nobody.
            StoreResult::Ok(
                names
                    .filter_map(|name| UserId::parse(name.as_str()?.as_ref()).ok())
                    .collect::<Vec<_>>(),
            )
        };
        let size = async { Ok(number(&self.router.command("ZCARD", args![key]).await?)? as usize) };
        let (mut all, size) = try_join!(page(0), size)?;
        let others = try_join_all((MAX_BATCH..most.min(size)).step_by(MAX_BATCH).map(page)).await?;
        all.extend(others.into_iter().flatten());
        if size > MAX_BATCH {
            // A follow while the pages are read moves the last of a page to the next one.
            let mut known = HashSet::with_capacity(all.len());
            all.retain(|user| known.insert(user.clone()));
        }
        Ok(all)
    }

    async fn do_unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let change = Change::Unfollow {
            user: user.clone(),
            streamer: streamer.clone(),
        };
        let guards = self.guards(&change).await?;
        let begun = self.begin_change(&change).await?;
        let known = self
            .write_unfollow((user, streamer), (&begun, guards))
            .await?;
        self.end_change(&begun).await;
        Ok(known)
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
    let answers: Vec<bool> =
        std::iter::from_fn(|| scores.piece().map(|score| !score.is_null())).collect();
    if answers.len() == users.len() {
        Ok(answers)
    } else {
        Err(nonsense("a fan check of another length"))
    }
}

#[async_trait]
impl Follows for RedisStore {
    async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        self.router
            .call("follow", self.follow_since(user, streamer, ""))
            .await
    }

    async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        self.router
            .call("unfollow", self.do_unfollow(user, streamer))
            .await
    }

    async fn follows(&self, streamer: &UserId, users: &[UserId]) -> StoreResult<Vec<bool>> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let (command, args) = fan_check(self.keys(), streamer, users);
        let steps = async { read_fans(users, self.router.command(command, args).await?) };
        self.router.call("follows", steps).await
    }

    async fn follows_each(&self, asked: &[(UserId, Vec<UserId>)]) -> Vec<StoreResult<Vec<bool>>> {
        let read = |(_, users): &(UserId, Vec<UserId>), answers: &mut dyn Iterator<Item = _>| {
            read_fans(users, next_answer(answers)?)
        };
        self.router
            .read_each(
                "follows",
                asked,
                |(streamer, users)| vec![fan_check(self.keys(), streamer, users)],
                read,
            )
            .await
    }

    async fn are_following(&self, pairs: &[(UserId, UserId)]) -> Vec<StoreResult<bool>> {
        let ask = |(user, streamer): &(UserId, UserId)| {
            vec![(
                "ZSCORE",
                args![self.keys().edge(user, Edge::Following), streamer],
            )]
        };
        let read = |_: &(UserId, UserId), answers: &mut dyn Iterator<Item = _>| {
            next_answer(answers).map(|score: Value| !score.is_null())
        };
        self.router
            .read_each("are_following", pairs, ask, read)
            .await
    }

    async fn follow_count(&self, user: &UserId, edge: Edge) -> StoreResult<u64> {
        let key = args![self.keys().edge(user, edge)];
        let steps = async { number(&self.router.command("ZCARD", key).await?) };
        self.router.call("follow_count", steps).await
    }

    async fn newest_followed(&self, user: &UserId, most: usize) -> StoreResult<Vec<UserId>> {
        self.router
            .call("newest_followed", self.read_newest(user, most))
            .await
    }

    async fn follow_page(
        &self,
        user: &UserId,
        edge: Edge,
        after: Option<&Followed>,
        limit: usize,
    ) -> StoreResult<Vec<Followed>> {
        let after = after.map(|last| (last.user.as_str().to_owned(), last.at));
        let read = |(user, at): Scored| {
            Some(Followed {
                user: UserId::parse(&user).ok()?,
                at,
            })
        };
        let key = self.keys().edge(user, edge);
        self.router
            .call(
                "follow_page",
                self.page(&key, Order::Down, after, limit, read),
            )
            .await
    }
}
