//! The latest stay of each user, in the hashes that the scripts write which change a slice of a live.

use std::collections::HashMap;

use async_trait::async_trait;
use fred::types::Value;

use super::node::Command;
use super::reply::{Reply, nonsense, text};
use super::{RedisCalls, args};
use crate::base::ids::{OnlineSet, SliceId, UserId};
use crate::store::{LatestStays, LiveEpoch, Stay, StoreResult, WatchedTime};

/// A user's field in the hash of stays: the latest session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Latest {
    pub(crate) number: u64,
    pub(crate) before_ms: u64,
    pub(crate) stay: Stay,
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

    pub(crate) fn watched(&self) -> WatchedTime {
        let joined_at = self.stay.joined_at;
        match self.stay.left_at {
            Some(left_at) => WatchedTime {
                ended_ms: self.before_ms + left_at.saturating_sub(joined_at),
                open_since: None,
            },
            None => WatchedTime {
                ended_ms: self.before_ms,
                open_since: Some(joined_at),
            },
        }
    }
}

/// The hash of stays of a slice.
pub(crate) struct StaysKey {
    pub(crate) key: String,
    /// The users in the slice, by their places among the users in question.
    pub(crate) places: Vec<usize>,
}

/// The command for some fields of the stays of a slice, at most [`MAX_BATCH`].
pub(crate) fn ask_stays(key: &str, fields: impl Iterator<Item = impl Into<Value>>) -> Command {
    let mut args = args![key];
    args.extend(fields.map(Into::into));
    ("HMGET", args)
}

pub(crate) fn read_fields(answer: Value, asked: usize) -> StoreResult<Vec<Option<String>>> {
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

pub(crate) fn read_latest(field: Option<String>) -> StoreResult<Option<Latest>> {
    match field {
        Some(field) => Ok(Some(or_garbled(Latest::read(&field))?)),
        None => Ok(None),
    }
}

/// Reads `<id> <joined_at> <left_at or ->`.
pub(crate) fn read_stay(words: &str) -> Option<Stay> {
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

/// The error for a session that cannot be read.
pub(crate) fn or_garbled<T>(read: Option<T>) -> StoreResult<T> {
    match read {
        Some(read) => Ok(read),
        None => Err(nonsense("a session that cannot be read")),
    }
}

impl RedisCalls {
    /// The hashes that have the stays of these users.
    pub(crate) fn stays_of(&self, of: &LiveEpoch, slices: u32, users: &[UserId]) -> Vec<StaysKey> {
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
    pub(crate) async fn latest(
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
