//! The calls on sessions. The scripts that change a slice of all viewers write them; this file reads them.

use std::collections::HashMap;

use async_trait::async_trait;
use fred::types::Value;

use super::reply::{Reply, nonsense, number, text};
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{OnlineSet, SliceId, UserId};
use crate::store::{Attended, LiveEpoch, MAX_BATCH, Session, SessionPlace, Sessions, Span, Stay, StoreResult, Watched};

/// Earlier sessions that are read of a user at once; of a user with more, the one asked for is searched.
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
        Some(Self { number, before_ms, stay: read_stay(words.next()?)? })
    }

    fn watched(&self) -> Watched {
        let Stay { joined_at, left_at, .. } = self.stay;
        let ended = left_at.map_or(0, |left_at| left_at.saturating_sub(joined_at));
        let open_since = left_at.is_none().then_some(joined_at);
        Watched { ended_ms: self.before_ms + ended, open_since }
    }
}

/// Reads `<id> <joined_at> <left_at or ->`.
fn read_stay(words: &str) -> Option<Stay> {
    let mut words = words.split(' ');
    let (id, joined_at) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let left_at = match words.next()? {
        "-" => None,
        left_at => Some(left_at.parse().ok()?),
    };
    Some(Stay { id, joined_at, left_at })
}

fn garbled<T>(read: Option<T>) -> StoreResult<T> {
    read.ok_or_else(|| nonsense("a session that cannot be read"))
}

impl RedisStore {
    /// Some fields of the stays of a slice, at most [`MAX_BATCH`].
    async fn stays(&self, key: &str, fields: &[String]) -> StoreResult<Vec<Option<String>>> {
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = args![key];
        args.extend(fields.iter().map(|field| Value::from(field.as_str())));
        let mut reply = Reply::of(self.router.command("HMGET", args).await?)?;
        let read = |value: Value| if value.is_null() { Ok(None) } else { text(value).map(Some) };
        let values: Vec<_> = std::iter::from_fn(|| reply.piece()).map(read).collect::<StoreResult<_>>()?;
        if values.len() == fields.len() { Ok(values) } else { Err(nonsense("an answer for other fields")) }
    }

    async fn latest(&self, key: &str, users: &[&UserId]) -> StoreResult<Vec<Option<Latest>>> {
        let fields: Vec<String> = users.iter().map(|user| user.to_string()).collect();
        let read = self.stays(key, &fields).await?;
        read.into_iter().map(|field| field.map(|field| garbled(Latest::read(&field))).transpose()).collect()
    }

    /// Earlier sessions of users, by their number.
    async fn earlier(&self, key: &str, wanted: &[(&UserId, u64)]) -> StoreResult<Vec<Stay>> {
        let mut found = Vec::with_capacity(wanted.len());
        for wanted in wanted.chunks(MAX_BATCH) {
            let fields: Vec<String> = wanted.iter().map(|(user, number)| format!("{user} {number}")).collect();
            for field in self.stays(key, &fields).await? {
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
            Some(SessionPlace { joined_at, user, number }) => args![joined_at, format_args!("{user} {number}")],
            // No member comes before the empty one.
            None => args![from, ""],
        });
        let on = vec![self.keys().sessions(slice, of.epoch)];
        let entries = self.router.script(&scripts::PAGE, on, args).await?.scored()?;
        let place = |(member, joined_at): &(String, UnixMillis)| {
            let (user, number) = member.split_once(' ')?;
            let (user, number) = (UserId::parse(user).ok()?, number.parse().ok()?);
            Some(SessionPlace { joined_at: *joined_at, user, number })
        };
        let places: Vec<SessionPlace> =
            entries.iter().map(|entry| garbled(place(entry))).collect::<StoreResult<_>>()?;
        let key = self.keys().stays(slice, of.epoch);
        let latest = self.latest(&key, &places.iter().map(|place| &place.user).collect::<Vec<_>>()).await?;
        let mut known = Vec::with_capacity(places.len());
        for (place, latest) in places.into_iter().zip(latest) {
            // Forgotten between the two reads.
            known.extend(latest.map(|latest| (place, latest)));
        }
        let is_earlier = |(place, latest): &&(SessionPlace, Latest)| place.number < latest.number;
        let wanted: Vec<_> = known.iter().filter(is_earlier).map(|(place, _)| (&place.user, place.number)).collect();
        let mut earlier = self.earlier(&key, &wanted).await?.into_iter();
        let sessions = known.iter().map(|known| {
            let (place, latest) = known;
            let stay = if is_earlier(&known) { earlier.next()? } else { latest.stay };
            Some(Session { place: place.clone(), id: stay.id, left_at: stay.left_at, watched: latest.watched() })
        });
        garbled(sessions.collect())
    }

    /// Whether each of these users of one slice was there at any time of `span`.
    async fn were_in_slice(
        &self,
        (key, closed_at): (&str, Option<UnixMillis>),
        users: &[&UserId],
        span: Span,
    ) -> StoreResult<Vec<bool>> {
        let latest = self.latest(key, users).await?;
        let is_within = |stay: &Stay| stay.is_within(span, closed_at);
        let mut there: Vec<bool> = latest.iter().map(|it| it.is_some_and(|it| is_within(&it.stay))).collect();
        let mut wanted = Vec::new();
        for (place, latest) in latest.iter().enumerate().filter(|(place, _)| !there[*place]).collect::<Vec<_>>() {
            match latest.map_or(0, |latest| latest.number - 1) {
                few @ 0..=READ_AT_ONCE => wanted.extend((1..=few).map(|number| (place, number))),
                many => there[place] = self.search_stays(key, (users[place], many), span).await?,
            }
        }
        let asked: Vec<_> = wanted.iter().map(|(place, number)| (users[*place], *number)).collect();
        for ((place, _), stay) in wanted.iter().zip(self.earlier(key, &asked).await?) {
            there[*place] |= is_within(&stay);
        }
        Ok(there)
    }

    /// Whether any of the first `count` sessions of a user touches `span`. They follow one another in time, so the
    /// first that ended at the begin of the span or later decides.
    async fn search_stays(&self, key: &str, (user, count): (&UserId, u64), span: Span) -> StoreResult<bool> {
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
        let slices = SliceId::all(OnlineSet::Viewers(of.live.clone()), slices);
        let count = |slice| ("ZCOUNT", args![self.keys().sessions(&slice, of.epoch), span.from, span.to]);
        let commands = slices.map(count).collect();
        let answers = self.router.call("count_sessions", async { Ok(self.router.read_all(commands).await) }).await?;
        answers.into_iter().map(|answer| number(&answer?)).sum()
    }

    async fn sessions_in_slice(
        &self,
        of: (&LiveEpoch, &SliceId),
        from: UnixMillis,
        after: Option<&SessionPlace>,
        limit: usize,
    ) -> StoreResult<Vec<Session>> {
        self.router.call("sessions_in_slice", self.read_sessions(of, (from, after), limit)).await
    }

    async fn were_there(
        &self,
        of: &LiveEpoch,
        attended: &Attended,
        users: &[UserId],
        span: Span,
    ) -> StoreResult<Vec<bool>> {
        let mut by_slice: HashMap<u32, Vec<usize>> = HashMap::new();
        for (place, user) in users.iter().enumerate() {
            by_slice.entry(user.slice_index(attended.slices)).or_default().push(place);
        }
        let mut there = vec![false; users.len()];
        for (index, places) in by_slice {
            let slice = SliceId { set: OnlineSet::Viewers(of.live.clone()), index, of: attended.slices };
            let key = self.keys().stays(&slice, of.epoch);
            let asked: Vec<&UserId> = places.iter().map(|place| &users[*place]).collect();
            let steps = self.were_in_slice((&key, attended.closed_at), &asked, span);
            for (place, was) in places.iter().zip(self.router.call("were_there", steps).await?) {
                there[*place] = was;
            }
        }
        Ok(there)
    }
}
