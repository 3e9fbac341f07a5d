//! Works on the jobs that bring a status to the followers of its author, or take it from them: a
//! pass of 1,000 followers at a time, job after job in turn, so that a status reaches its first
//! thousand at once however large the others are. Between its writes it rests for as long as they
//! took, so that joins find Redis free at least half of the time.
//!
//! A job alone decides nothing: before each pass the worker looks whether the status stands. A job
//! that adds ends when it does not. A job that removes begins when no write of one
//! that adds can still arrive: those are refused 5 s after the look. So it waits until no such job
//! is left, whose passes that failed are repeated after [`NO_WRITE_AFTER`], and at most that long:
//! the job may be one of a gateway that is gone. So no status comes back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::base::ids::GatewayId;
use crate::features::feeds::announcements::Feeds;
use crate::features::feeds::store::FeedStore;
use crate::features::feeds::store::fanout_jobs::{FanoutTask, TakenJob};
use crate::features::feeds::store::feeds::{StatusContent, StatusState, states_of};
use crate::features::feeds::store::timelines::Timeline;
use crate::peers::core::Core;
use crate::store::{Edge, StoreResult};

/// Followers of a pass.
const PASS: usize = 1_000;
/// Timelines that are written together.
const TOGETHER: usize = 250;
/// Maximum jobs that a gateway works on.
const MOST_JOBS: usize = 64;
/// How often a gateway looks for jobs of others.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long a look at the status is good for: then the pass ends, and the next one looks again.
/// Together with the longest call, it is shorter than the time after which writes are refused.
const FRESH: Duration = Duration::from_secs(2);
/// This long after a look, no write that the look allowed can arrive any more. A pass that failed
/// is repeated then.
const NO_WRITE_AFTER: Duration = Duration::from_secs(6);
/// How long a job waits for the change that it tells of, which comes just after the job.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The shortest and the longest rest after writes.
const MIN_REST: Duration = Duration::from_millis(1);
const MAX_REST: Duration = Duration::from_millis(200);

pub struct Fanout {
    pub core: Arc<Core>,
    pub store: Arc<dyn FeedStore>,
    pub feeds: Arc<Feeds>,
}

/// A job that this gateway works on.
struct Active {
    taken: TakenJob,
    /// When this gateway took it.
    since: Instant,
    /// No pass before then.
    not_before: Instant,
    /// Whether this gateway has seen that the status stands, or, if the job removes it, that it
    /// does not.
    is_due: bool,
    /// When this gateway saw first that the status stands no longer.
    fell: Option<Instant>,
}

/// What comes after a pass.
enum AfterPass {
    Again,
    Wait(Duration),
    /// All is done, or there is nothing to do.
    Done,
    /// Another gateway has taken the job over.
    Lost,
}

impl Fanout {
    /// Runs until told to stop. Other gateways then take over the remaining jobs.
    pub async fn run(self, stop: CancellationToken) {
        let worker = GatewayId::random();
        let mut jobs: VecDeque<Active> = VecDeque::new();
        let mut next_look = Instant::now();
        let mut more_wait = false;
        loop {
            if more_wait && jobs.len() <= MOST_JOBS / 2 {
                next_look = Instant::now();
            }
            let mut wake = next_look;
            for job in &jobs {
                wake = wake.min(job.not_before);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = self.feeds.jobs() => next_look = Instant::now(),
                () = sleep_until(wake) => {}
            }
            if next_look <= Instant::now() {
                more_wait = self.take(&worker, &mut jobs).await;
                next_look = Instant::now() + LOOK_EVERY;
            }
            let Some(place) = jobs.iter().position(|job| job.not_before <= Instant::now()) else {
                continue;
            };
            let Some(mut job) = jobs.remove(place) else {
                continue;
            };
            let next = tokio::select! {
                () = stop.cancelled() => return,
                next = self.pass(&worker, &mut job) => next,
            };
            let wait = match next {
                Ok(AfterPass::Again) => Duration::ZERO,
                Ok(AfterPass::Wait(wait)) => wait,
                Ok(AfterPass::Lost) => continue,
                Ok(AfterPass::Done) => match self.store.finish_fanout(&worker, &job.taken).await {
                    Ok(()) => continue,
                    Err(_) => NO_WRITE_AFTER,
                },
                Err(error) => {
                    tracing::debug!(
                        status = %job.taken.job.entry.id, %error,
                        "a pass failed, will try again"
                    );
                    NO_WRITE_AFTER
                }
            };
            job.not_before = Instant::now() + wait;
            jobs.push_back(job);
        }
    }

    /// Takes jobs; the new ones come first. True if there were as many as this gateway has places,
    /// so that more may wait.
    async fn take(&self, worker: &GatewayId, jobs: &mut VecDeque<Active>) -> bool {
        let places = MOST_JOBS.saturating_sub(jobs.len());
        let taken = match self.store.take_fanouts(worker, places).await {
            Ok(taken) => taken,
            Err(error) => {
                tracing::debug!(%error, "could not look for jobs");
                return false;
            }
        };
        let is_full = taken.jobs.len() >= places;
        self.core.metrics.fanout_jobs.set(taken.unfinished as i64);
        self.core
            .metrics
            .fanout_lag_seconds
            .set(taken.oldest.as_secs() as i64);
        let now = Instant::now();
        for taken in taken.jobs.into_iter().rev() {
            // This gateway may have it already, if it did not say so for long.
            jobs.retain(|job| job.taken.id != taken.id);
            jobs.push_front(Active {
                taken,
                since: now,
                not_before: now,
                is_due: false,
                fell: None,
            });
        }
        is_full
    }

    /// Does a job for the next followers.
    async fn pass(&self, worker: &GatewayId, active: &mut Active) -> StoreResult<AfterPass> {
        // The writes of this pass are refused 5 s after this moment. The job is kept later, so the
        // writes of a worker that is stopped anywhere below are refused before another takes the
        // job over.
        let looked = Instant::now();
        if !self.store.keep_fanout(worker, &active.taken).await? {
            return Ok(AfterPass::Lost);
        }
        let mut job = active.taken.job.clone();
        let state = states_of(self.store.as_ref(), std::slice::from_ref(&job.entry.id))
            .await
            .pop();
        let state = state.unwrap_or(Ok(StatusState::Unknown))?;
        let is_first = active.taken.done_to.is_none() && !active.is_due;
        let is_early = is_first && active.since.elapsed() < PATIENCE;
        if let StatusState::Stands(StatusContent::Post(post)) = &state {
            // Another gateway may have made the same announcement a moment before.
            job.entry.at = post.at;
        }
        match (job.task, state) {
            (FanoutTask::Add, StatusState::Stands(_)) => {}
            (FanoutTask::Add, StatusState::Unknown)
            | (FanoutTask::Remove, StatusState::Stands(_))
                if is_early =>
            {
                return Ok(AfterPass::Wait(LOOK_AGAIN));
            }
            (FanoutTask::Add, _) | (FanoutTask::Remove, StatusState::Stands(_)) => {
                return Ok(AfterPass::Done);
            }
            (FanoutTask::Remove, _) => {
                let fell = *active.fell.get_or_insert_with(Instant::now);
                let may_come_back = fell.elapsed() < NO_WRITE_AFTER;
                if is_first && may_come_back && self.store.is_being_added(&job.entry.id).await? {
                    return Ok(AfterPass::Wait(LOOK_AGAIN));
                }
            }
        }
        if is_first && self.is_pulled(active).await? {
            return Ok(AfterPass::Done);
        }
        active.is_due = true;
        let author = job.entry.id.author();
        let page = self
            .store
            .follow_page(author, Edge::Followers, active.taken.done_to.as_ref(), PASS)
            .await?;
        let mut followers = page.chunks(TOGETHER);
        for together in followers.by_ref() {
            let began = Instant::now();
            let to: Vec<Timeline> = together
                .iter()
                .map(|follower| Timeline::of_follower(follower.user.clone(), &job.entry.id))
                .collect();
            match job.task {
                FanoutTask::Add => self.store.add_to_timelines(&job.entry, &to, looked).await?,
                FanoutTask::Remove => self.store.remove_from_timelines(&job.entry.id, &to).await?,
            }
            active.taken.done_to = together.last().cloned();
            self.core.metrics.fanout_writes.inc_by(to.len() as u64);
            sleep(began.elapsed().clamp(MIN_REST, MAX_REST)).await;
            if looked.elapsed() > FRESH {
                break;
            }
        }
        if followers.next().is_none() && page.len() < PASS {
            return Ok(AfterPass::Done);
        }
        // The job's next turn may come late. A worker that takes it over goes on from here.
        Ok(if self.store.keep_fanout(worker, &active.taken).await? {
            AfterPass::Again
        } else {
            AfterPass::Lost
        })
    }

    /// Whether followers read the status from its author's own timeline. The job that adds the
    /// status decides that.
    async fn is_pulled(&self, active: &Active) -> StoreResult<bool> {
        let entry = &active.taken.job.entry;
        let author = entry.id.author();
        let since = self.store.pulled_since(author).await?;
        if active.taken.job.task == FanoutTask::Remove {
            return Ok(since.is_some_and(|since| since <= entry.at));
        }
        let is_large = self.store.follower_count(author).await? > self.core.config.fanout_limit;
        match (is_large, since) {
            (true, None) => self.store.set_pulled(author, Some(entry.at)).await?,
            (false, Some(_)) => self.store.set_pulled(author, None).await?,
            _ => {}
        }
        Ok(is_large)
    }
}

#[cfg(test)]
mod tests;
