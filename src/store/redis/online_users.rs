//! The calls that read who is online, and where. What is known of the users of one slice is in one
//! hash slot, so a script answers about them in one step. Users go in, and answers come out, as a
//! few texts: for the client library a value a user is more work than the question is for Redis.

use std::collections::BTreeMap;
use std::mem;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::keys::Keys;
use super::last_seen::by_slice;
use super::reply::{nonsense, read_score, score};
use super::scripts::Script;
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, USERS_SLICES, UserId};
use crate::store::{
    OnlineCount, OnlineUsers, Span, StoreError, StoreResult, UserPresence, Whereabouts,
};

/// Users of one call. Each takes Redis about 1 µs, and Redis does nothing else during a call.
const USERS_A_CALL: usize = 128;

/// Calls of one question at a time: so many that Redis need not wait for the next, and no more,
/// since it carries out what it has received of a connection before it turns to others.
const CALLS_AT_A_TIME: usize = 4;

/// A user, with the place of the answer.
type Asked<'a> = (usize, &'a UserId);

/// Users of a slice.
type Part<'a> = (u32, &'a [Asked<'a>]);

/// A script that answers an item about each user.
struct Question<K> {
    script: &'static Script,
    args: Vec<Value>,
    /// Its keys of a slice.
    keys: K,
}

impl RedisStore {
    /// Asks a question about users; answers what is read from the item about each.
    async fn ask<T: Clone + Default, K: IntoIterator<Item = String>>(
        &self,
        users: &[UserId],
        question: Question<impl Fn(&Keys, u32) -> K>,
        read: impl Fn(&str) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        let slices = by_slice(users.iter().enumerate(), |(_, user)| *user);
        // In a cluster a script has keys of one slice only.
        let parts_a_script = if self.router.is_cluster() {
            1
        } else {
            usize::MAX
        };
        let (question, read) = (&question, &read);
        let calls: Vec<_> = calls(&slices)
            .into_iter()
            .map(|parts| async move {
                let scripts = parts.chunks(parts_a_script).map(|parts| {
                    let keys = parts
                        .iter()
                        .flat_map(|(slice, _)| (question.keys)(self.keys(), *slice))
                        .collect();
                    (
                        keys,
                        question
                            .args
                            .iter()
                            .cloned()
                            .chain(parts.iter().map(names))
                            .collect(),
                    )
                });
                let answers = self
                    .router
                    .script_each(question.script, scripts.collect())
                    .await;
                let mut found = Vec::with_capacity(USERS_A_CALL);
                for (parts, answer) in parts.chunks(parts_a_script).zip(answers) {
                    let answer = answer?.bytes()?;
                    // What another program wrote may be no text; it says nothing then.
                    let answer = String::from_utf8_lossy(&answer);
                    let mut items = answer.split('\n');
                    for (place, _) in parts.iter().flat_map(|(_, users)| *users) {
                        found.push((*place, read(items.next().ok_or_else(other_number)?)?));
                    }
                    if items.next().is_some() {
                        return Err(other_number());
                    }
                }
                Ok(found)
            })
            .collect();
        let mut known = vec![T::default(); users.len()];
        // The answers of a call are read while Redis works on the next ones.
        let mut answers = stream::iter(calls).buffer_unordered(CALLS_AT_A_TIME);
        while let Some(found) = answers.try_next().await? {
            found
                .into_iter()
                .for_each(|(place, item)| known[place] = item);
        }
        Ok(known)
    }

    async fn do_presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>> {
        let keys = |keys: &Keys, slice| {
            [
                keys.online_users(slice),
                keys.last_seen(slice),
                keys.whereabouts(slice),
            ]
        };
        let question = Question {
            script: &scripts::PRESENCE,
            args: args![self.seen_ids().as_str()],
            keys,
        };
        let read = |item: &str| {
            Ok(match item.strip_prefix('+') {
                Some(words) => UserPresence {
                    online: true,
                    last_seen: None,
                    lives: read_whereabouts(words),
                },
                None if item.is_empty() => UserPresence::default(),
                None => UserPresence {
                    last_seen: Some(as_time(read_score(item)?)),
                    ..UserPresence::default()
                },
            })
        };
        self.ask(users, question, read).await
    }

    async fn do_whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Whereabouts>> {
        let keys = |keys: &Keys, slice| [keys.whereabouts(slice)];
        let question = Question {
            script: &scripts::WHEREABOUTS,
            args: Vec::new(),
            keys,
        };
        self.ask(users, question, |words| Ok(read_whereabouts(words)))
            .await
    }

    async fn count_users(&self, span: Span) -> StoreResult<OnlineCount> {
        let together = if self.router.is_cluster() {
            1
        } else {
            USERS_SLICES as usize
        };
        let slices: Vec<u32> = (1..=USERS_SLICES).collect();
        let counts = try_join_all(
            slices
                .chunks(together)
                .map(|slices| self.count_slices(slices, span)),
        )
        .await?;
        Ok(counts
            .iter()
            .fold(OnlineCount::default(), |sum, slice| OnlineCount {
                online: sum.online + slice.online,
                seen: sum.seen + slice.seen,
            }))
    }

    async fn count_slices(&self, slices: &[u32], span: Span) -> StoreResult<OnlineCount> {
        let on = slices.iter().flat_map(|slice| {
            [
                self.keys().online_users(*slice),
                self.keys().last_seen(*slice),
            ]
        });
        let args = args![span.from, last_score(span)];
        let mut reply = self
            .router
            .script(&scripts::COUNT_ONLINE, on.collect(), args)
            .await?;
        Ok(OnlineCount {
            online: reply.number()?,
            seen: reply.number()?,
        })
    }
}

/// The calls that it takes to ask about users: the parts of slices in each.
fn calls<'a>(slices: &'a BTreeMap<u32, Vec<Asked<'a>>>) -> Vec<Vec<Part<'a>>> {
    let (mut calls, mut call, mut size) = (Vec::new(), Vec::new(), 0);
    let parts = slices
        .iter()
        .flat_map(|(slice, users)| users.chunks(USERS_A_CALL).map(|some| (*slice, some)));
    for (slice, users) in parts {
        if size + users.len() > USERS_A_CALL {
            calls.push(mem::take(&mut call));
            size = 0;
        }
        size += users.len();
        call.push((slice, users));
    }
    calls.push(call);
    calls.retain(|call| !call.is_empty());
    calls
}

/// Users as one argument, a list in JSON.
fn names((_, users): &Part<'_>) -> Value {
    let names: Vec<&str> = users.iter().map(|(_, user)| user.as_str()).collect();
    Value::from(serde_json::to_string(&names).expect("texts are JSON"))
}

fn other_number() -> StoreError {
    nonsense("users of another number")
}

/// The end of a span, as Redis takes it.
fn last_score(span: Span) -> String {
    if span.to == UnixMillis::MAX {
        "+inf".to_owned()
    } else {
        span.to.to_string()
    }
}

pub(super) fn read_time(seen: Value) -> StoreResult<Option<UnixMillis>> {
    if seen.is_null() {
        Ok(None)
    } else {
        Ok(Some(as_time(score(seen)?)))
    }
}

fn as_time(score: f64) -> UnixMillis {
    score.max(0.0) as UnixMillis
}

/// Reads the words about a user. Another program's bytes say nothing.
pub(super) fn read_lives(words: &Value) -> Whereabouts {
    words
        .as_bytes()
        .and_then(|words| std::str::from_utf8(words).ok())
        .map(read_whereabouts)
        .unwrap_or_default()
}

/// Reads the words of gateways about a user. Skips those that another program wrote.
pub(super) fn read_whereabouts(words: &str) -> Whereabouts {
    let read = |word: &str| {
        let (gateway, live) = word.split_once(' ')?;
        Some((GatewayId::parse(gateway).ok()?, LiveId::parse(live).ok()?))
    };
    words.split(',').filter_map(read).collect()
}

#[async_trait]
impl OnlineUsers for RedisStore {
    async fn count_online(&self, span: Span) -> StoreResult<OnlineCount> {
        self.router
            .call("count_online", self.count_users(span))
            .await
    }

    async fn presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>> {
        self.router
            .call("presence_of", self.do_presence_of(users))
            .await
    }

    async fn whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Whereabouts>> {
        self.router
            .call("whereabouts_of", self.do_whereabouts_of(users))
            .await
    }
}
