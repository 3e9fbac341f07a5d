//! Ends of sessions that could not be written because the store was away. Most servers say once that
//! a session ended. The gateway keeps what they said in memory, and tries again; it is lost if the
//! gateway stops meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::features::media::keeper::ending::EndedStream;

/// Ends that wait at a time. Later ones are lost.
const MOST: usize = 10_000;

/// How long to wait before the ends are tried again.
const TRY_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Unheard {
    waiting: Mutex<VecDeque<EndedStream>>,
    kept: Notify,
}

impl Unheard {
    /// Keeps an end. False if too many wait.
    pub(crate) fn keep(&self, ending: EndedStream) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MOST {
            return false;
        }
        waiting.push_back(ending);
        drop(waiting);
        self.kept.notify_one();
        true
    }

    /// The end that waits longest.
    pub(crate) fn next(&self) -> Option<EndedStream> {
        self.waiting.lock().pop_front()
    }

    /// Returns when an end is to be tried again; never while none waits.
    pub(crate) async fn due(&self) {
        while self.waiting.lock().is_empty() {
            self.kept.notified().await;
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}
