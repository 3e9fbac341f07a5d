//! The jobs for the followers of an author in the embedded store. There is one gateway, so no other
//! gateway takes a job over. A job that is unfinished when the gateway ends is lost with the store.

use crate::features::feeds::memory::timelines::StoredFeeds;
use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, UserId};
use crate::features::feeds::memory::timelines::Unfinished;
use crate::features::feeds::store::fanout_jobs::{
    FanoutJob, FanoutJobs, FanoutTask, MAX_PULLED, TakenJob, TakenJobs,
};
use crate::features::feeds::store::statuses::StatusId;
use crate::store::StoreResult;
use crate::store::memory::MemoryStore;

#[async_trait]
impl FanoutJobs for MemoryStore {
    async fn enqueue_fanout(&self, job: &FanoutJob) -> StoreResult<()> {
        let since = self.now();
        let jobs = &mut self.states.lock::<StoredFeeds>().jobs;
        let is_known = jobs.unfinished().any(|there| {
            let known = &there.job.job;
            known.task == job.task && known.entry.id == job.entry.id
        });
        if !is_known {
            jobs.numbers += 1;
            let job = TakenJob {
                id: jobs.numbers.to_string(),
                job: job.clone(),
                done_to: None,
            };
            jobs.waiting.push_back(Unfinished { job, since });
        }
        Ok(())
    }

    async fn take_fanouts(&self, _: &GatewayId, most: usize) -> StoreResult<TakenJobs> {
        let now = self.now();
        let jobs = &mut self.states.lock::<StoredFeeds>().jobs;
        let most = most.min(jobs.waiting.len());
        let taken: Vec<Unfinished> = jobs.waiting.drain(..most).collect();
        jobs.taken.extend(taken.iter().cloned());
        let oldest = jobs
            .unfinished()
            .map(|there| now.saturating_sub(there.since))
            .max()
            .unwrap_or(0);
        Ok(TakenJobs {
            jobs: taken.into_iter().map(|taken| taken.job).collect(),
            unfinished: jobs.unfinished().count() as u64,
            oldest: Duration::from_millis(oldest),
        })
    }

    async fn keep_fanout(&self, _: &GatewayId, job: &TakenJob) -> StoreResult<bool> {
        Ok(self
            .states
            .lock::<StoredFeeds>()
            .jobs
            .taken
            .iter()
            .any(|there| there.job.id == job.id))
    }

    async fn finish_fanout(&self, _: &GatewayId, job: &TakenJob) -> StoreResult<()> {
        self.states
            .lock::<StoredFeeds>()
            .jobs
            .taken
            .retain(|there| there.job.id != job.id);
        Ok(())
    }

    async fn is_being_added(&self, status: &StatusId) -> StoreResult<bool> {
        let jobs = &self.states.lock::<StoredFeeds>().jobs;
        Ok(jobs.unfinished().any(|there| {
            let job = &there.job.job;
            job.task == FanoutTask::Add && job.entry.id == *status
        }))
    }

    async fn pulled_authors(&self) -> StoreResult<Vec<(UserId, UnixMillis)>> {
        Ok(self
            .states
            .lock::<StoredFeeds>()
            .jobs
            .pulled
            .clone()
            .into_iter()
            .collect())
    }

    async fn pulled_since(&self, author: &UserId) -> StoreResult<Option<UnixMillis>> {
        Ok(self
            .states
            .lock::<StoredFeeds>()
            .jobs
            .pulled
            .get(author)
            .copied())
    }

    async fn set_pulled(&self, author: &UserId, since: Option<UnixMillis>) -> StoreResult<()> {
        let pulled = &mut self.states.lock::<StoredFeeds>().jobs.pulled;
        match since {
            Some(since) => {
                pulled.entry(author.clone()).or_insert(since);
                if pulled.len() > MAX_PULLED {
                    let oldest = pulled
                        .iter()
                        .min_by_key(|(user, since)| (**since, *user))
                        .map(|(user, _)| user.clone());
                    if let Some(oldest) = oldest {
                        pulled.remove(&oldest);
                    }
                }
            }
            None => {
                pulled.remove(author);
            }
        }
        Ok(())
    }
}
