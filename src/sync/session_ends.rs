//! Writes to the store which ids of sessions without a socket are over. The script that writes also
//! tells the other gateways. While the store is away, ends wait here. A store that may have lost
//! some gets back all that this gateway remembers, also of what others told it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::base::clock::{Millis, Moment};
use crate::peers::core::Core;
use crate::presence::ended_sessions::EndedSessions;
use crate::store::{EndedSession, MAX_BATCH, StoreResult};

/// How long to wait after a failure, in ms.
const AGAIN_AFTER: Millis = 1_000;

pub(crate) struct SessionEndWriter {
    pub(crate) core: Arc<Core>,
    pub(crate) ended: Arc<EndedSessions>,
}

/// What the store is yet to note.
#[derive(Default)]
struct WaitingEnds {
    /// What the other gateways do not know.
    news: Vec<EndedSession>,
    /// What they were told once.
    lost: Vec<EndedSession>,
}

impl SessionEndWriter {
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut doubts = self.core.store.doubts();
        let mut waiting = WaitingEnds::default();
        while !stop.is_cancelled() {
            let again_at = if waiting.news.is_empty() && waiting.lost.is_empty() {
                Moment::NEVER
            } else {
                self.core.clock.now() + AGAIN_AFTER
            };
            tokio::select! {
                // The last ends are written, too.
                () = stop.cancelled() => {}
                () = self.ended.to_tell.wait() => {}
                Some(_) = doubts.next() => waiting.lost = self.ended.all(),
                () = self.core.clock.sleep_until(again_at) => {}
            }
            waiting.news.extend(self.ended.to_tell.take());
            if let Err(why) = self.write(&mut waiting).await {
                let left = waiting.news.len();
                tracing::debug!(left, error = %why, "ends of sessions were not written, will try again");
                // The ids of the others have expired.
                waiting.news.retain(|ended| self.ended.remembers(ended));
            }
        }
    }

    async fn write(&self, waiting: &mut WaitingEnds) -> StoreResult<()> {
        while !waiting.news.is_empty() {
            let batch = waiting.news.len().min(MAX_BATCH);
            let some = &waiting.news[..batch];
            let message = self.core.to_peers.sessions_ended(some);
            self.core.store.end_sessions(some, &message).await?;
            waiting.news.drain(..batch);
        }
        while !waiting.lost.is_empty() {
            let batch = waiting.lost.len().min(MAX_BATCH);
            self.core
                .store
                .end_sessions(&waiting.lost[..batch], "")
                .await?;
            waiting.lost.drain(..batch);
        }
        Ok(())
    }
}
