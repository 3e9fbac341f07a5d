//! A simulated process: a runtime of its own on this thread, whose clock stands still while other
//! processes run.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::{Instant, advance, sleep_until};

/// A process. When it is dropped, its tasks end in the middle of what they do, as those of a killed
/// process.
pub(crate) struct Process(Runtime);

impl Process {
    /// Starts now, by the clock outside all processes.
    pub(crate) fn start() -> io::Result<Self> {
        Ok(Self(
            Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()?,
        ))
    }

    /// Where its tasks are spawned from outside.
    pub(crate) fn handle(&self) -> &Handle {
        self.0.handle()
    }

    /// Runs until its clock shows `until`. If it did not run for a while before `since`, it finds
    /// that its clock has jumped, as after a stop by the scheduler.
    pub(crate) fn run(&self, since: Instant, until: Instant) {
        self.0.block_on(async {
            let missed = since.saturating_duration_since(Instant::now());
            if missed > Duration::ZERO {
                advance(missed).await;
            }
            sleep_until(until).await;
        });
    }
}
