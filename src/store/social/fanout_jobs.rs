//! The boundary for the jobs that bring a status into the timelines of those who follow its author,
//! or take it out. Gateways share the jobs: whoever takes one says again and again how far it got,
//! and when nobody has said so for [`CLAIM_AFTER`], another gateway goes on from there.
//!
//! Authors with very many followers have no such jobs: their statuses are *pulled*, read from their
//! own timelines by those who follow them.

use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, UserId};
use crate::store::{Entry, Followed, StatusId, StoreResult};

/// When a job is taken over. Longer than any write of a step may be under way: see
/// [`crate::store::Timelines`].
pub const CLAIM_AFTER: Duration = Duration::from_secs(12);

/// The most authors whose statuses are pulled: those who became such authors last.
pub const MAX_PULLED: usize = 1_000;

/// What a job does with a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FanoutTask {
    /// Puts it into the timelines of the author's followers.
    Add,
    /// Takes it out of them.
    Remove,
}

/// Something to do for a status with every follower of its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// What to do.
    pub task: FanoutTask,
    /// With which status.
    pub entry: Entry,
}

/// A job that a gateway has taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenJob {
    /// The store's name for it.
    pub id: String,
    /// What to do.
    pub job: Job,
    /// The last follower for whom it is done; `None` at the beginning.
    pub done_to: Option<Followed>,
}

/// Jobs that were taken, and what is known of all that are not finished.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenJobs {
    /// Those that were taken now.
    pub jobs: Vec<TakenJob>,
    /// How many are not finished, those included.
    pub unfinished: u64,
    /// The age of the oldest that is not finished.
    pub oldest: Duration,
}

/// Jobs for the followers of an author, and the authors who have none.
#[async_trait]
pub trait FanoutJobs: Sync {
    /// Adds a job, unless the same one is not finished yet.
    async fn enqueue_fanout(&self, job: &Job) -> StoreResult<()>;

    /// Takes up to `most` jobs that nobody has taken, or that nobody has kept for [`CLAIM_AFTER`].
    async fn take_fanouts(&self, worker: &GatewayId, most: usize) -> StoreResult<TakenJobs>;

    /// Says how far a job got, and that it goes on. False if another worker has taken it over.
    async fn keep_fanout(&self, worker: &GatewayId, job: &TakenJob) -> StoreResult<bool>;

    /// Forgets a job, unless another worker has taken it over.
    async fn finish_fanout(&self, worker: &GatewayId, job: &TakenJob) -> StoreResult<()>;

    /// Whether a job that adds the status is not finished.
    async fn is_being_added(&self, status: &StatusId) -> StoreResult<bool>;

    /// The authors whose statuses are pulled, each with the time from which on they are.
    async fn pulled_authors(&self) -> StoreResult<Vec<(UserId, UnixMillis)>>;

    /// From when on an author's statuses are pulled; `None` if they are not.
    async fn pulled_since(&self, author: &UserId) -> StoreResult<Option<UnixMillis>>;

    /// Notes that an author's statuses are pulled from this time on, unless an earlier one is
    /// noted; or, with `None`, that they are not.
    async fn set_pulled(&self, author: &UserId, since: Option<UnixMillis>) -> StoreResult<()>;
}
