//! Reads and repairs the users of the platform from outside the protocol, for an audit. No gateway
//! calls it.

use crate::features::audit::scripts as own_scripts;
use std::time::Duration;

use fred::types::Value;

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::redis::online_users::read_time;
use crate::store::redis::reply::{Reply, flag, nonsense, number};
use crate::store::redis::{RedisStore, args, scripts};
use crate::store::{MAX_BATCH, StoreResult};

/// Maximum members per page.
const PAGE: usize = 500;

/// All facts about a user of a slice, whether or not they fit together.
#[derive(Debug)]
pub(crate) struct UserInside {
    pub(crate) online: bool,
    /// When the user was seen last; a user who is online should have no such time.
    pub(crate) seen: Option<UnixMillis>,
}

/// The cursor of the next page; `None` after the last page.
fn next_page(cursor: u64) -> Option<u64> {
    if cursor == 0 { None } else { Some(cursor) }
}

impl RedisStore {
    /// Reads the form in which the times of users are kept, before the first question about them.
    pub(crate) async fn learn_seen_ids(&self) -> StoreResult<()> {
        let fixed = self
            .router
            .call("learn_seen_ids", self.calls.fixed_seen_ids())
            .await?;
        if let Some(ids) = fixed {
            self.calls.seen_ids.get_or_init(|| ids);
        }
        Ok(())
    }

    /// A page of the online users of a slice, and the cursor of the next page. The first page has
    /// cursor 0.
    pub(crate) async fn online_page(
        &self,
        slice: u32,
        cursor: u64,
    ) -> StoreResult<(Vec<UserId>, Option<u64>)> {
        let args = args![self.keys().online_users(slice), cursor, "COUNT", PAGE];
        let steps = async {
            let mut reply = Reply::of(self.router.command("SSCAN", args).await?)?;
            let next = reply.number()?;
            let mut users = Vec::new();
            for user in reply.list()?.texts() {
                if let Ok(user) = UserId::parse(&user) {
                    users.push(user);
                }
            }
            Ok((users, next_page(next)))
        };
        self.router.call("online_page", steps).await
    }

    /// The facts about up to [`MAX_BATCH`] users of a slice, all as of one moment.
    pub(crate) async fn inspect_users(
        &self,
        slice: u32,
        users: &[UserId],
    ) -> StoreResult<Vec<UserInside>> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.keys();
        let on = vec![keys.online_users(slice), keys.last_seen(slice)];
        let mut args = args![self.calls.seen_ids().as_str()];
        args.extend(users.iter().map(|user| Value::from(user.as_str())));
        let steps = async {
            let mut reply = self
                .router
                .script(&own_scripts::INSPECT_USERS, on, args)
                .await?;
            let mut online = reply.list()?;
            let mut seen = reply.list()?;
            let mut found = Vec::with_capacity(users.len());
            for _ in users {
                match (online.piece(), seen.piece()) {
                    (Some(online), Some(seen)) => found.push(UserInside {
                        online: flag(&online)?,
                        seen: read_time(seen)?,
                    }),
                    _ => return Err(nonsense("too little of a user")),
                }
            }
            Ok(found)
        };
        self.router.call("inspect_users", steps).await
    }

    /// The number of users of a slice who were seen last between two times. Both are written as
    /// ZCOUNT takes them.
    pub(crate) async fn count_seen(&self, slice: u32, from: &str, to: &str) -> StoreResult<u64> {
        let args = args![self.keys().last_seen(slice), from, to];
        self.router
            .call("count_seen", async {
                number(&self.router.command("ZCOUNT", args).await?)
            })
            .await
    }

    /// As [`crate::store::LastSeen::note_seen`], for up to [`MAX_BATCH`] users of a slice.
    pub(crate) async fn note_seen_again(
        &self,
        slice: u32,
        seen: &[(UserId, UnixMillis)],
    ) -> StoreResult<()> {
        let seen: Vec<(&UserId, UnixMillis)> = seen.iter().map(|(user, at)| (user, *at)).collect();
        self.calls.note_slice(slice, &seen, Duration::ZERO).await?;
        Ok(())
    }

    /// Lowers up to [`MAX_BATCH`] times of a slice that are later than `most`. Answers how many
    /// there were.
    pub(crate) async fn cap_seen(&self, slice: u32, most: UnixMillis) -> StoreResult<u64> {
        let key = self.keys().last_seen(slice);
        let later = args![
            &key,
            format!("({most}"),
            "+inf",
            "BYSCORE",
            "LIMIT",
            0,
            MAX_BATCH
        ];
        let steps = async {
            let mut late = Reply::of(self.router.command("ZRANGE", later).await?)?;
            let mut args = args![&key, "XX", "LT"];
            let mut count = 0;
            while let Some(member) = late.piece() {
                args.extend([Value::from(most.to_string()), member]);
                count += 1;
            }
            if count > 0 {
                self.router.command("ZADD", args).await?;
            }
            Ok(count)
        };
        self.router.call("cap_seen", steps).await
    }

    /// The time by the clock of the node that has a slice of users.
    pub(crate) async fn users_time(&self, slice: u32) -> StoreResult<UnixMillis> {
        let on = vec![self.keys().last_seen(slice)];
        self.router
            .call("users_time", async {
                self.router
                    .script(&scripts::READ_CLOCK, on, Vec::new())
                    .await?
                    .number()
            })
            .await
    }
}
