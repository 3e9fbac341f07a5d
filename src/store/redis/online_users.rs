//! The calls that read who is online, and where. What is known of the users of one slice is in one hash slot, so a
//! cluster needs a call a slice; one server answers for many slices at a time.

use std::collections::HashSet;
use std::mem;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::future::try_join_all;

use super::last_seen::by_slice;
use super::reply::{nonsense, score};
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, USERS_SLICES, UserId};
use crate::store::{OnlineCount, OnlineUsers, Span, StoreResult, UserPresence};

/// Users of one call. Each costs Redis about 2 µs, and no call should take a millisecond.
const USERS_A_CALL: usize = 128;

/// Invisible users of a page.
const PAGE: usize = 500;

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

    async fn do_presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>> {
        let calls = self.calls(users);
        let answers = try_join_all(calls.iter().map(|slices| self.ask_presence(slices))).await?;
        Ok(in_order(&calls, answers))
    }

    async fn do_whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Vec<(GatewayId, LiveId)>>> {
        let calls = self.calls(users);
        let answers = try_join_all(calls.iter().map(|slices| self.ask_whereabouts(slices))).await?;
        Ok(in_order(&calls, answers))
    }

    async fn ask_presence(&self, slices: &[Slice<'_>]) -> StoreResult<Vec<UserPresence>> {
        let (mut on, mut args) = (Vec::new(), args![self.seen_ids().as_str()]);
        for (slice, users) in slices {
            let keys = self.keys();
            let (online, invisible) = (keys.online_users(*slice), keys.invisible_users(*slice));
            on.extend([online, invisible, keys.last_seen(*slice), keys.whereabouts(*slice)]);
            put_users(&mut args, users);
        }
        let mut reply = self.router.script(&scripts::USERS_PRESENCE, on, args).await?;
        let mut known = Vec::new();
        for (_, users) in slices {
            let (online, mut lives, mut seen) = (reply.text()?, reply.list()?, reply.list()?);
            if online.len() != users.len() {
                return Err(nonsense("users of another number"));
            }
            for online in online.bytes().map(|online| online == b'1') {
                let said = if online { lives.piece() } else { seen.piece() };
                let said = said.ok_or_else(|| nonsense("too little of a user"))?;
                known.push(if online {
                    UserPresence { online, last_seen: None, lives: read_lives(&said) }
                } else {
                    UserPresence { online, last_seen: read_time(said)?, lives: Vec::new() }
                });
            }
        }
        Ok(known)
    }

    async fn ask_whereabouts(&self, slices: &[Slice<'_>]) -> StoreResult<Vec<Vec<(GatewayId, LiveId)>>> {
        let (mut on, mut args) = (Vec::new(), Vec::new());
        for (slice, users) in slices {
            on.extend([self.keys().whereabouts(*slice), self.keys().invisible_users(*slice)]);
            put_users(&mut args, users);
        }
        let mut reply = self.router.script(&scripts::USERS_WHEREABOUTS, on, args).await?;
        let mut known = Vec::new();
        for (_, users) in slices {
            let mut lives = reply.list()?;
            for _ in users {
                known.push(read_lives(&lives.piece().ok_or_else(|| nonsense("too little of a user"))?));
            }
        }
        Ok(known)
    }

    async fn count_users(&self, span: Span) -> StoreResult<OnlineCount> {
        let together = if self.router.is_cluster() { 1 } else { USERS_SLICES as usize };
        let slices: Vec<u32> = (1..=USERS_SLICES).collect();
        let counts = try_join_all(slices.chunks(together).map(|slices| self.count_slices(slices, span))).await?;
        Ok(counts.iter().fold(OnlineCount::default(), |sum, slice| OnlineCount {
            online: sum.online + slice.online,
            seen: sum.seen + slice.seen,
        }))
    }

    async fn count_slices(&self, slices: &[u32], span: Span) -> StoreResult<OnlineCount> {
        let on = slices.iter().flat_map(|slice| {
            let keys = self.keys();
            [keys.online_users(*slice), keys.invisible_users(*slice), keys.last_seen(*slice)]
        });
        let args = args![span.from, last_score(span)];
        let mut reply = self.router.script(&scripts::COUNT_ONLINE, on.collect(), args).await?;
        let mut count = OnlineCount { online: reply.number()?, seen: reply.number()? };
        let mut hidden = Vec::new();
        while let Some(place) = reply.next_number()? {
            let slice = usize::try_from(place).ok().and_then(|place| slices.get(place.checked_sub(1)?));
            hidden.push(*slice.ok_or_else(|| nonsense("a slice that was not asked for"))?);
        }
        // They are online, although their last visit before is remembered.
        let both = try_join_all(hidden.into_iter().map(|slice| self.count_invisible_seen(slice, span))).await?;
        count.seen = count.seen.saturating_sub(both.iter().sum());
        Ok(count)
    }

    /// How many invisible users of a slice were last seen in a span.
    async fn count_invisible_seen(&self, slice: u32, span: Span) -> StoreResult<u64> {
        let on = vec![self.keys().invisible_users(slice), self.keys().last_seen(slice)];
        let (mut cursor, mut seen) = (0, HashSet::new());
        loop {
            let args = args![self.seen_ids().as_str(), span.from, last_score(span), cursor, PAGE];
            let mut page = self.router.script(&scripts::INVISIBLE_SEEN, on.clone(), args).await?;
            cursor = page.number()?;
            seen.extend(page.texts());
            if cursor == 0 {
                return Ok(seen.len() as u64);
            }
        }
    }
}

/// The answers of calls, each a value for each user of its slices, in the order in which the users were asked about.
fn in_order<T>(calls: &[Vec<Slice<'_>>], answers: Vec<Vec<T>>) -> Vec<T> {
    let places = calls.iter().flatten().flat_map(|(_, users)| users).map(|(place, _)| *place);
    let mut known: Vec<(usize, T)> = places.zip(answers.into_iter().flatten()).collect();
    known.sort_unstable_by_key(|(place, _)| *place);
    known.into_iter().map(|(_, answer)| answer).collect()
}

/// The end of a span, as Redis takes it.
fn last_score(span: Span) -> String {
    if span.to == UnixMillis::MAX { "+inf".to_owned() } else { span.to.to_string() }
}

fn put_users(args: &mut Vec<Value>, users: &[(usize, &UserId)]) {
    args.extend(args![users.len()]);
    args.extend(users.iter().map(|(_, user)| Value::from(user.as_str())));
}

pub(super) fn read_time(seen: Value) -> StoreResult<Option<UnixMillis>> {
    if seen.is_null() { Ok(None) } else { Ok(Some(score(seen)?.max(0.0) as UnixMillis)) }
}

/// Reads the words about a user. Another program's bytes say nothing.
pub(super) fn read_lives(words: &Value) -> Vec<(GatewayId, LiveId)> {
    words.as_bytes().and_then(|words| std::str::from_utf8(words).ok()).map(read_whereabouts).unwrap_or_default()
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

    async fn whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Vec<(GatewayId, LiveId)>>> {
        self.router.call("whereabouts_of", self.do_whereabouts_of(users)).await
    }
}
