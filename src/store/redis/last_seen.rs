//! The calls on the times at which users were last seen. [`SeenIds`] sets the form of the ids; only
//! the scripts, [`read_member`] and [`write_member`] know the forms.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::reply::{Reply, nonsense, score, text};
use super::{RedisCalls, args, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{USERS_SLICES, UserId};
use crate::config::SeenIds;
use crate::store::{LastSeen, MAX_BATCH, Seen, StoreResult};

/// Maximum users per call. Each user costs Redis about 2 µs.
const MAX_USERS_PER_CALL: usize = 250;
/// Maximum concurrent calls.
const MAX_CONCURRENT_CALLS: usize = 16;

fn read_member(ids: SeenIds, member: &[u8]) -> Option<UserId> {
    let text = match ids {
        SeenIds::Text => std::str::from_utf8(member).ok()?.to_owned(),
        SeenIds::U32 => u32::from_be_bytes(member.try_into().ok()?).to_string(),
    };
    UserId::parse(&text).ok()
}

/// A user as a member. An id that does not fit gives the empty text, which is nobody's member.
pub(crate) fn write_member(ids: SeenIds, user: &UserId) -> Value {
    match ids {
        SeenIds::Text => user.as_str().into(),
        SeenIds::U32 => {
            let bytes = match user.as_str().parse::<u32>() {
                Ok(number) if ids.fits(user) => number.to_be_bytes().to_vec(),
                _ => Vec::new(),
            };
            Value::Bytes(bytes.into())
        }
    }
}

/// Takes the time behind a user from an answer.
fn take_time(reply: &mut Reply) -> StoreResult<UnixMillis> {
    let time = score(reply.piece().unwrap_or(Value::Null))?;
    Ok(time.max(0.0) as UnixMillis)
}

impl RedisCalls {
    pub(crate) fn seen_ids(&self) -> SeenIds {
        self.seen_ids.get().copied().unwrap_or_default()
    }

    pub(crate) async fn fixed_seen_ids(&self) -> StoreResult<Option<SeenIds>> {
        let fixed = self
            .router
            .command("GET", args![self.keys().last_seen_ids()])
            .await?;
        if fixed.is_null() {
            return Ok(None);
        }
        match text(fixed)?.as_str() {
            "text" => Ok(Some(SeenIds::Text)),
            "u32" => Ok(Some(SeenIds::U32)),
            other => Err(nonsense(format!("ids of users seen as {other}"))),
        }
    }

    pub(crate) async fn note_slice(
        &self,
        slice: u32,
        seen: &[(&UserId, UnixMillis)],
        apart: Duration,
    ) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let mut args = args![self.seen_ids().as_str(), millis(apart)];
        for (user, at) in seen {
            args.extend(args![user, at]);
        }
        let keys = self.keys();
        let on = vec![keys.last_seen(slice), keys.online_users(slice)];
        let steps = async {
            let mut reply = self.router.script(&scripts::NOTE_SEEN, on, args).await?;
            let mut unchanged = Vec::new();
            // The script counts users from 1.
            while let Some(place) = reply.next_number()? {
                let index = place
                    .checked_sub(1)
                    .and_then(|index| usize::try_from(index).ok());
                let Some((user, _)) = index.and_then(|index| seen.get(index)) else {
                    return Err(nonsense("a user who was not told of"));
                };
                unchanged.push(((*user).clone(), take_time(&mut reply)?));
            }
            Ok(unchanged)
        };
        self.router.call("note_seen", steps).await
    }
}

/// Sorts items by the slice of their user.
pub(crate) fn by_slice<T>(
    items: impl Iterator<Item = T>,
    user: impl Fn(&T) -> &UserId,
) -> BTreeMap<u32, Vec<T>> {
    let mut slices: BTreeMap<u32, Vec<T>> = BTreeMap::new();
    for item in items {
        slices
            .entry(user(&item).slice_index(USERS_SLICES))
            .or_default()
            .push(item);
    }
    slices
}

#[async_trait]
impl LastSeen for RedisCalls {
    async fn fix_seen_ids(&self, ids: SeenIds) -> StoreResult<SeenIds> {
        self.seen_ids.get_or_init(|| ids);
        if let Some(fixed) = self.fixed_seen_ids().await? {
            return Ok(fixed);
        }
        self.router
            .command(
                "SET",
                args![self.keys().last_seen_ids(), ids.as_str(), "NX"],
            )
            .await?;
        match self.fixed_seen_ids().await? {
            Some(fixed) => Ok(fixed),
            None => Err(nonsense("ids of users seen that cannot be fixed")),
        }
    }

    async fn note_seen(
        &self,
        seen: &[(UserId, UnixMillis)],
        apart: Duration,
    ) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let ids = self.seen_ids();
        // The edges refuse ids that do not fit, so only a gateway with other settings can have let
        // one in.
        let fitting = seen
            .iter()
            .filter(|(user, _)| ids.fits(user))
            .map(|(user, at)| (user, *at));
        let slices = by_slice(fitting, |(user, _)| *user);
        let mut calls = Vec::new();
        for (slice, seen) in &slices {
            for some in seen.chunks(MAX_USERS_PER_CALL) {
                calls.push(self.note_slice(*slice, some, apart));
            }
        }
        stream::iter(calls)
            .buffer_unordered(MAX_CONCURRENT_CALLS)
            .try_concat()
            .await
    }

    async fn seen_in_slice(
        &self,
        slice: u32,
        from: UnixMillis,
        after: Option<&Seen>,
        limit: usize,
    ) -> StoreResult<Vec<Seen>> {
        let ids = self.seen_ids();
        let mut args = args!["up", limit];
        match after {
            Some(seen) => {
                args.extend(args![seen.at]);
                args.push(write_member(ids, &seen.user));
            }
            // No member comes before the empty one.
            None => args.extend(args![from, ""]),
        }
        let mut reply = self
            .router
            .script(
                &scripts::PAGE_SORTED_SET,
                vec![self.keys().last_seen(slice)],
                args,
            )
            .await?;
        let mut page = Vec::new();
        while let Some(member) = reply.piece() {
            let at = take_time(&mut reply)?;
            let user = member
                .as_bytes()
                .and_then(|member| read_member(ids, member));
            let Some(user) = user else {
                return Err(nonsense("a user seen whose id cannot be read"));
            };
            page.push(Seen { user, at });
        }
        Ok(page)
    }

    fn seen_order(&self) -> SeenIds {
        self.seen_ids()
    }

    async fn forget_seen(&self, slice: u32, before: UnixMillis) -> StoreResult<u64> {
        let on = vec![self.keys().last_seen(slice)];
        let args = args![before, MAX_BATCH];
        self.router
            .script(&scripts::FORGET_SEEN, on, args)
            .await?
            .number()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_read_back_as_it_was_written() {
        for (ids, names) in [
            (SeenIds::Text, ["u1", "mail@example.org"]),
            (SeenIds::U32, ["0", "4294967295"]),
        ] {
            for name in names {
                let user = UserId::parse(name).unwrap();
                let member = write_member(ids, &user);
                assert_eq!(read_member(ids, member.as_bytes().unwrap()), Some(user));
            }
        }
        assert_eq!(
            write_member(SeenIds::U32, &UserId::parse("258").unwrap()).as_bytes(),
            Some(&[0, 0, 1, 2][..])
        );
        assert_eq!(
            write_member(SeenIds::U32, &UserId::parse("007").unwrap()).as_bytes(),
            Some(&[][..])
        );
        assert_eq!(read_member(SeenIds::U32, b"12345"), None);
    }
}
