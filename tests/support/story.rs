//! Owns how a story is run: on a runtime of its own, with a deadline, and with its time noted for
//! the list of the slowest that `tests/run` prints.

use std::io::Write;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;

/// Runs a story that may take no longer than this.
pub fn tell(within: Duration, story: impl Future<Output = ()>) {
    let _noted = Noted(Instant::now());
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let ended = runtime.block_on(async { tokio::time::timeout(within, Box::pin(story)).await });
    ended.expect("the story ends before its deadline");
}

/// The seed of a random walk. Set `STORIES_SEED` in the environment for other walks.
pub fn seed(n: u64) -> u64 {
    from_environment("STORIES_SEED").unwrap_or(0) + n
}

/// A number that the environment names.
pub fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A story since its begin. Dropped, it adds a line with its seconds and the name of its test to the
/// file that `TEST_TIMES` names.
struct Noted(Instant);

impl Drop for Noted {
    fn drop(&mut self) {
        let Some(file) = std::env::var_os("TEST_TIMES") else {
            return;
        };
        let took = self.0.elapsed().as_secs_f64();
        let thread = std::thread::current();
        let line = format!("{took:7.1} {}\n", thread.name().unwrap_or("nameless"));
        let times = std::fs::OpenOptions::new().append(true).open(file);
        // A failure to note a time is no failure of the test.
        let _ = times.and_then(|mut times| times.write_all(line.as_bytes()));
    }
}
