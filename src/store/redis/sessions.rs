//! The calls on sessions. The scripts that change a slice of a live write them; this file reads
//! them.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use fred::types::Value;

use super::node::Command;
use super::reply::{Reply, nonsense, number, text};
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{OnlineSet, SliceId, UserId};
use crate::store::{
    Attended, LiveEpoch, MAX_BATCH, Session, SessionPlace, Sessions, Span, Stay, StoreResult,
    Watched,
};

/// Earlier sessions that are read of a user at once; of a user with more, the one asked for is
/// searched.
const READ_AT_ONCE: u64 = 16;

/// What the hash of stays has of a user.
#[derive(Debug, Clone, Copy)]
struct Latest {
    number: u64,
    before_ms: u64,
    stay: Stay,
}

impl Latest {
    fn read(field: &str) -> Option<Self> {
        let mut words = field.splitn(3, ' ');
        let (number, before_ms) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self {
            number,
            before_ms,
            stay: read_stay(words.next()?)?,
        })
    }

    fn watched(&self) -> Watched {
        let Stay {
            joined_at, left_at, ..
        } = self.stay;
        let ended = left_at.map_or(0, |left_at| left_at.saturating_sub(joined_at));
        let open_since = left_at.is_none().then_some(joined_at);
        Watched {
            ended_ms: self.before_ms + ended,
            open_since,
        }
    }
}

/// Asks for some fields of the stays of a slice, at most [`MAX_BATCH`].
fn ask_stays(key: &str, fields: impl Iterator<Item = impl Into<Value>>) -> Command {
    let mut args = args![key];
    args.extend(fields.map(Into::into));
    ("HMGET", args)
}

fn read_fields(answer: Value, asked: usize) -> StoreResult<Vec<Option<String>>> {
    let mut reply = Reply::of(answer)?;
    let read = |value: Value| {
        if value.is_null() {
            Ok(None)
        } else {
            text(value).map(Some)
        }
    };
    let values: Vec<_> = std::iter::from_fn(|| reply.piece())
        .map(read)
        .collect::<StoreResult<_>>()?;
    if values.len() == asked {
        Ok(values)
    } else {
        Err(nonsense("an answer for other fields"))
    }
}

fn read_latest(field: Option<String>) -> StoreResult<Option<Latest>> {
    field.map(|field| garbled(Latest::read(&field))).transpose()
}

/// Reads `<id> <joined_at> <left_at or ->`.
fn read_stay(words: &str) -> Option<Stay> {
    let mut words = words.split(' ');
    let (id, joined_at) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let left_at = match words.next()? {
        "-" => None,
        left_at => Some(left_at.parse().ok()?),
    };
    Some(Stay {
        id,
        joined_at,
        left_at,
    })
}

fn garbled<T>(read: Option<T>) -> StoreResult<T> {
    read.ok_or_else(|| nonsense("a session that cannot be read"))
}

impl RedisStore {
    /// The keys of the stays of these users, each with the places of those who are in it.
    fn stays_of(&self, of: &LiveEpoch, slices: u32, users: &[UserId]) -> Vec<(String, Vec<usize>)> {
        let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, user) in users.iter().enumerate() {
            let slice = SliceId::of_user(OnlineSet::Live(of.live.clone()), user, slices);
            by_key
                .entry(self.keys().stays(&slice, of.epoch))
                .or_default()
                .push(place);
        }
        by_key.into_iter().collect()
    }

    /// The latest session of each of these users, asked of all their slices at once.
    async fn latest(
        &self,
        keys: &[(String, Vec<usize>)],
        users: &[UserId],
    ) -> StoreResult<Vec<Option<Latest>>> {
        let ask = |(key, places): &(String, Vec<usize>)| {
            ask_stays(key, places.iter().map(|at| users[*at].as_str()))
        };
        let answers = self.router.read_all(keys.iter().map(ask).collect()).await;
        let mut latest = vec![None; users.len()];
        for ((_, places), answer) in keys.iter().zip(answers) {
            for (place, field) in places.iter().zip(read_fields(answer?, places.len())?) {
                latest[*place] = read_latest(field)?;
            }
        }
        Ok(latest)
    }

    /// Earlier sessions of users, by their number.
    async fn earlier(&self, key: &str, wanted: &[(&UserId, u64)]) -> StoreResult<Vec<Stay>> {
        let mut found = Vec::with_capacity(wanted.len());
        for wanted in wanted.chunks(MAX_BATCH) {
            let (ask, args) = ask_stays(
                key,
                wanted
                    .iter()
                    .map(|(user, number)| format!("{user} {number}")),
            );
            for field in read_fields(self.router.command(ask, args).await?, wanted.len())? {
                found.push(garbled(field.as_deref().and_then(read_stay))?);
            }
        }
        Ok(found)
    }

    async fn read_sessions(
        &self,
        (of, slice): (&LiveEpoch, &SliceId),
        (from, after): (UnixMillis, Option<&SessionPlace>),
        limit: usize,
    ) -> StoreResult<Vec<Session>> {
        let mut args = args!["up", limit];
        args.extend(match after {
            Some(SessionPlace {
                joined_at,
                user,
                number,
            }) => args![joined_at, format_args!("{user} {number}")],
            // No member comes before the empty one.
            None => args![from, ""],
        });
        let on = vec![self.keys().sessions(slice, of.epoch)];
        let entries = self
            .router
            .script(&scripts::PAGE, on, args)
            .await?
            .scored()?;
        let place = |(member, joined_at): &(String, UnixMillis)| {
            let (user, number) = member.split_once(' ')?;
            let (user, number) = (UserId::parse(user).ok()?, number.parse().ok()?);
            Some(SessionPlace {
                joined_at: *joined_at,
                user,
                number,
            })
        };
        let places: Vec<SessionPlace> = entries
            .iter()
            .map(|entry| garbled(place(entry)))
            .collect::<StoreResult<_>>()?;
        let key = self.keys().stays(slice, of.epoch);
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let (ask, args) = ask_stays(&key, places.iter().map(|place| place.user.as_str()));
        let latest = read_fields(self.router.command(ask, args).await?, places.len())?;
        let latest = latest
            .into_iter()
            .map(read_latest)
            .collect::<StoreResult<Vec<_>>>()?;
        let mut known = Vec::with_capacity(places.len());
        for (place, latest) in places.into_iter().zip(latest) {
            // Forgotten between the two reads.
            known.extend(latest.map(|latest| (place, latest)));
        }
        let is_earlier = |(place, latest): &&(SessionPlace, Latest)| place.number < latest.number;
        let wanted: Vec<_> = known
            .iter()
            .filter(is_earlier)
            .map(|(place, _)| (&place.user, place.number))
            .collect();
        let mut earlier = self.earlier(&key, &wanted).await?.into_iter();
        let sessions = known.iter().map(|known| {
            let (place, latest) = known;
            let stay = if is_earlier(&known) {
                earlier.next()?
            } else {
                latest.stay
            };
            Some(Session {
                place: place.clone(),
                id: stay.id,
                left_at: stay.left_at,
                watched: latest.watched(),
            })
        });
        garbled(sessions.collect())
    }

    /// Which of these users of one slice were there at any time of `span` in one of so many earlier
    /// sessions.
    async fn were_there_earlier<'a>(
        &self,
        key: &str,
        users: &[(&'a UserId, u64)],
        span: Span,
    ) -> StoreResult<HashSet<&'a UserId>> {
        let (mut there, mut wanted) = (HashSet::new(), Vec::new());
        for (user, earlier) in users {
            match *earlier {
                few @ 0..=READ_AT_ONCE => wanted.extend((1..=few).map(|number| (*user, number))),
                many if self.search_stays(key, (user, many), span).await? => {
                    there.insert(*user);
                }
                _ => {}
            }
        }
        let stays = self.earlier(key, &wanted).await?;
        // Every earlier session has ended.
        let within = wanted
            .iter()
            .zip(stays)
            .filter(|(_, stay)| stay.is_within(span, None));
        there.extend(within.map(|((user, _), _)| *user));
        Ok(there)
    }

    /// Whether any of the first `count` sessions of a user touches `span`. They follow one another
    /// in time, so the first that ended at the begin of the span or later decides.
    async fn search_stays(
        &self,
        key: &str,
        (user, count): (&UserId, u64),
        span: Span,
    ) -> StoreResult<bool> {
        let (mut low, mut high, mut found) = (1, count, false);
        while low <= high {
            let middle = low + (high - low) / 2;
            let stay = self.earlier(key, &[(user, middle)]).await?[0];
            if stay.left_at.is_none_or(|left_at| left_at >= span.from) {
                found = stay.joined_at <= span.to;
                high = middle - 1;
            } else {
                low = middle + 1;
            }
        }
        Ok(found)
    }
}

#[async_trait]
impl Sessions for RedisStore {
    async fn count_sessions(&self, of: &LiveEpoch, slices: u32, span: Span) -> StoreResult<u64> {
        let slices = SliceId::all(OnlineSet::Live(of.live.clone()), slices);
        let count = |slice| {
            (
                "ZCOUNT",
                args![self.keys().sessions(&slice, of.epoch), span.from, span.to],
            )
        };
        let commands = slices.map(count).collect();
        let answers = self
            .router
            .call("count_sessions", async {
                Ok(self.router.read_all(commands).await)
            })
            .await?;
        answers.into_iter().map(|answer| number(&answer?)).sum()
    }

    async fn sessions_in_slice(
        &self,
        of: &LiveEpoch,
        slice: &SliceId,
        from: UnixMillis,
        after: Option<&SessionPlace>,
        limit: usize,
    ) -> StoreResult<Vec<Session>> {
        self.router
            .call(
                "sessions_in_slice",
                self.read_sessions((of, slice), (from, after), limit),
            )
            .await
    }

    async fn latest_sessions(
        &self,
        of: &LiveEpoch,
        slices: u32,
        users: &[UserId],
    ) -> StoreResult<Vec<Option<Stay>>> {
        let keys = self.stays_of(of, slices, users);
        let latest = self
            .router
            .call("latest_sessions", self.latest(&keys, users))
            .await?;
        Ok(latest
            .into_iter()
            .map(|latest| latest.map(|latest| latest.stay))
            .collect())
    }

    async fn were_there(
        &self,
        of: &LiveEpoch,
        attended: &Attended,
        users: &[UserId],
        span: Span,
    ) -> StoreResult<Vec<bool>> {
        let keys = self.stays_of(of, attended.slices, users);
        let latest = self
            .router
            .call("were_there", self.latest(&keys, users))
            .await?;
        let is_within = |latest: &Latest| latest.stay.is_within(span, attended.closed_at);
        let mut there: Vec<bool> = latest
            .iter()
            .map(|latest| latest.as_ref().is_some_and(is_within))
            .collect();
        for (key, places) in keys {
            let open = places.iter().filter(|place| !there[**place]);
            let asked: Vec<_> = open
                .filter_map(|at| Some((&users[*at], latest[*at]?.number.saturating_sub(1))))
                .collect();
            let found = self
                .router
                .call("were_there", self.were_there_earlier(&key, &asked, span))
                .await?;
            places
                .iter()
                .for_each(|at| there[*at] |= found.contains(&users[*at]));
        }
        Ok(there)
    }
}
