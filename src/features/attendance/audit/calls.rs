//! Reads and repairs attendance and sessions from outside the protocol, for an audit. No gateway
//! calls it.

use crate::base::ids::{Epoch, Group, SliceId, UserId};
use crate::features::attendance::scripts;
use crate::store::LiveEpoch;
use crate::store::SESSIONS_A_CALL;
use crate::store::StoreResult;
use crate::store::redis::reply::{flag, next_answer};
use crate::store::redis::{RedisStore, args, keys};

/// The answer of TTL for a key that never expires.
const EVERLASTING: i64 = -1;

/// The kind of wrong sessions to look for in a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StraySessions {
    /// Members of the slice without an open session.
    Missing,
    /// Open sessions of users who are not in the slice.
    Ghosts,
    /// The same sessions as [`Self::Ghosts`]; the call ends them.
    EndGhosts,
}

/// One page of wrong sessions.
struct StrayPage {
    /// 0 after the last page.
    next: u64,
    count: u64,
    /// Some of the users.
    users: Vec<UserId>,
}

impl RedisStore {
    /// Reads the form in which attendance is kept, before the first question about it.
    pub(crate) async fn learn_attendance_form(&self) -> StoreResult<()> {
        let fixed = self
            .router
            .call("learn_attendance_form", self.calls.fixed_attendance_form())
            .await?;
        if let Some(form) = fixed {
            self.calls.attendance_form.get_or_init(|| form);
        }
        Ok(())
    }

    /// The keys among these that never expire.
    pub(crate) async fn everlasting(&self, keys: &[String]) -> StoreResult<Vec<String>> {
        let ttls = self
            .router
            .read_each(
                "everlasting",
                keys,
                |key| vec![("TTL", args![key])],
                |_, answers| next_answer(answers),
            )
            .await;
        let mut found = Vec::new();
        for (key, ttl) in keys.iter().zip(ttls) {
            if ttl?.as_i64() == Some(EVERLASTING) {
                found.push(key.clone());
            }
        }
        Ok(found)
    }

    /// Gives these keys the lifetime of attendance.
    pub(crate) async fn let_expire(&self, some: &[String]) -> StoreResult<()> {
        let ttl = keys::ATTENDANCE_TTL.as_secs();
        self.calls
            .for_each_key("let_expire", some, |key| ("EXPIRE", args![key, ttl]))
            .await
    }

    /// Deletes these keys in the background.
    pub(crate) async fn unlink(&self, some: &[String]) -> StoreResult<()> {
        self.calls
            .for_each_key("unlink", some, |key| ("UNLINK", args![key]))
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
        let due = self
            .score(&self.keys().attendance_due(), &of.to_string())
            .await;
        self.router
            .call("is_attendance_listed", async { Ok(due?.is_some()) })
            .await
    }

    /// Compares all sessions of a slice with its members. Answers the number of wrong sessions, and
    /// some of their users.
    pub(crate) async fn stray_sessions(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        look: StraySessions,
    ) -> StoreResult<(u64, Vec<UserId>)> {
        let mut cursor = 0;
        let mut sum = 0;
        let mut names = Vec::new();
        loop {
            let page = self
                .router
                .call(
                    "stray_sessions",
                    self.stray_page(slice, epoch, look, cursor),
                )
                .await?;
            sum += page.count;
            names.extend(page.users);
            cursor = page.next;
            if cursor == 0 {
                return Ok((sum, names));
            }
        }
    }

    async fn stray_page(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        look: StraySessions,
        cursor: u64,
    ) -> StoreResult<StrayPage> {
        let word = match look {
            StraySessions::Missing => "missing",
            StraySessions::Ghosts => "ghosts",
            StraySessions::EndGhosts => "end",
        };
        let keys = self.keys();
        let on = vec![
            keys.members(slice, Group::All),
            keys.stays(slice, epoch),
            keys.fence(slice),
        ];
        let args = args![epoch, cursor, SESSIONS_A_CALL, word];
        let mut reply = self
            .router
            .script(&scripts::STRAY_SESSIONS, on, args)
            .await?;
        let next = reply.number()?;
        let count = reply.number()?;
        let mut users = Vec::new();
        for user in reply.texts() {
            if let Ok(user) = UserId::parse(&user) {
                users.push(user);
            }
        }
        Ok(StrayPage { next, count, users })
    }
}
