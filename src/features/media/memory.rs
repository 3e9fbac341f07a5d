//! The streams of lives in the embedded store.

use crate::features::media::memory_records::StreamRecords;
use std::time::Duration;

use async_trait::async_trait;

use crate::base::clock::millis;
use crate::base::ids::LiveId;
use crate::features::media::store::{
    KnownStreams, Publishing, StreamStore, StreamsReply, WriteStreams,
};
use crate::store::memory::MemoryStore;
use crate::store::memory::expiring::ExpiringValue;
use crate::store::{Happened, StoreResult};

#[async_trait]
impl StreamStore for MemoryStore {
    async fn load_streams(&self, live: &LiveId) -> StoreResult<KnownStreams> {
        let now = self.now();
        Ok(self.states.lock::<StreamRecords>().known(live, now))
    }

    async fn write_streams(&self, request: &WriteStreams) -> StoreResult<StreamsReply> {
        let now = self.now();
        let live = &request.live;
        let mut lives = self.lives.lock();
        let mut streams = self.states.lock::<StreamRecords>();
        let known = streams.known(live, now);
        if known.version != request.seen {
            return Ok(StreamsReply::Changed);
        }
        let mut is_open = false;
        if let Some(kept) = lives.kept.get_mut(live) {
            is_open = kept.record.is_open_in(request.epoch);
            if is_open {
                kept.record.stream = request.streams.status(request.epoch);
                if let Some((change, server)) = &request.change {
                    kept.note(Happened::Stream(*change, server.clone()), now);
                }
            }
        }
        if request.must_be_open && !is_open {
            return Ok(StreamsReply::Over);
        }
        streams.forget(now);
        let kept = ExpiringValue {
            until: now + millis(request.lifetime()),
            value: KnownStreams {
                version: now.max(known.version + 1),
                streams: request.streams.clone(),
            },
        };
        streams.streams.insert(live.clone(), kept);
        drop(streams);
        let record = lives.kept.get(live).map(|kept| kept.record.clone());
        drop(lives);
        if let Some(message) = &request.message {
            self.publish_on_live(live, message);
        }
        Ok(StreamsReply::Written(record.map(Box::new)))
    }

    async fn note_publishing(
        &self,
        digest: &str,
        publishing: &Publishing,
        lifetime: Duration,
    ) -> StoreResult<()> {
        let now = self.now();
        let mut streams = self.states.lock::<StreamRecords>();
        streams.forget(now);
        let kept = ExpiringValue {
            until: now + millis(lifetime),
            value: publishing.clone(),
        };
        streams.keys.insert(digest.to_owned(), kept);
        Ok(())
    }

    async fn find_publishing(&self, digest: &str) -> StoreResult<Option<Publishing>> {
        let now = self.now();
        match self.states.lock::<StreamRecords>().keys.get(digest) {
            Some(kept) if kept.until > now => Ok(Some(kept.value.clone())),
            _ => Ok(None),
        }
    }
}
