//! The boundary for the jobs that put a status into the timelines of its author's followers, or
//! take it out. Gateways share the jobs, as [`crate::store::jobs`] says.
//!
//! Authors with very many followers have no such jobs. Their statuses are *pulled*: their followers
//! read them from the authors' own timelines.

use std::time::Duration;

use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, UserId};
use crate::features::feeds::store::statuses::{StatusId, TimelineEntry};
use crate::store::calls::calls;
use crate::store::{Followed, StoreResult};

/// Maximum authors whose statuses are pulled; the ones who became such authors last are kept.
pub const MAX_PULLED: usize = 1_000;

/// The task of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FanoutTask {
    /// Puts the status into the timelines of the author's followers.
    Add,
    /// Takes the status out of them.
    Remove,
}

/// A task with a status that is to be done for every follower of its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FanoutJob {
    /// The task.
    pub task: FanoutTask,
    /// The status.
    pub entry: TimelineEntry,
}

/// A job that a gateway has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenJob {
    /// The store's name for it.
    pub id: String,
    /// The job.
    pub job: FanoutJob,
    /// The last follower for whom it is done; `None` at the beginning.
    pub done_to: Option<Followed>,
}

/// Jobs that were taken, and statistics of all unfinished jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenJobs {
    /// The jobs that this call took.
    pub jobs: Vec<TakenJob>,
    /// The number of unfinished jobs, including `jobs`.
    pub unfinished: u64,
    /// The age of the oldest unfinished job.
    pub oldest: Duration,
}

calls! {
    /// Jobs for the followers of an author, and the authors who have none.
    pub trait FanoutJobs {
        /// Adds a job, unless the same one is not finished yet.
        async fn enqueue_fanout(&self, job: &FanoutJob) -> StoreResult<()>, writes;

        /// Takes up to `most` jobs that no worker has taken, or that no worker has kept for
        /// [`crate::store::CLAIM_AFTER`].
        async fn take_fanouts(&self, worker: &GatewayId, most: usize) -> StoreResult<TakenJobs>, writes;

        /// Reports how far a job got, and that it goes on. Returns false if another worker has taken it
        /// over.
        async fn keep_fanout(&self, worker: &GatewayId, job: &TakenJob) -> StoreResult<bool>, writes;

        /// Forgets a job, unless another worker has taken it over.
        async fn finish_fanout(&self, worker: &GatewayId, job: &TakenJob) -> StoreResult<()>, writes;

        /// Whether there is an unfinished job that adds the status.
        async fn is_being_added(&self, status: &StatusId) -> StoreResult<bool>, reads;

        /// The authors whose statuses are pulled, each with the time from which on they are pulled.
        async fn pulled_authors(&self) -> StoreResult<Vec<(UserId, UnixMillis)>>, reads;

        /// The time from which on an author's statuses are pulled; `None` if they are not pulled.
        async fn pulled_since(&self, author: &UserId) -> StoreResult<Option<UnixMillis>>, reads;

        /// Notes that an author's statuses are pulled from this time on, unless an earlier time is
        /// noted; or, with `None`, that they are not pulled.
        async fn set_pulled(&self, author: &UserId, since: Option<UnixMillis>) -> StoreResult<()>, writes;
    }
}
