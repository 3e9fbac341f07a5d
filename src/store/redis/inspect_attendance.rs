//! What an audit reads of attendance and sessions from outside the protocol, and puts right. No
//! gateway calls it.

use super::reply::{Reply, flag, next_answer};
use super::{RedisStore, args, keys, scripts};
use crate::base::ids::{Epoch, Group, SliceId, UserId};
use crate::store::{LiveEpoch, SESSIONS_A_CALL, StoreError, StoreResult};

/// What TTL answers of a key that never expires.
const EVERLASTING: i64 = -1;

/// What to look for in the sessions of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StraySessions {
    /// Members of the slice without an open session.
    Missing,
    /// Open sessions of users who are not in the slice.
    Ghosts,
    /// The same; ends them.
    EndGhosts,
}

impl RedisStore {
    /// Reads how attendance is kept, before the first question about it.
    pub(crate) async fn learn_attendance_form(&self) -> StoreResult<()> {
        let fixed = self
            .router
            .call("learn_attendance_form", self.fixed_attendance_form())
            .await?;
        if let Some(form) = fixed {
            self.attendance_form.get_or_init(|| form);
        }
        Ok(())
    }

    /// Those of these keys that never expire.
    pub(crate) async fn everlasting(&self, keys: &[String]) -> StoreResult<Vec<String>> {
        let read = |key: &String, answers: &mut dyn Iterator<Item = _>| {
            let never = next_answer(answers)?.as_i64() == Some(EVERLASTING);
            Ok(never.then(|| key.clone()))
        };
        let found = self
            .router
            .read_each("everlasting", keys, |key| vec![("TTL", args![key])], read)
            .await;
        Ok(found
            .into_iter()
            .collect::<StoreResult<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect())
    }

    /// Gives these keys the lifetime of attendance.
    pub(crate) async fn let_expire(&self, some: &[String]) -> StoreResult<()> {
        let ttl = keys::ATTENDANCE_TTL.as_secs();
        self.for_each_key("let_expire", some, |key| ("EXPIRE", args![key, ttl]))
            .await
    }

    /// Deletes these keys in the background.
    pub(crate) async fn unlink(&self, some: &[String]) -> StoreResult<()> {
        self.for_each_key("unlink", some, |key| ("UNLINK", args![key]))
            .await
    }

    pub(crate) async fn is_there(&self, key: &str) -> StoreResult<bool> {
        self.router
            .call("is_there", async {
                flag(&self.router.command("EXISTS", args![key]).await?)
            })
            .await
    }

    /// Whether the walk looks after the attendance of an epoch.
    pub(crate) async fn is_attendance_listed(&self, of: &LiveEpoch) -> StoreResult<bool> {
        let steps = self
            .score(&self.keys().attendance_due(), &of.to_string())
            .await;
        self.router
            .call("is_attendance_listed", async { Ok(steps?.is_some()) })
            .await
    }

    /// Compares the sessions of a slice with its members, all of them. Answers how many are wrong,
    /// and some.
    pub(crate) async fn stray_sessions(
        &self,
        (slice, epoch): (&SliceId, Epoch),
        look: StraySessions,
    ) -> StoreResult<(u64, Vec<UserId>)> {
        let word = match look {
            StraySessions::Missing => "missing",
            StraySessions::Ghosts => "ghosts",
            StraySessions::EndGhosts => "end",
        };
        let keys = self.keys();
        let on = [
            keys.members(slice, Group::All),
            keys.stays(slice, epoch),
            keys.fence(slice),
        ];
        let (mut cursor, mut sum, mut names) = (0, 0, Vec::new());
        loop {
            let args = args![epoch, cursor, SESSIONS_A_CALL, word];
            let steps = async {
                let mut reply: Reply = self
                    .router
                    .script(&scripts::STRAY_SESSIONS, on.to_vec(), args)
                    .await?;
                Ok::<_, StoreError>((reply.number()?, reply.number()?, reply))
            };
            let (next, found, some) = self.router.call("stray_sessions", steps).await?;
            sum += found;
            names.extend(some.texts().filter_map(|user| UserId::parse(&user).ok()));
            cursor = next;
            if cursor == 0 {
                return Ok((sum, names));
            }
        }
    }
}
