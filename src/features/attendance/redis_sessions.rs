//! The calls on sessions. The scripts that change a slice of a live write them; this file reads
//! them.

use crate::store::LatestStays;
use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use fred::types::Value;

use crate::base::clock::UnixMillis;
use crate::base::ids::{OnlineSet, SliceId, UserId};
use crate::features::attendance::store::Attended;
use crate::features::attendance::store::Sessions;
use crate::store::LiveEpoch;
use crate::store::redis::node::Command;
use crate::store::redis::reply::{Reply, nonsense, number, text};
use crate::store::redis::{RedisCalls, args, scripts};
use crate::store::{MAX_BATCH, Span, StoreResult};
use crate::store::{Session, SessionPlace, Stay, Watched};

/// Maximum earlier sessions of a user that the store reads at once. If a user has more, the store
/// searches for the session in question.
const MAX_EARLIER_READ: u64 = 16;

/// A user's field in the hash of stays: the latest session.
#[derive(Debug, Clone, Copy)]
struct Latest {
    number: u64,
    before_ms: u64,
    stay: Stay,
}

impl Latest {
    fn read(field: &str) -> Option<Self> {
        let mut words = field.splitn(3, ' ');
        Some(Self {
            number: words.next()?.parse().ok()?,
            before_ms: words.next()?.parse().ok()?,
            stay: read_stay(words.next()?)?,
        })
    }

    fn watched(&self) -> Watched {
        let joined_at = self.stay.joined_at;
        match self.stay.left_at {
            Some(left_at) => Watched {
                ended_ms: self.before_ms + left_at.saturating_sub(joined_at),
                open_since: None,
            },
            None => Watched {
                ended_ms: self.before_ms,
                open_since: Some(joined_at),
            },
        }
    }
}

/// The hash of stays of a slice.
struct StaysKey {
    key: String,
    /// The users in the slice, by their places among the users in question.
    places: Vec<usize>,
}

/// A session, and the latest one of its user.
struct KnownSession {
    place: SessionPlace,
    latest: Latest,
}

impl KnownSession {
    /// Whether the user has had another session since.
    fn is_earlier(&self) -> bool {
        self.place.number < self.latest.number
    }
}

/// The command for some fields of the stays of a slice, at most [`MAX_BATCH`].
fn ask_stays(key: &str, fields: impl Iterator<Item = impl Into<Value>>) -> Command {
    let mut args = args![key];
    args.extend(fields.map(Into::into));
    ("HMGET", args)
}

fn read_fields(answer: Value, asked: usize) -> StoreResult<Vec<Option<String>>> {
    let mut fields = Vec::with_capacity(asked);
    for value in Reply::of(answer)?.pieces() {
        fields.push(if value.is_null() {
            None
        } else {
            Some(text(value)?)
        });
    }
    if fields.len() == asked {
        Ok(fields)
    } else {
        Err(nonsense("an answer for other fields"))
    }
}

fn read_latest(field: Option<String>) -> StoreResult<Option<Latest>> {
    match field {
        Some(field) => Ok(Some(or_garbled(Latest::read(&field))?)),
        None => Ok(None),
    }
}

/// Reads `<id> <joined_at> <left_at or ->`.
fn read_stay(words: &str) -> Option<Stay> {
    let mut words = words.split(' ');
    let id = words.next()?.parse().ok()?;
    let joined_at = words.next()?.parse().ok()?;
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

/// Reads `<user> <number>`, the member of a session.
fn read_place(member: &str, joined_at: UnixMillis) -> Option<SessionPlace> {
    let (user, number) = member.split_once(' ')?;
    Some(SessionPlace {
        joined_at,
        user: UserId::parse(user).ok()?,
        number: number.parse().ok()?,
    })
}

/// The error for a session that cannot be read.
fn or_garbled<T>(read: Option<T>) -> StoreResult<T> {
    match read {
        Some(read) => Ok(read),
        None => Err(nonsense("a session that cannot be read")),
    }
}

impl RedisCalls {
    /// The hashes that have the stays of these users.
    fn stays_of(&self, of: &LiveEpoch, slices: u32, users: &[UserId]) -> Vec<StaysKey> {
        let mut by_key: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, user) in users.iter().enumerate() {
            let slice = SliceId::of_user(OnlineSet::Live(of.live.clone()), user, slices);
            by_key
                .entry(self.keys().stays(&slice, of.epoch))
                .or_default()
                .push(place);
        }
        by_key
            .into_iter()
            .map(|(key, places)| StaysKey { key, places })
            .collect()
    }

    /// The latest session of each of these users, read from all their slices at once.
    async fn latest(
        &self,
        stays: &[StaysKey],
        users: &[UserId],
    ) -> StoreResult<Vec<Option<Latest>>> {
        let mut commands = Vec::with_capacity(stays.len());
        for StaysKey { key, places } in stays {
            commands.push(ask_stays(
                key,
                places.iter().map(|place| users[*place].as_str()),
            ));
        }
        let answers = self.router.read_all(commands).await;
        let mut latest = vec![None; users.len()];
        for (StaysKey { places, .. }, answer) in stays.iter().zip(answers) {
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
            let (command, args) = ask_stays(
                key,
                wanted
                    .iter()
                    .map(|(user, number)| format!("{user} {number}")),
            );
            let answer = self.router.command(command, args).await?;
            for field in read_fields(answer, wanted.len())? {
                let field = or_garbled(field)?;
                found.push(or_garbled(read_stay(&field))?);
            }
        }
        Ok(found)
    }

    /// The users of one slice who were there at any time of `span` in an earlier session. Each user
    /// comes with the number of these sessions.
    async fn were_there_earlier<'a>(
        &self,
        key: &str,
        users: &[(&'a UserId, u64)],
        span: Span,
    ) -> StoreResult<HashSet<&'a UserId>> {
        let mut there = HashSet::new();
        let mut wanted = Vec::new();
        for (user, count) in users {
            if *count <= MAX_EARLIER_READ {
                wanted.extend((1..=*count).map(|number| (*user, number)));
            } else if self.search_stays(key, user, *count, span).await? {
                there.insert(*user);
            }
        }
        let stays = self.earlier(key, &wanted).await?;
        for ((user, _), stay) in wanted.iter().zip(stays) {
            // Every earlier session has ended.
            if stay.is_within(span, None) {
                there.insert(*user);
            }
        }
        Ok(there)
    }

    /// Whether any of the first `count` sessions of a user touches `span`. The sessions follow one
    /// another in time, so the first that ended at the begin of the span or later decides.
    async fn search_stays(
        &self,
        key: &str,
        user: &UserId,
        count: u64,
        span: Span,
    ) -> StoreResult<bool> {
        let mut low = 1;
        let mut high = count;
        let mut found = false;
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
impl Sessions for RedisCalls {
    async fn count_sessions(&self, of: &LiveEpoch, slices: u32, span: Span) -> StoreResult<u64> {
        let mut commands = Vec::new();
        for slice in SliceId::all(OnlineSet::Live(of.live.clone()), slices) {
            let key = self.keys().sessions(&slice, of.epoch);
            commands.push(("ZCOUNT", args![key, span.from, span.to]));
        }
        let answers = self.router.read_all(commands).await;
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
            .script(&scripts::PAGE_SORTED_SET, on, args)
            .await?
            .scored()?;
        let mut places = Vec::with_capacity(entries.len());
        for (member, joined_at) in entries {
            places.push(or_garbled(read_place(&member, joined_at))?);
        }
        let key = self.keys().stays(slice, of.epoch);
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let (command, args) = ask_stays(&key, places.iter().map(|place| place.user.as_str()));
        let answer = self.router.command(command, args).await?;
        let fields = read_fields(answer, places.len())?;
        let mut known = Vec::with_capacity(places.len());
        for (place, field) in places.into_iter().zip(fields) {
            // A session may be forgotten between the two reads.
            if let Some(latest) = read_latest(field)? {
                known.push(KnownSession { place, latest });
            }
        }
        let wanted: Vec<_> = known
            .iter()
            .filter(|known| known.is_earlier())
            .map(|known| (&known.place.user, known.place.number))
            .collect();
        let mut earlier = self.earlier(&key, &wanted).await?.into_iter();
        let mut sessions = Vec::with_capacity(known.len());
        for known in known {
            let stay = if known.is_earlier() {
                or_garbled(earlier.next())?
            } else {
                known.latest.stay
            };
            sessions.push(Session {
                id: stay.id,
                left_at: stay.left_at,
                watched: known.latest.watched(),
                place: known.place,
            });
        }
        Ok(sessions)
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
        let mut there = vec![false; users.len()];
        for (place, latest) in latest.iter().enumerate() {
            if let Some(latest) = latest {
                there[place] = latest.stay.is_within(span, attended.closed_at);
            }
        }
        for StaysKey { key, places } in keys {
            let mut asked = Vec::new();
            for place in &places {
                if !there[*place]
                    && let Some(latest) = &latest[*place]
                {
                    asked.push((&users[*place], latest.number.saturating_sub(1)));
                }
            }
            let found = self
                .router
                .call("were_there", self.were_there_earlier(&key, &asked, span))
                .await?;
            for place in places {
                if found.contains(&users[place]) {
                    there[place] = true;
                }
            }
        }
        Ok(there)
    }
}

#[async_trait]
impl LatestStays for RedisCalls {
    async fn latest_sessions(
        &self,
        of: &LiveEpoch,
        slices: u32,
        users: &[UserId],
    ) -> StoreResult<Vec<Option<Stay>>> {
        let keys = self.stays_of(of, slices, users);
        let latest = self.latest(&keys, users).await?;
        Ok(latest
            .into_iter()
            .map(|latest| latest.map(|latest| latest.stay))
            .collect())
    }
}
