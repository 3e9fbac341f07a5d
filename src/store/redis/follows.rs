//! The calls on the follow graph: each edge is in two sorted sets, one from each end, in different slots of a cluster.
//! The fan check reads `followers:`, so a follow writes it last and an unfollow clears it first; repeating a call that
//! got only half way repairs it.

use async_trait::async_trait;
use fred::types::Value;

use super::keys::Keys;
use super::node::Command;
use super::paging::{Order, Scored};
use super::reply::{Reply, flag, next_answer, nonsense, number};
use super::{RedisStore, args, scripts};
use crate::base::ids::UserId;
use crate::store::{Edge, Followed, Follows, StoreResult};

impl RedisStore {
    /// Adds one end of an edge; answers whether it is new, and its time.
    async fn add_end(&self, key: String, other: &UserId, at: String) -> StoreResult<(bool, String)> {
        let args = args![other, at];
        let mut reply = self.router.script(&scripts::FOLLOW, vec![key], args).await?;
        Ok((reply.number()? == 1, reply.text()?))
    }

    async fn remove_end(&self, key: String, other: &UserId) -> StoreResult<bool> {
        flag(&self.router.command("ZREM", args![key, other]).await?)
    }

    async fn do_follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let (_, since) = self.add_end(self.keys().edge(user, Edge::Following), streamer, String::new()).await?;
        let (new, _) = self.add_end(self.keys().edge(streamer, Edge::Followers), user, since).await?;
        Ok(new)
    }

    async fn do_unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let known = self.remove_end(self.keys().edge(streamer, Edge::Followers), user).await?;
        let listed = self.remove_end(self.keys().edge(user, Edge::Following), streamer).await?;
        Ok(known || listed)
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
    let answers: Vec<bool> = std::iter::from_fn(|| scores.piece().map(|score| !score.is_null())).collect();
    if answers.len() == users.len() { Ok(answers) } else { Err(nonsense("a fan check of another length")) }
}

#[async_trait]
impl Follows for RedisStore {
    async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        self.router.call("follow", self.do_follow(user, streamer)).await
    }

    async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        self.router.call("unfollow", self.do_unfollow(user, streamer)).await
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
            .read_each("follows", asked, |(streamer, users)| vec![fan_check(self.keys(), streamer, users)], read)
            .await
    }

    async fn follower_count(&self, streamer: &UserId) -> StoreResult<u64> {
        let key = args![self.keys().edge(streamer, Edge::Followers)];
        let steps = async { number(&self.router.command("ZCARD", key).await?) };
        self.router.call("follower_count", steps).await
    }

    async fn follow_page(
        &self,
        user: &UserId,
        edge: Edge,
        after: Option<&Followed>,
        limit: usize,
    ) -> StoreResult<Vec<Followed>> {
        let after = after.map(|last| (last.user.as_str().to_owned(), last.at));
        let read = |(user, at): Scored| Some(Followed { user: UserId::parse(&user).ok()?, at });
        let key = self.keys().edge(user, edge);
        self.router.call("follow_page", self.page((&key, Order::Down), after, limit, read)).await
    }
}
