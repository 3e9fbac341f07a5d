//! Tasks that start by name and stop together.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The name of a long-lived task that ended early, once one did.
pub(super) type FailedTask = watch::Sender<Option<&'static str>>;

/// Tasks that stop together.
pub(super) struct StopStage {
    stop: CancellationToken,
    tasks: TaskTracker,
    /// Cancelled when the tasks did not end in time.
    give_up: CancellationToken,
    failed: FailedTask,
}

impl StopStage {
    pub(super) fn new(failed: &FailedTask) -> Self {
        Self {
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            give_up: CancellationToken::new(),
            failed: failed.clone(),
        }
    }

    /// Starts a long-lived task, which runs until told to stop. If it ends before, the gateway has
    /// failed.
    pub(super) fn run<F>(&self, name: &'static str, begin: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.watch(name, Box::pin(begin(self.stop.clone())));
    }

    fn watch(&self, name: &'static str, task: BoxFuture<'static, ()>) {
        let stop = self.stop.clone();
        let give_up = self.give_up.clone();
        let failed = self.failed.clone();
        let mut running = tokio::spawn(task);
        self.tasks.spawn(async move {
            let ended = tokio::select! {
                ended = &mut running => ended,
                () = give_up.cancelled() => return running.abort(),
            };
            if ended.is_err() || !stop.is_cancelled() {
                tracing::error!(task = name, "a task that must not end has ended");
                failed.send_replace(Some(name));
            }
        });
    }

    /// Ends the tasks at once, in the middle of their work.
    pub(super) fn abort(&self) {
        self.stop.cancel();
        self.give_up.cancel();
    }

    pub(super) async fn end(&self, within: Duration) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(within, self.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(left = self.tasks.len(), "tasks did not end in time");
            self.give_up.cancel();
        }
    }
}
