//! What an audit reads of the users of the platform from outside the protocol, and puts right. No
//! gateway calls it.

use std::time::Duration;

use fred::types::Value;

use super::online_users::{read_lives, read_time, read_whereabouts};
use super::reply::{Reply, flag, nonsense, number};
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::{MAX_BATCH, StoreResult, Whereabouts};

/// Members of a page.
const PAGE: usize = 500;

/// All that is known of a user of a slice, whether or not it fits together.
#[derive(Debug)]
pub(crate) struct UserInside {
    pub(crate) online: bool,
    /// When the user was seen last; a user who is online should have no such time.
    pub(crate) seen: Option<UnixMillis>,
    /// What gateways say of where the user is.
    pub(crate) words: Whereabouts,
}

impl RedisStore {
    /// Reads how the times of users are kept, before the first question about them.
    pub(crate) async fn learn_seen_ids(&self) -> StoreResult<()> {
        let fixed = self
            .router
            .call("learn_seen_ids", self.fixed_seen_ids())
            .await?;
        if let Some(ids) = fixed {
            self.seen_ids.get_or_init(|| ids);
        }
        Ok(())
    }

    /// A page of the users of a slice who are online, from cursor 0 on; and where to go on.
    pub(crate) async fn online_page(
        &self,
        slice: u32,
        cursor: u64,
    ) -> StoreResult<(Vec<UserId>, Option<u64>)> {
        let args = args![self.keys().online_users(slice), cursor, "COUNT", PAGE];
        let steps = async {
            let mut reply = Reply::of(self.router.command("SSCAN", args).await?)?;
            let next = reply.number()?;
            let users = reply
                .list()?
                .texts()
                .filter_map(|user| UserId::parse(&user).ok())
                .collect();
            Ok((users, (next != 0).then_some(next)))
        };
        self.router.call("online_page", steps).await
    }

    /// What is known of up to [`MAX_BATCH`] users of a slice, each in one moment with what else is
    /// known.
    pub(crate) async fn inspect_users(
        &self,
        slice: u32,
        users: &[UserId],
    ) -> StoreResult<Vec<UserInside>> {
        if users.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.keys();
        let on = vec![
            keys.online_users(slice),
            keys.last_seen(slice),
            keys.whereabouts(slice),
        ];
        let mut args = args![self.seen_ids().as_str()];
        args.extend(users.iter().map(|user| Value::from(user.as_str())));
        let steps = async {
            let mut reply = self
                .router
                .script(&scripts::INSPECT_USERS, on, args)
                .await?;
            let (mut online, mut seen, mut words) = (reply.list()?, reply.list()?, reply.list()?);
            let read = |_| match (online.piece(), seen.piece(), words.piece()) {
                (Some(online), Some(seen), Some(words)) => Ok(UserInside {
                    online: flag(&online)?,
                    seen: read_time(seen)?,
                    words: read_lives(&words),
                }),
                _ => Err(nonsense("too little of a user")),
            };
            users.iter().map(read).collect()
        };
        self.router.call("inspect_users", steps).await
    }

    /// A page of the users of a slice, from cursor 0 on, with what gateways said of the lives in
    /// which each is; and where to go on. A user may come twice, as in HSCAN.
    pub(crate) async fn whereabouts_page(
        &self,
        slice: u32,
        cursor: u64,
    ) -> StoreResult<(Vec<(UserId, Whereabouts)>, Option<u64>)> {
        let args = args![self.keys().whereabouts(slice), cursor, "COUNT", MAX_BATCH];
        let mut reply = Reply::of(
            self.router
                .call("whereabouts_page", self.router.command("HSCAN", args))
                .await?,
        )?;
        let next = reply.number()?;
        let fields = reply.list()?.pairs()?.into_iter();
        let users = fields.filter_map(|(user, words)| {
            Some((UserId::parse(&user).ok()?, read_whereabouts(&words)))
        });
        Ok((users.collect(), (next != 0).then_some(next)))
    }

    /// How many users of a slice were seen last in a span of scores, as ZCOUNT takes it.
    pub(crate) async fn count_seen(
        &self,
        slice: u32,
        (from, to): (&str, &str),
    ) -> StoreResult<u64> {
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
        self.note_slice(slice, &seen, Duration::ZERO)
            .await
            .map(drop)
    }

    /// Lowers up to [`MAX_BATCH`] times of a slice that are later than `most`. How many there were.
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
                    .script(&scripts::NOW, on, Vec::new())
                    .await?
                    .number()
            })
            .await
    }
}
