//! The calls on when users were seen last. Ids are written as [`SeenIds`] says; the scripts and
//! [`read_member`] alone know how.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::reply::{nonsense, score, text};
use super::{RedisStore, args, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{USERS_SLICES, UserId};
use crate::config::SeenIds;
use crate::store::{LastSeen, MAX_BATCH, Seen, StoreResult};

/// Users of one call. Each costs Redis about 2 µs.
const USERS_A_CALL: usize = 250;
/// Calls under way at a time.
const AT_A_TIME: usize = 16;

fn read_member(ids: SeenIds, member: &[u8]) -> Option<UserId> {
    let text = match ids {
        SeenIds::Text => std::str::from_utf8(member).ok()?.to_owned(),
        SeenIds::U32 => u32::from_be_bytes(member.try_into().ok()?).to_string(),
    };
    UserId::parse(&text).ok()
}

/// A user as a member; an id that does not fit gives a member that none is.
pub(super) fn write_member(ids: SeenIds, user: &UserId) -> Value {
    let number = || user.as_str().parse::<u32>().ok().filter(|_| ids.fits(user));
    match ids {
        SeenIds::Text => user.as_str().into(),
        SeenIds::U32 => Value::Bytes(
            number()
                .map(|id| id.to_be_bytes().to_vec())
                .unwrap_or_default()
                .into(),
        ),
    }
}

impl RedisStore {
    pub(super) fn seen_ids(&self) -> SeenIds {
        self.seen_ids.get().copied().unwrap_or_default()
    }

    async fn do_fix(&self, ids: SeenIds) -> StoreResult<SeenIds> {
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
        self.fixed_seen_ids()
            .await?
            .ok_or_else(|| nonsense("ids of users seen that cannot be fixed"))
    }

    pub(super) async fn fixed_seen_ids(&self) -> StoreResult<Option<SeenIds>> {
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

    pub(super) async fn note_slice(
        &self,
        slice: u32,
        seen: &[(&UserId, UnixMillis)],
        apart: Duration,
    ) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let mut args = args![self.seen_ids().as_str(), millis(apart)];
        args.extend(seen.iter().flat_map(|(user, at)| args![user, at]));
        let keys = self.keys();
        let on = vec![keys.last_seen(slice), keys.online_users(slice)];
        let steps = async {
            let mut reply = self.router.script(&scripts::NOTE_SEEN, on, args).await?;
            let mut unchanged = Vec::new();
            while let Some(place) = reply.next_number()? {
                let asked = usize::try_from(place)
                    .ok()
                    .and_then(|place| seen.get(place.checked_sub(1)?));
                let (user, _) = asked.ok_or_else(|| nonsense("a user who was not told of"))?;
                unchanged.push((
                    (*user).clone(),
                    score(reply.piece().unwrap_or(Value::Null))?.max(0.0) as UnixMillis,
                ));
            }
            Ok(unchanged)
        };
        self.router.call("note_seen", steps).await
    }

    async fn read_seen(
        &self,
        slice: u32,
        (at, after): (UnixMillis, Value),
        limit: usize,
    ) -> StoreResult<Vec<Seen>> {
        let ids = self.seen_ids();
        let mut args = args!["up", limit, at];
        args.push(after);
        let mut reply = self
            .router
            .script(&scripts::PAGE, vec![self.keys().last_seen(slice)], args)
            .await?;
        let mut page = Vec::new();
        while let Some(member) = reply.piece() {
            let at = score(reply.piece().unwrap_or(Value::Null))?.max(0.0) as UnixMillis;
            let user = member
                .as_bytes()
                .and_then(|member| read_member(ids, member));
            page.push(Seen {
                user: user.ok_or_else(|| nonsense("a user seen whose id cannot be read"))?,
                at,
            });
        }
        Ok(page)
    }
}

/// The calls that it takes to ask about users: a slice each, with so many users at most.
pub(super) fn by_slice<T>(
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
impl LastSeen for RedisStore {
    async fn fix_seen_ids(&self, ids: SeenIds) -> StoreResult<SeenIds> {
        self.router.call("fix_seen_ids", self.do_fix(ids)).await
    }

    async fn note_seen(
        &self,
        seen: &[(UserId, UnixMillis)],
        apart: Duration,
    ) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let ids = self.seen_ids();
        // The edges refuse ids that do not fit, so none is here but by a gateway with other
        // settings.
        let fitting = seen
            .iter()
            .filter(|(user, _)| ids.fits(user))
            .map(|(user, at)| (user, *at));
        let slices = by_slice(fitting, |(user, _)| *user);
        let calls = slices
            .iter()
            .flat_map(|(slice, seen)| seen.chunks(USERS_A_CALL).map(|some| (*slice, some)));
        let calls: Vec<_> = calls
            .map(|(slice, some)| self.note_slice(slice, some, apart))
            .collect();
        stream::iter(calls)
            .buffer_unordered(AT_A_TIME)
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
        // No member comes before the empty one.
        let first = after.map_or((from, Value::from("")), |seen| {
            (seen.at, write_member(self.seen_ids(), &seen.user))
        });
        self.router
            .call("seen_in_slice", self.read_seen(slice, first, limit))
            .await
    }

    fn seen_order(&self) -> SeenIds {
        self.seen_ids()
    }

    async fn forget_seen(&self, slice: u32, before: UnixMillis) -> StoreResult<u64> {
        let (on, args) = (vec![self.keys().last_seen(slice)], args![before, MAX_BATCH]);
        let steps = async {
            self.router
                .script(&scripts::FORGET_SEEN, on, args)
                .await?
                .number()
        };
        self.router.call("forget_seen", steps).await
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
