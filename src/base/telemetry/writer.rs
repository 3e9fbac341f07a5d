//! Standard error as a gateway writes to it: a thread of its own writes, so that the gateway never
//! waits for whoever reads the log. Lines that find no room in the queue are left out and counted.

use std::io::{self, Write};
use std::sync::{OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};

/// The most lines that wait for whoever reads them.
const QUEUE: usize = 4_096;

/// How long the end of the process waits until the last lines are written.
const LAST: Duration = Duration::from_millis(500);

static WRITER: OnceLock<NonBlocking> = OnceLock::new();

/// Its drop waits for the last lines, for a moment.
#[derive(Debug)]
pub(super) struct LastLines(Option<WorkerGuard>);

impl Drop for LastLines {
    fn drop(&mut self) {
        let guard = self.0.take();
        let (end, ended) = mpsc::channel::<()>();
        // The library waits longer, and prints to standard output if the queue is full.
        let waits = thread::Builder::new().spawn(move || {
            drop(guard);
            drop(end);
        });
        if waits.is_ok() {
            let _ = ended.recv_timeout(LAST);
        }
    }
}

/// The writer for a gateway's log. From now on, [`write`] uses it too.
pub(super) fn open() -> (NonBlocking, LastLines) {
    let (writer, last) = queued(io::stderr(), QUEUE);
    (WRITER.get_or_init(|| writer).clone(), last)
}

pub(super) fn queued(to: impl Write + Send + 'static, lines: usize) -> (NonBlocking, LastLines) {
    let (writer, guard) = NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(lines)
        .thread_name("log")
        .finish(to);
    (writer, LastLines(Some(guard)))
}

/// Writes to standard error past the log, in order with its lines. If standard error is closed, the
/// text is lost.
pub(crate) fn write(text: &[u8]) {
    let _ = match WRITER.get() {
        Some(writer) => writer.clone().write_all(text),
        None => io::stderr().write_all(text),
    };
}
