//! The calls that read who is online. What is known of the users of one slice is in one hash slot, so a cluster needs a
//! call a slice; one server answers for many slices at a time.

use std::mem;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::future::try_join_all;

use super::last_seen::by_slice;
use super::reply::{nonsense, score, text};
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, USERS_SLICES, UserId};
use crate::store::{OnlineCount, OnlineUsers, Span, StoreResult, UserPresence};

/// Users of one call. Each costs Redis about 2 µs, and no call should take a millisecond.
const USERS_A_CALL: usize = 128;

/// Users of one slice, each with the place of the answer.
type Slice<'a> = (u32, Vec<(usize, &'a UserId)>);

impl RedisStore {
    /// The questions of the calls: the slices of each, with their users.
    fn calls<'a>(&self, users: &'a [UserId]) -> Vec<Vec<Slice<'a>>> {
        let (mut calls, mut call, mut size) = (Vec::new(), Vec::new(), 0);
        for (slice, users) in by_slice(users.iter().enumerate(), |(_, user)| *user) {
            for some in users.chunks(USERS_A_CALL) {
                if !call.is_empty() && (self.router.is_cluster() || size + some.len() > USERS_A_CALL) {
                    calls.push(mem::take(&mut call));
                    size = 0;
                }
                size += some.len();
                call.push((slice, some.to_vec()));
            }
        }
        calls.extend((!call.is_empty()).then_some(call));
        calls
    }

    async fn ask_presence(&self, slices: Vec<Slice<'_>>) -> StoreResult<Vec<(usize, UserPresence)>> {
        let (mut on, mut args) = (Vec::new(), args![self.seen_ids().as_str()]);
        for (slice, users) in &slices {
            on.extend([
                self.keys().online_users(*slice),
                self.keys().invisible_users(*slice),
                self.keys().last_seen(*slice),
                self.keys().whereabouts(*slice),
            ]);
            args.extend(args![users.len()]);
            args.extend(users.iter().map(|(_, user)| Value::from(user.as_str())));
        }
        let mut reply = self.router.script(&scripts::USERS_PRESENCE, on, args).await?;
        let mut known = Vec::new();
        for (_, users) in slices {
            let (online, mut lives, mut seen) = (reply.text()?, reply.list()?, reply.list()?);
            if online.len() != users.len() {
                return Err(nonsense("users of another number"));
            }
            for ((place, _), online) in users.iter().zip(online.bytes()) {
                let online = online == b'1';
                let seen = if online { Some(Value::Null) } else { seen.piece() };
                let (Some(lives), Some(seen)) = (lives.piece(), seen) else {
                    return Err(nonsense("too little of a user"));
                };
                known.push((*place, read_presence(online, seen, lives)?));
            }
        }
        Ok(known)
    }

    async fn do_presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>> {
        let calls = self.calls(users).into_iter().map(|slices| self.ask_presence(slices));
        let mut known = vec![UserPresence::default(); users.len()];
        for (place, presence) in try_join_all(calls).await?.into_iter().flatten() {
            known[place] = presence;
        }
        Ok(known)
    }

    async fn count_users(&self, span: Span) -> StoreResult<OnlineCount> {
        let together = if self.router.is_cluster() { 1 } else { USERS_SLICES as usize };
        let slices: Vec<u32> = (1..=USERS_SLICES).collect();
        let calls = slices.chunks(together).map(|slices| async move {
            let on = slices
                .iter()
                .flat_map(|slice| {
                    let keys = self.keys();
                    [keys.online_users(*slice), keys.invisible_users(*slice), keys.last_seen(*slice)]
                })
                .collect();
            let to = if span.to == UnixMillis::MAX { "+inf".to_owned() } else { span.to.to_string() };
            let args = args![self.seen_ids().as_str(), span.from, to];
            let mut reply = self.router.script(&scripts::COUNT_ONLINE, on, args).await?;
            StoreResult::Ok(OnlineCount { online: reply.number()?, seen: reply.number()? })
        });
        let counts = try_join_all(calls).await?;
        Ok(counts.iter().fold(OnlineCount::default(), |sum, slice| OnlineCount {
            online: sum.online + slice.online,
            seen: sum.seen + slice.seen,
        }))
    }
}

fn read_presence(online: bool, seen: Value, lives: Value) -> StoreResult<UserPresence> {
    let last_seen = if seen.is_null() { None } else { Some(score(seen)?.max(0.0) as UnixMillis) };
    let lives = if lives.is_null() { Vec::new() } else { read_whereabouts(&text(lives)?) };
    Ok(UserPresence { online, last_seen, lives })
}

/// Reads the words of gateways about a user. Skips those that another program wrote.
pub(super) fn read_whereabouts(words: &str) -> Vec<(GatewayId, LiveId)> {
    let read = |word: &str| {
        let (gateway, live) = word.split_once(' ')?;
        Some((GatewayId::parse(gateway).ok()?, LiveId::parse(live).ok()?))
    };
    words.split(',').filter_map(read).collect()
}

#[async_trait]
impl OnlineUsers for RedisStore {
    async fn count_online(&self, span: Span) -> StoreResult<OnlineCount> {
        self.router.call("count_online", self.count_users(span)).await
    }

    async fn presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>> {
        self.router.call("presence_of", self.do_presence_of(users)).await
    }
}
