//! The calls on removals and bans. The scripts must agree with the model in
//! [`crate::store::removals`].

use std::time::Duration;

use async_trait::async_trait;

use super::paging::{PageOrder, Scored};
use super::reply::{nonsense, text};
use super::{RedisCalls, args, keys, scripts};
use crate::base::clock::millis;
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::store::record_events::by_note;
use crate::store::{
    Ban, ChangeKind, LiftBan, LiftReply, MAX_BANS, MAX_BATCH, MAX_CHANGES, MAX_RECORD_FIELDS,
    Moderation, RemovalChange, Removals, RemoveReply, RemoveUser, StoreResult,
};

const LIFETIME: u64 = keys::REMOVALS_TTL.as_secs();

/// How many fields a record may have that takes the event of a change; 0 for a change without one.
fn most_fields(is_told: bool) -> usize {
    if is_told { MAX_RECORD_FIELDS } else { 0 }
}

/// `None` for another program's member.
fn read_ban((user, until): Scored) -> Option<Ban> {
    Some(Ban {
        user: UserId::parse(&user).ok()?,
        until,
    })
}

#[async_trait]
impl Moderation for RedisCalls {
    async fn remove_user(&self, request: &RemoveUser) -> StoreResult<RemoveReply> {
        let RemoveUser {
            live,
            epoch,
            user,
            ban,
            by,
            is_told,
            message,
        } = request;
        let mut args = args![
            epoch,
            user,
            ban.map_or(0, millis),
            MAX_BANS,
            MAX_CHANGES,
            LIFETIME,
            most_fields(*is_told)
        ];
        args.extend(self.publish_args(live, message));
        args.extend(args![by_note(by.as_ref())]);
        let mut reply = self
            .change(live, &scripts::REMOVE_VIEWER, self.record_keys(live), args)
            .await?;
        match reply.text()?.as_str() {
            "done" => {
                let number = reply.number()?;
                let until = reply.number()?;
                Ok(RemoveReply::Done {
                    number,
                    until: if until > 0 { Some(until) } else { None },
                })
            }
            "full" => Ok(RemoveReply::Full),
            "host" => Ok(RemoveReply::Host),
            "crowded" => Ok(RemoveReply::Crowded),
            "over" => Ok(RemoveReply::Over),
            "absent" => Ok(RemoveReply::Absent),
            other => Err(nonsense(format!("a removal answered {other}"))),
        }
    }

    async fn lift_ban(&self, request: &LiftBan) -> StoreResult<LiftReply> {
        let mut args = args![
            request.epoch,
            request.user,
            MAX_CHANGES,
            LIFETIME,
            most_fields(request.is_told)
        ];
        args.extend(self.publish_args(&request.live, &request.message));
        args.extend(args![by_note(request.by.as_ref())]);
        let mut reply = self
            .change(
                &request.live,
                &scripts::LIFT_BAN,
                self.record_keys(&request.live),
                args,
            )
            .await?;
        match reply.text()?.as_str() {
            "lifted" => Ok(LiftReply::Lifted {
                number: reply.number()?,
            }),
            "free" => Ok(LiftReply::NotBanned),
            "crowded" => Ok(LiftReply::Crowded),
            "over" => Ok(LiftReply::Over),
            "absent" => Ok(LiftReply::Absent),
            other => Err(nonsense(format!("a lifting answered {other}"))),
        }
    }

    async fn removals_since(
        &self,
        live: &LiveId,
        epoch: Epoch,
        since: u64,
    ) -> StoreResult<Option<Removals>> {
        let args = args![epoch, since, MAX_BATCH];
        let mut reply = self
            .router
            .script(&scripts::READ_REMOVALS, self.record_keys(live), args)
            .await?;
        match reply.text()?.as_str() {
            "known" => {}
            "over" | "absent" => return Ok(None),
            other => return Err(nonsense(format!("removals answered {other}"))),
        }
        let last = reply.number()?;
        let at = reply.number()?;
        let mut changes = Vec::new();
        while let Some(entry) = reply.piece() {
            let entry = text(entry)?;
            let number = reply.number()?;
            let left = reply.number()?;
            let (user, kind) = match entry.strip_prefix('+') {
                Some(user) => (user, ChangeKind::Lifted),
                None => {
                    let ban = if left > 0 {
                        Some(Duration::from_millis(left))
                    } else {
                        None
                    };
                    (entry.as_str(), ChangeKind::Removed(ban))
                }
            };
            let user = UserId::parse(user).map_err(|_| nonsense("the removal of nobody"))?;
            changes.push(RemovalChange { user, number, kind });
        }
        Ok(Some(Removals { last, at, changes }))
    }

    async fn bans_page(
        &self,
        live: &LiveId,
        after: Option<&Ban>,
        limit: usize,
    ) -> StoreResult<Vec<Ban>> {
        let after = after.map(|last| (last.user.to_string(), last.until));
        let key = self.keys().bans(live);
        self.page(&key, PageOrder::Up, after, limit, read_ban).await
    }

    async fn restore_bans(
        &self,
        live: &LiveId,
        epoch: Epoch,
        bans: &[(UserId, Duration)],
    ) -> StoreResult<()> {
        let mut args = args![epoch, MAX_BANS, MAX_CHANGES, LIFETIME];
        for (user, left) in bans {
            args.extend(args![user, millis(*left).max(1)]);
        }
        self.router
            .script(&scripts::RESTORE_BANS, self.record_keys(live), args)
            .await?
            .text()?;
        Ok(())
    }
}
