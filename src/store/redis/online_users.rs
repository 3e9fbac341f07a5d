//! The calls that read who is online, and where. All keys on the users of one slice lie in one hash
//! slot, so a script answers about these users in one step. Users go in, and answers come out, as a
//! few texts: one value a user would cost the client library more than the question costs Redis.

use std::collections::BTreeMap;
use std::mem;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::future::try_join_all;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::keys::Keys;
use super::last_seen::by_slice;
use super::reply::{nonsense, read_score, score};
use super::router::ScriptCall;
use super::scripts::Script;
use super::{RedisCalls, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, USERS_SLICES, UserId};
use crate::store::{
    OnlineCount, OnlineUsers, Span, StoreError, StoreResult, UserPresence, Whereabouts,
};

/// Maximum users per call. Each takes Redis about 1 µs, and Redis does nothing else during a call.
const MAX_USERS_PER_CALL: usize = 128;

/// Maximum concurrent calls of one question. With this many, Redis need not wait for the next call.
/// More would keep other connections waiting: Redis carries out all that it has received on one
/// connection before it turns to the next.
const MAX_CONCURRENT_CALLS: usize = 4;

/// A user in question.
struct AskedUser<'a> {
    user: &'a UserId,
    /// The place of the answer.
    place: usize,
}

/// Users of one slice.
#[derive(Clone, Copy)]
struct Part<'a> {
    slice: u32,
    users: &'a [AskedUser<'a>],
}

/// A script that answers an item about each user.
struct UserScript {
    script: &'static Script,
    args: Vec<Value>,
    /// The keys of the script for a slice.
    keys: fn(&Keys, u32) -> Vec<String>,
}

impl UserScript {
    /// The run of the script for these parts.
    fn call(&self, keys: &Keys, parts: &[Part<'_>]) -> ScriptCall {
        let mut call = ScriptCall {
            keys: Vec::new(),
            args: self.args.clone(),
        };
        for part in parts {
            call.keys.extend((self.keys)(keys, part.slice));
            call.args.push(names(part));
        }
        call
    }
}

impl RedisCalls {
    /// Asks a question about users. Returns the item about each, as `read` reads it.
    async fn ask<T: Clone + Default>(
        &self,
        users: &[UserId],
        question: UserScript,
        read: fn(&str) -> StoreResult<T>,
    ) -> StoreResult<Vec<T>> {
        let asked = users
            .iter()
            .enumerate()
            .map(|(place, user)| AskedUser { user, place });
        let slices = by_slice(asked, |asked| asked.user);
        let mut calls = Vec::new();
        for parts in calls_about(&slices) {
            calls.push(self.ask_parts(&question, parts, read));
        }
        let mut known = vec![T::default(); users.len()];
        // Reads the answers of a call while Redis works on the next ones.
        let mut answers = stream::iter(calls).buffer_unordered(MAX_CONCURRENT_CALLS);
        while let Some(found) = answers.try_next().await? {
            for (place, item) in found {
                known[place] = item;
            }
        }
        Ok(known)
    }

    /// Asks about the users of one call. Returns each item with the place of its user.
    async fn ask_parts<T>(
        &self,
        question: &UserScript,
        parts: Vec<Part<'_>>,
        read: fn(&str) -> StoreResult<T>,
    ) -> StoreResult<Vec<(usize, T)>> {
        // In a cluster a script has keys of one slice only.
        let parts_per_script = if self.router.is_cluster() {
            1
        } else {
            usize::MAX
        };
        let scripts = parts
            .chunks(parts_per_script)
            .map(|parts| question.call(self.keys(), parts))
            .collect();
        let answers = self.router.script_each(question.script, scripts).await;
        let mut found = Vec::with_capacity(MAX_USERS_PER_CALL);
        for (parts, answer) in parts.chunks(parts_per_script).zip(answers) {
            let answer = answer?.bytes()?;
            // Bytes of another program may be no text; they say nothing then.
            let answer = String::from_utf8_lossy(&answer);
            let mut items = answer.split('\n');
            for asked in parts.iter().flat_map(|part| part.users) {
                let Some(item) = items.next() else {
                    return Err(other_number());
                };
                found.push((asked.place, read(item)?));
            }
            if items.next().is_some() {
                return Err(other_number());
            }
        }
        Ok(found)
    }

    async fn count_slices(&self, slices: &[u32], span: Span) -> StoreResult<OnlineCount> {
        let mut on = Vec::with_capacity(2 * slices.len());
        for slice in slices {
            on.push(self.keys().online_users(*slice));
            on.push(self.keys().last_seen(*slice));
        }
        let args = args![span.from, last_score(span)];
        let mut reply = self.router.script(&scripts::COUNT_ONLINE, on, args).await?;
        Ok(OnlineCount {
            online: reply.number()?,
            seen: reply.number()?,
        })
    }
}

/// Splits a question about these users into calls: the parts of slices in each.
fn calls_about<'a>(slices: &'a BTreeMap<u32, Vec<AskedUser<'a>>>) -> Vec<Vec<Part<'a>>> {
    let mut calls = Vec::new();
    let mut call = Vec::new();
    let mut size = 0;
    for (slice, users) in slices {
        for users in users.chunks(MAX_USERS_PER_CALL) {
            if size + users.len() > MAX_USERS_PER_CALL {
                calls.push(mem::take(&mut call));
                size = 0;
            }
            size += users.len();
            call.push(Part {
                slice: *slice,
                users,
            });
        }
    }
    if !call.is_empty() {
        calls.push(call);
    }
    calls
}

/// Users as one argument, a list in JSON.
fn names(part: &Part<'_>) -> Value {
    let names: Vec<&str> = part.users.iter().map(|asked| asked.user.as_str()).collect();
    Value::from(serde_json::to_string(&names).expect("texts are JSON"))
}

fn other_number() -> StoreError {
    nonsense("users of another number")
}

/// The end of a span as the highest score of a range.
fn last_score(span: Span) -> String {
    if span.to == UnixMillis::MAX {
        "+inf".to_owned()
    } else {
        span.to.to_string()
    }
}

pub(crate) fn read_time(seen: Value) -> StoreResult<Option<UnixMillis>> {
    if seen.is_null() {
        Ok(None)
    } else {
        Ok(Some(as_time(score(seen)?)))
    }
}

/// Reads the item about a user: `+` and the words of gateways while the user is online; otherwise
/// when the user was last seen, if that is known.
fn read_presence(item: &str) -> StoreResult<UserPresence> {
    if let Some(words) = item.strip_prefix('+') {
        return Ok(UserPresence {
            online: true,
            last_seen: None,
            lives: read_whereabouts(words),
        });
    }
    if item.is_empty() {
        return Ok(UserPresence::default());
    }
    Ok(UserPresence {
        last_seen: Some(as_time(read_score(item)?)),
        ..UserPresence::default()
    })
}

fn as_time(score: f64) -> UnixMillis {
    score.max(0.0) as UnixMillis
}

/// Reads the words of gateways about a user. Skips those that another program wrote.
fn read_whereabouts(words: &str) -> Whereabouts {
    words.split(',').filter_map(read_place).collect()
}

/// Reads `<gateway> <live>`.
fn read_place(word: &str) -> Option<(GatewayId, LiveId)> {
    let (gateway, live) = word.split_once(' ')?;
    Some((GatewayId::parse(gateway).ok()?, LiveId::parse(live).ok()?))
}

#[async_trait]
impl OnlineUsers for RedisCalls {
    async fn count_online(&self, span: Span) -> StoreResult<OnlineCount> {
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
        let mut sum = OnlineCount::default();
        for count in counts {
            sum.online += count.online;
            sum.seen += count.seen;
        }
        Ok(sum)
    }

    async fn presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>> {
        let question = UserScript {
            script: &scripts::READ_PRESENCE,
            args: args![self.seen_ids().as_str()],
            keys: |keys, slice| keys.of_users(slice),
        };
        self.ask(users, question, read_presence).await
    }

    async fn whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Whereabouts>> {
        let question = UserScript {
            script: &scripts::READ_WHEREABOUTS,
            args: Vec::new(),
            keys: |keys, slice| keys.whereabouts(slice).into(),
        };
        self.ask(users, question, |words| Ok(read_whereabouts(words)))
            .await
    }
}
