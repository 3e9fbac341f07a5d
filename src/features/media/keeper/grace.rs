//! Closes the lives whose stream did not come back in time, and notes the sessions whose heartbeats
//! stayed away.
//!
//! Each gateway watches the lives of which it heard, and the walker watches all of them. So a live
//! is closed even if the gateway that heard of the end has died. Whoever finds that the time is up
//! reads the state again, writes that the stream is over, and only then closes the live: a stream
//! that comes back before that write keeps the live, and one that comes later opens the next epoch.

use crate::features::media::store::OpenEpoch;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::base::ids::LiveId;
use crate::features::media::keeper::{Decided, StreamKeeper, TakenIn};
use crate::features::media::store::StreamsEnd;
use crate::features::media::watched_streams::{Awaited, WatchedStatus};
use crate::store::{LiveRecord, OpenedBy, StoreResult};

/// Maximum lives that are looked at at the same time: the streams of a server may end together.
const MAX_CONCURRENT_LOOKS: usize = 64;

impl StreamKeeper {
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        loop {
            let next = self.watched.next_look();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.watched.changes() => {}
                () = self.core.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
                () = self.unheard.due() => {}
            }
            self.hear_unheard().await;
            self.judge_all().await;
        }
    }

    /// Takes in the ends that could not be written before.
    async fn hear_unheard(&self) {
        while let Some(ending) = self.unheard.next() {
            if let Err(why) = self.try_hear_end(&ending).await {
                tracing::debug!(
                    server = %ending.heard.server, error = %why,
                    "the end of a stream was not written, will try again"
                );
                self.unheard.keep(ending);
                return;
            }
        }
    }

    async fn judge_all(&self) {
        let due = self.watched.looks_due(self.core.clock.now());
        stream::iter(due)
            .for_each_concurrent(MAX_CONCURRENT_LOOKS, async |(live, seen)| {
                self.judge_or_wait(&live, &seen).await;
            })
            .await;
    }

    async fn judge_or_wait(&self, live: &LiveId, seen: &WatchedStatus) {
        if let Err(why) = self.judge(live, seen).await {
            tracing::debug!(
                live_id = %live, error = %why,
                "could not look for a stream, will try again"
            );
            self.watched.begin_again(live, self.core.clock.now());
        }
    }

    /// Looks at a live whose time is up.
    async fn judge(&self, live: &LiveId, seen: &WatchedStatus) -> StoreResult<()> {
        let read = self.read(live).await?;
        let Some(record) = read.record else {
            // A gateway that holds the live writes the record again, and then notes it.
            self.watched.forget(live, seen);
            return Ok(());
        };
        if OpenEpoch::of(&record).is_none() {
            self.watched.forget(live, seen);
            return Ok(());
        }
        if !seen.is_of(&record) {
            let signs = read.known.streams.signs();
            self.watched.note(&record, signs, self.core.clock.now());
            return Ok(());
        }
        let streams = &read.known.streams;
        let now = self.core.clock.unix();
        let mut is_over = false;
        let next = match seen.awaited {
            // The record lags behind the state if no session is silent, or if one publishes.
            Awaited::Heartbeat => streams
                .silence(record.epoch, seen.last_sign(), now)
                .unwrap_or_else(|| streams.clone()),
            Awaited::Return => match streams.end(record.epoch, now) {
                StreamsEnd::OnAir => streams.clone(),
                StreamsEnd::Write(next) => {
                    is_over = true;
                    next
                }
                StreamsEnd::Over => return self.close_over(&record, seen).await,
            },
        };
        let decided = Decided {
            streams: next,
            epoch: record.epoch,
            must_be_open: true,
            taken_in: TakenIn::Ended,
        };
        if !self.write(live, &read.known, &decided).await? {
            // Another gateway was faster. The next look sees what it wrote.
            self.watched.begin_again(live, self.core.clock.now());
            return Ok(());
        }
        if is_over {
            self.close_over(&record, seen).await?;
        }
        Ok(())
    }

    /// Closes a live whose stream is over, if a stream opened it.
    async fn close_over(&self, record: &LiveRecord, seen: &WatchedStatus) -> StoreResult<()> {
        if record.opened_by == OpenedBy::Media {
            self.close(record).await?;
        }
        self.watched.forget(&record.live, seen);
        Ok(())
    }
}
