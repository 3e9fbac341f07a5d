//! The calls that read who is online, and where. What is known of the users of one slice is in one hash slot; users of
//! many slices are asked about in few calls, with plain commands: a script would cost Redis twice as much a user.

use std::collections::{BTreeMap, HashSet};
use std::mem;

use async_trait::async_trait;
use bytes::Bytes;
use fred::types::Value;
use futures_util::future::try_join_all;

use super::keys::Keys;
use super::last_seen::{by_slice, write_member};
use super::node::Command;
use super::reply::{Reply, flag, next_answer, nonsense, number, score};
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, USERS_SLICES, UserId};
use crate::config::SeenIds;
use crate::store::{OnlineCount, OnlineUsers, Span, StoreResult, UserPresence};

/// About so many users of one call. Redis looks those of one call up while the gateway writes the next one.
const USERS_A_CALL: usize = 256;
/// Users of one command. Each costs Redis less than 1 µs.
const USERS_A_COMMAND: usize = 128;

/// Invisible users of a page.
const PAGE: usize = 500;

/// A user, with the place of the answer.
type Asked<'a> = (usize, &'a UserId);

/// A command about users of a slice, with its key. It answers a value for each user.
struct Question {
    command: &'static str,
    key: String,
    /// Whether the set at the key is mostly empty, so that its size is asked first.
    rare: bool,
}

type Questions<const N: usize> = [Question; N];

/// How a [`Question`] about a set that is mostly empty is put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rare {
    /// By the size of the set: if that is zero, it answers for each user.
    BySize,
    ByUser,
}

/// What the gateways said of where a user is.
type Words = Vec<(GatewayId, LiveId)>;

impl RedisStore {
    /// Asks about users: all questions about those of a slice in one call, in this order. The answers about each user
    /// become one item, with the place of the user.
    async fn ask<T, const N: usize>(
        &self,
        users: impl Iterator<Item = Asked<'_>>,
        questions: impl Fn(u32) -> Questions<N>,
        read: impl Fn([Value; N]) -> StoreResult<T>,
    ) -> StoreResult<Vec<(usize, T)>> {
        let (mut found, open) = self.ask_once(users, (&questions, &read), Rare::BySize).await?;
        found.extend(self.ask_once(open.into_iter(), (&questions, &read), Rare::ByUser).await?.0);
        Ok(found)
    }

    /// Answers also about whom all of it is to be asked again, [`Rare::ByUser`].
    async fn ask_once<'a, T, const N: usize>(
        &self,
        users: impl Iterator<Item = Asked<'a>>,
        (questions, read): (&impl Fn(u32) -> Questions<N>, &impl Fn([Value; N]) -> StoreResult<T>),
        rare: Rare,
    ) -> StoreResult<(Vec<(usize, T)>, Vec<Asked<'a>>)> {
        let slices = by_slice(users, |(_, user)| *user);
        // Each call is made once the library has the one before; its answers are read while others are awaited.
        let calls = calls(&slices).into_iter().map(|slices| async move {
            let asked: Vec<_> = slices.iter().map(|(slice, users)| (questions(*slice), *users)).collect();
            let commands = asked.iter().flat_map(|(questions, users)| self.commands(users, questions, rare)).collect();
            let mut answers = self.router.read_all(commands).await.into_iter();
            let (mut found, mut open) = (Vec::new(), Vec::new());
            for (questions, users) in asked {
                let (mut each_question, mut is_open) = (Vec::with_capacity(N), false);
                for question in questions {
                    let answer = next_answer(&mut answers)?;
                    each_question.push(match rare {
                        Rare::BySize if question.rare => {
                            is_open |= number(&answer)? > 0;
                            vec![Value::Integer(0); users.len()].into_iter()
                        }
                        _ => each(answer, users)?.into_iter(),
                    });
                }
                if is_open {
                    open.extend_from_slice(users);
                    continue;
                }
                for (place, _) in users {
                    let answer = |question: usize| each_question[question].next().unwrap_or(Value::Null);
                    found.push((*place, read(std::array::from_fn(answer))?));
                }
            }
            StoreResult::Ok((found, open))
        });
        let (found, open): (Vec<_>, Vec<_>) = try_join_all(calls).await?.into_iter().unzip();
        Ok((found.into_iter().flatten().collect(), open.concat()))
    }

    fn commands<const N: usize>(&self, users: &[Asked<'_>], questions: &Questions<N>, rare: Rare) -> [Command; N] {
        questions.each_ref().map(|question| {
            let mut args = args![question.key];
            match (rare, self.seen_ids()) {
                (Rare::BySize, _) if question.rare => return ("SCARD", args),
                (_, SeenIds::U32) if question.command == "ZMSCORE" => {
                    args.extend(users.iter().map(|(_, user)| write_member(SeenIds::U32, user)));
                }
                _ => args.extend(names(users)),
            }
            (question.command, args)
        })
    }

    async fn do_presence_of(&self, users: &[UserId]) -> StoreResult<Vec<UserPresence>> {
        // Whoever comes is put into the set before the time is dropped, so nobody who comes meanwhile is in neither. An
        // invisible user who leaves goes out of both sets at once, so who is invisible is asked first; and last, too,
        // so that nothing is shown of somebody who has become invisible meanwhile.
        let questions = |slice| {
            let keys = self.keys();
            [
                is_invisible(keys, slice),
                Question { command: "ZMSCORE", key: keys.last_seen(slice), rare: false },
                Question { command: "SMISMEMBER", key: keys.online_users(slice), rare: false },
                Question { command: "HMGET", key: keys.whereabouts(slice), rare: false },
                is_invisible(keys, slice),
            ]
        };
        let read = |[before, seen, online, words, after]: [Value; 5]| {
            Ok(if flag(&online)? && !flag(&before)? && !flag(&after)? {
                UserPresence { online: true, last_seen: None, lives: read_lives(&words) }
            } else {
                UserPresence { last_seen: read_time(seen)?, ..UserPresence::default() }
            })
        };
        Ok(in_order(users.len(), self.ask(users.iter().enumerate(), questions, read).await?))
    }

    async fn do_whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Words>> {
        // Who is invisible comes last: what was said of somebody who has become invisible meanwhile is kept back.
        let questions = |slice| {
            let keys = self.keys();
            let words = Question { command: "HMGET", key: keys.whereabouts(slice), rare: false };
            [words, is_invisible(keys, slice)]
        };
        let read = |[words, hidden]: [Value; 2]| Ok(if flag(&hidden)? { Words::new() } else { read_lives(&words) });
        Ok(in_order(users.len(), self.ask(users.iter().enumerate(), questions, read).await?))
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

fn is_invisible(keys: &Keys, slice: u32) -> Question {
    Question { command: "SMISMEMBER", key: keys.invisible_users(slice), rare: true }
}

/// The calls that it takes to ask about users: the slices of each, with their users.
fn calls<'a, 'b>(slices: &'b BTreeMap<u32, Vec<Asked<'a>>>) -> Vec<Vec<(u32, &'b [Asked<'a>])>> {
    let (mut calls, mut call, mut size) = (Vec::new(), Vec::new(), 0);
    let commands = slices.iter().flat_map(|(slice, users)| users.chunks(USERS_A_COMMAND).map(|some| (*slice, some)));
    for (slice, users) in commands {
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

/// What was found, by its places.
fn in_order<T: Clone + Default>(len: usize, found: Vec<(usize, T)>) -> Vec<T> {
    let mut known = vec![T::default(); len];
    found.into_iter().for_each(|(place, item)| known[place] = item);
    known
}

/// An answer for each of these users.
fn each(answer: Value, users: &[Asked<'_>]) -> StoreResult<Vec<Value>> {
    let answers: Vec<Value> = Reply::of(answer)?.pieces().collect();
    if answers.len() == users.len() { Ok(answers) } else { Err(nonsense("users of another number")) }
}

/// Ids as arguments, all in one piece of memory.
fn names<'a>(users: &'a [Asked<'_>]) -> impl Iterator<Item = Value> + 'a {
    let all: String = users.iter().map(|(_, user)| user.as_str()).collect();
    let mut rest = Bytes::from(all);
    users.iter().map(move |(_, user)| Value::Bytes(rest.split_to(user.as_str().len())))
}

/// The end of a span, as Redis takes it.
fn last_score(span: Span) -> String {
    if span.to == UnixMillis::MAX { "+inf".to_owned() } else { span.to.to_string() }
}

pub(super) fn read_time(seen: Value) -> StoreResult<Option<UnixMillis>> {
    if seen.is_null() { Ok(None) } else { Ok(Some(score(seen)?.max(0.0) as UnixMillis)) }
}

/// Reads the words about a user. Another program's bytes say nothing.
pub(super) fn read_lives(words: &Value) -> Words {
    words.as_bytes().and_then(|words| std::str::from_utf8(words).ok()).map(read_whereabouts).unwrap_or_default()
}

/// Reads the words of gateways about a user. Skips those that another program wrote.
pub(super) fn read_whereabouts(words: &str) -> Words {
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

    async fn whereabouts_of(&self, users: &[UserId]) -> StoreResult<Vec<Words>> {
        self.router.call("whereabouts_of", self.do_whereabouts_of(users)).await
    }
}
