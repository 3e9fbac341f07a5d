//! The calls on erasures, whose jobs gateways share as [`crate::store::jobs`] says. Of an erasure that
//! ended, a report and a digest of the user are left. [`super::redis`] does the work of a step.

use async_trait::async_trait;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{ErasureId, GatewayId, UserId};
use crate::base::user_digest::UserDigest;
use crate::features::erasure::scripts as own_scripts;
use crate::features::erasure::store::{
    EndedErasure, Erasure, ErasureProgress, Erasures, REPORT_KEPT, TakenErasure,
};
use crate::presence::erasing::ErasureNews;
use crate::store::redis::reply::{Reply, number, text};
use crate::store::redis::{RedisCalls, args, scripts};
use crate::store::{CLAIM_AFTER, ERASED_KEPT, ErasedSome, JOB_GROUP, StoreResult};

impl RedisCalls {
    /// The keys that every script on the jobs begins with.
    fn job_keys(&self) -> Vec<String> {
        vec![self.keys().erasures(), self.keys().erasures_progress()]
    }
}

#[async_trait]
impl Erasures for RedisCalls {
    async fn ask_erasure(&self, user: &UserId) -> StoreResult<ErasureId> {
        let new = ErasureId::random();
        let mut keys = self.job_keys();
        keys.extend([
            self.keys().erasures_asked(),
            self.keys().erasure_report(&new),
        ]);
        let args = args![user, new, REPORT_KEPT.as_secs()];
        let id = self
            .router
            .script(&own_scripts::ASK_ERASURE, keys, args)
            .await?
            .text()?;
        Ok(ErasureId::parse(&id).unwrap_or(new))
    }

    async fn erasure(&self, id: &ErasureId) -> StoreResult<Option<Erasure>> {
        let args = args![
            self.keys().erasure_report(id),
            "asked_at",
            "ended_at",
            "found"
        ];
        let mut fields = Reply::of(self.router.command("HMGET", args).await?)?;
        let asked_at = match fields.piece() {
            Some(asked_at) if !asked_at.is_null() => number(&asked_at)?,
            _ => return Ok(None),
        };
        let ended = match (fields.piece(), fields.piece()) {
            (Some(at), Some(found)) if !at.is_null() => Some(EndedErasure {
                at: number(&at)?,
                found: serde_json::from_str(&text(found)?).unwrap_or_default(),
            }),
            _ => None,
        };
        Ok(Some(Erasure { asked_at, ended }))
    }

    async fn erasure_news(&self, after: UnixMillis) -> StoreResult<ErasureNews> {
        let mut keys = self.job_keys();
        keys.extend([self.keys().erasures_asked(), self.keys().erased()]);
        let args = args![after, millis(ERASED_KEPT)];
        let mut reply = self
            .router
            .script(&own_scripts::READ_ERASURES, keys, args)
            .await?;
        let mut news = ErasureNews {
            at: reply.number()?,
            ..ErasureNews::default()
        };
        let oldest = reply.number()?;
        if oldest > 0 {
            news.oldest = Some(oldest);
        }
        for (user, id) in reply.list()?.pairs()? {
            // Another program may have written something else.
            if let (Ok(user), Ok(id)) = (UserId::parse(&user), ErasureId::parse(&id)) {
                news.running.push((user, id));
            }
        }
        for (digest, at) in reply.list()?.scored()? {
            if let Some(digest) = UserDigest::parse(&digest) {
                news.ended.push((digest, at));
            }
        }
        Ok(news)
    }

    async fn take_erasure(&self, worker: &GatewayId) -> StoreResult<Option<TakenErasure>> {
        let args = args![worker, JOB_GROUP, millis(CLAIM_AFTER), 1];
        let mut reply = self
            .router
            .script(&scripts::TAKE_JOBS, self.job_keys(), args)
            .await?;
        // How many there are, and the age of the oldest.
        reply.number()?;
        reply.number()?;
        let Some(job) = reply.piece() else {
            return Ok(None);
        };
        let job = text(job)?;
        let user = reply.text()?;
        reply.text()?;
        let progress = reply.text()?;
        let asked = args![self.keys().erasures_asked(), user];
        let id = self.router.command("HGET", asked).await?.into_string();
        let id = id.and_then(|id| ErasureId::parse(&id).ok());
        let Ok(user) = UserId::parse(&user) else {
            // Another program wrote this job.
            let args = args![worker, JOB_GROUP, job, user];
            self.router
                .script(&scripts::FINISH_JOB, self.job_keys(), args)
                .await?;
            return Ok(None);
        };
        Ok(Some(TakenErasure {
            job,
            id: id.unwrap_or_else(ErasureId::random),
            user,
            progress: serde_json::from_str(&progress).unwrap_or_default(),
        }))
    }

    async fn keep_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<bool> {
        let progress = serde_json::to_string(&taken.progress).unwrap_or_default();
        let args = args![worker, JOB_GROUP, taken.job, taken.user, progress];
        self.router
            .script(&scripts::KEEP_JOB, self.job_keys(), args)
            .await?
            .flag()
    }

    async fn finish_erasure(&self, worker: &GatewayId, taken: &TakenErasure) -> StoreResult<()> {
        let mut keys = self.job_keys();
        keys.extend([
            self.keys().erasures_asked(),
            self.keys().erasure_report(&taken.id),
            self.keys().erased(),
        ]);
        let ErasureProgress { found, .. } = &taken.progress;
        let found = serde_json::to_string(found).unwrap_or_default();
        let args = args![
            worker,
            JOB_GROUP,
            taken.job,
            taken.user,
            found,
            REPORT_KEPT.as_secs(),
            UserDigest::of(&taken.user),
            ERASED_KEPT.as_secs()
        ];
        self.router
            .script(&own_scripts::FINISH_ERASURE, keys, args)
            .await?;
        Ok(())
    }

    async fn erase_some(&self, user: &UserId, place: &str) -> StoreResult<ErasedSome> {
        self.step(user, place).await
    }
}
