//! The calls of an audit of users: follows that only one of the two ends has, and changes that were
//! left. No gateway makes them. They read pages of 1,000 members.

use std::fmt;
use std::time::Duration;

use super::reply::{Reply, next_answer};
use super::{RedisStore, args, scripts};
use crate::base::ids::UserId;
use crate::store::{Edge, MAX_BATCH, StoreResult};

/// A follow that only one end has, with its time as that end has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HalfFollow {
    user: UserId,
    streamer: UserId,
    there: Edge,
    at: String,
}

impl HalfFollow {
    fn of(one: &UserId, there: Edge, other: UserId, at: String) -> Self {
        let (user, streamer) = match there {
            Edge::Following => (one.clone(), other),
            Edge::Followers => (other, one.clone()),
        };
        Self {
            user,
            streamer,
            there,
            at,
        }
    }

    /// The user at the end that has it.
    pub(crate) fn at_one_end(&self) -> &UserId {
        match self.there {
            Edge::Following => &self.user,
            Edge::Followers => &self.streamer,
        }
    }
}

impl fmt::Display for HalfFollow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.user, self.streamer)
    }
}

/// A change that began long ago and that nobody finishes.
#[derive(Debug)]
pub(crate) struct LeftChange {
    pub(crate) change: String,
    /// The key of the change's note.
    pub(crate) key: String,
    /// The age by Redis's clock.
    pub(crate) age: Duration,
}

impl RedisStore {
    /// The follows of this key that the other end lacks; none if it is no key of the follow graph.
    pub(crate) async fn half_follows(&self, key: &str) -> StoreResult<Vec<HalfFollow>> {
        let Some((one, there)) = self.keys().read_edge(key) else {
            return Ok(Vec::new());
        };
        let mut halves = Vec::new();
        let mut cursor = 0;
        loop {
            let args = args![key, cursor, "COUNT", MAX_BATCH];
            let page = self
                .router
                .call("half_follows", self.router.command("ZSCAN", args))
                .await?;
            let mut reply = Reply::of(page)?;
            cursor = reply.number()?;
            let mut members: Vec<(UserId, String)> = Vec::new();
            for (id, at) in reply.list()?.pairs()? {
                if let Ok(other) = UserId::parse(&id) {
                    members.push((other, at));
                }
            }
            let other_end = match there {
                Edge::Following => Edge::Followers,
                Edge::Followers => Edge::Following,
            };
            let there_too = self
                .router
                .read_each(
                    "half_follows",
                    &members,
                    |(other, _)| vec![("ZSCORE", args![self.keys().edge(other, other_end), one])],
                    |_, answers| Ok(!next_answer(answers)?.is_null()),
                )
                .await;
            for ((other, at), is_there) in members.into_iter().zip(there_too) {
                if !is_there? {
                    halves.push(HalfFollow::of(&one, there, other, at));
                }
            }
            if cursor == 0 {
                return Ok(halves);
            }
        }
    }

    /// Adds the end that is missing, with the time of the other.
    pub(crate) async fn restore_follow(&self, half: &HalfFollow) -> StoreResult<()> {
        let steps = self
            .calls
            .follow_since(&half.user, &half.streamer, &half.at);
        self.router.call("restore_follow", steps).await?;
        Ok(())
    }

    /// The changes that began longer ago than this.
    pub(crate) async fn left_changes(&self, overdue: Duration) -> StoreResult<Vec<LeftChange>> {
        let steps = async {
            let clock = vec![self.keys().leases()];
            let now = self
                .router
                .script(&scripts::READ_CLOCK, clock, Vec::new())
                .await?
                .number()?;
            let mut left = Vec::new();
            for (change, began) in self.calls.noted_changes().await? {
                let age = Duration::from_millis(now.saturating_sub(began));
                if age > overdue {
                    left.push(LeftChange {
                        change: change.to_string(),
                        key: self.calls.changes_key(&change),
                        age,
                    });
                }
            }
            Ok(left)
        };
        self.router.call("left_changes", steps).await
    }
}
