//! Counts the jobs of a loop that wait for a hanging node, so that jobs on other nodes can start
//! meanwhile. The flusher and the publisher use it.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

#[derive(Debug)]
pub struct SlowJobs {
    after: Duration,
    count: AtomicUsize,
    /// Notified when another job becomes slow.
    more: Notify,
}

impl SlowJobs {
    /// A job is slow once it has taken this long.
    pub fn new(after: Duration) -> Self {
        Self {
            after,
            count: AtomicUsize::new(0),
            more: Notify::new(),
        }
    }

    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Waits until another job has become slow.
    pub async fn more(&self) {
        self.more.notified().await;
    }

    /// Runs a job, and counts it while it is slow.
    pub async fn watch<T>(&self, job: impl Future<Output = T>) -> T {
        let mut job = pin!(job);
        if let Ok(done) = timeout(self.after, &mut job).await {
            return done;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.more.notify_one();
        let done = job.await;
        self.count.fetch_sub(1, Ordering::Relaxed);
        done
    }
}
