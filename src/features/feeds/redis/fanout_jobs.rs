//! The calls on jobs for the followers of an author, which gateways share as [`crate::store::jobs`]
//! says.

use crate::features::feeds::scripts as own_scripts;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{GatewayId, UserId};
use crate::features::feeds::store::fanout_jobs::{
    FanoutJob, FanoutJobs, FanoutTask, MAX_PULLED, TakenJob, TakenJobs,
};
use crate::features::feeds::store::statuses::{StatusId, TimelineEntry};
use crate::store::redis::reply::{Reply, number, score, text};
use crate::store::redis::{RedisCalls, RedisStore, args, scripts};
use crate::store::{CLAIM_AFTER, Followed, JOB_GROUP, StoreResult};

/// The name of a job in the stream and in the hash.
fn name(task: FanoutTask, status: &StatusId) -> String {
    match task {
        FanoutTask::Add => format!("add {status}"),
        FanoutTask::Remove => format!("remove {status}"),
    }
}

fn read_job(name: &str, at: &str) -> Option<FanoutJob> {
    let (task, status) = name.split_once(' ')?;
    let task = match task {
        "add" => FanoutTask::Add,
        "remove" => FanoutTask::Remove,
        _ => return None,
    };
    Some(FanoutJob {
        task,
        entry: TimelineEntry {
            at: at.parse().ok()?,
            id: StatusId::parse(status)?,
        },
    })
}

fn read_progress(text: &str) -> Option<Followed> {
    let (at, user) = text.split_once(' ')?;
    Some(Followed {
        at: at.parse().ok()?,
        user: UserId::parse(user).ok()?,
    })
}

impl RedisCalls {
    fn fanout_keys(&self) -> Vec<String> {
        vec![self.keys().fanout(), self.keys().fanout_progress()]
    }

    async fn finish_taken(&self, worker: &GatewayId, id: &str, job: &str) -> StoreResult<()> {
        let args = args![worker, JOB_GROUP, id, job];
        self.router
            .script(&scripts::FINISH_JOB, self.fanout_keys(), args)
            .await?;
        Ok(())
    }
}

#[async_trait]
impl FanoutJobs for RedisCalls {
    async fn enqueue_fanout(&self, job: &FanoutJob) -> StoreResult<()> {
        let args = args![name(job.task, &job.entry.id), job.entry.at];
        self.router
            .script(&own_scripts::ENQUEUE_FANOUT, self.fanout_keys(), args)
            .await?;
        Ok(())
    }

    async fn take_fanouts(&self, worker: &GatewayId, most: usize) -> StoreResult<TakenJobs> {
        // Mostly there is nothing to do, and these two commands cost Redis far less than a script.
        let look = vec![
            ("XLEN", args![self.keys().fanout()]),
            ("EXISTS", args![self.keys().fanout_progress()]),
        ];
        let found: StoreResult<Vec<Value>> = self.router.read_all(look).await.into_iter().collect();
        if found?.iter().all(|count| number(count) == Ok(0)) {
            return Ok(TakenJobs::default());
        }
        let args = args![worker, JOB_GROUP, millis(CLAIM_AFTER), most];
        let mut reply = self
            .router
            .script(&scripts::TAKE_JOBS, self.fanout_keys(), args)
            .await?;
        let unfinished = reply.number()?;
        let oldest = Duration::from_millis(reply.number()?);
        let mut taken = TakenJobs {
            jobs: Vec::new(),
            unfinished,
            oldest,
        };
        while let Some(id) = reply.piece() {
            let id = text(id)?;
            let job = reply.text()?;
            let at = reply.text()?;
            let done_to = read_progress(&reply.text()?);
            match read_job(&job, &at) {
                Some(job) => taken.jobs.push(TakenJob { id, job, done_to }),
                // Another program wrote this job.
                None => self.finish_taken(worker, &id, &job).await?,
            }
        }
        Ok(taken)
    }

    async fn keep_fanout(&self, worker: &GatewayId, job: &TakenJob) -> StoreResult<bool> {
        let done_to = match &job.done_to {
            Some(last) => format!("{} {}", last.at, last.user),
            None => String::new(),
        };
        let args = args![
            worker,
            JOB_GROUP,
            job.id,
            name(job.job.task, &job.job.entry.id),
            done_to
        ];
        self.router
            .script(&scripts::KEEP_JOB, self.fanout_keys(), args)
            .await?
            .flag()
    }

    async fn finish_fanout(&self, worker: &GatewayId, job: &TakenJob) -> StoreResult<()> {
        let what = name(job.job.task, &job.job.entry.id);
        self.finish_taken(worker, &job.id, &what).await
    }

    async fn is_being_added(&self, status: &StatusId) -> StoreResult<bool> {
        let args = args![self.keys().fanout_progress(), name(FanoutTask::Add, status)];
        Ok(!self.router.command("HGET", args).await?.is_null())
    }

    async fn pulled_authors(&self) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        let args = args![self.keys().pulled(), 0, MAX_PULLED - 1, "WITHSCORES"];
        let authors = Reply::of(self.router.command("ZREVRANGE", args).await?)?.scored()?;
        let mut pulled = Vec::with_capacity(authors.len());
        for (user, since) in authors {
            if let Ok(user) = UserId::parse(&user) {
                pulled.push((user, since));
            }
        }
        Ok(pulled)
    }

    async fn pulled_since(&self, author: &UserId) -> StoreResult<Option<UnixMillis>> {
        let args = args![self.keys().pulled(), author];
        let since = self.router.command("ZSCORE", args).await?;
        if since.is_null() {
            Ok(None)
        } else {
            Ok(Some(score(since)?.max(0.0) as UnixMillis))
        }
    }

    async fn set_pulled(&self, author: &UserId, since: Option<UnixMillis>) -> StoreResult<()> {
        let key = self.keys().pulled();
        let Some(since) = since else {
            self.router.command("ZREM", args![key, author]).await?;
            return Ok(());
        };
        self.router
            .command("ZADD", args![key, "NX", since, author])
            .await?;
        let too_old = -(MAX_PULLED as i64) - 1;
        self.router
            .command("ZREMRANGEBYRANK", args![key, 0, too_old])
            .await?;
        Ok(())
    }
}

impl RedisStore {
    /// Whether a job that adds or removes the status is unfinished.
    pub(crate) async fn is_being_told(&self, status: &StatusId) -> StoreResult<bool> {
        let add = name(FanoutTask::Add, status);
        let remove = name(FanoutTask::Remove, status);
        let args = args![self.keys().fanout_progress(), add, remove];
        let steps = async {
            let fields = Reply::of(self.router.command("HMGET", args).await?)?;
            Ok(fields.texts().next().is_some())
        };
        self.router.call("is_being_told", steps).await
    }
}
