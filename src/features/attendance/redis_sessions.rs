//! The calls on sessions. The scripts that change a slice of a live write them; this file reads
//! them.

use std::collections::HashSet;

use async_trait::async_trait;

use crate::base::clock::UnixMillis;
use crate::base::ids::{OnlineSet, SliceId, UserId};
use crate::features::attendance::store::Attended;
use crate::features::attendance::store::Sessions;
use crate::store::LiveEpoch;
use crate::store::redis::reply::number;
use crate::store::redis::stays::{
    Latest, StaysKey, ask_stays, or_garbled, read_fields, read_latest, read_stay,
};
use crate::store::redis::{RedisCalls, args, scripts};
use crate::store::{AttendedSession, SessionPlace, Stay};
use crate::store::{MAX_BATCH, Span, StoreResult};

/// Maximum earlier sessions of a user that the store reads at once. If a user has more, the store
/// searches for the session in question.
const MAX_EARLIER_READ: u64 = 16;

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

/// Reads `<user> <number>`, the member of a session.
fn read_place(member: &str, joined_at: UnixMillis) -> Option<SessionPlace> {
    let (user, number) = member.split_once(' ')?;
    Some(SessionPlace {
        joined_at,
        user: UserId::parse(user).ok()?,
        number: number.parse().ok()?,
    })
}

impl RedisCalls {
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
    ) -> StoreResult<Vec<AttendedSession>> {
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
            sessions.push(AttendedSession {
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
