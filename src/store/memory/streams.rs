//! The streams of lives in the embedded store.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use super::stream_records::Kept;
use crate::base::clock::millis;
use crate::base::ids::LiveId;
use crate::store::{
    Happened, KnownStreams, Publishing, StoreResult, StreamStore, StreamsReply, WriteStreams,
};

#[async_trait]
impl StreamStore for MemoryStore {
    async fn load_streams(&self, live: &LiveId) -> StoreResult<KnownStreams> {
        let now = self.now();
        Ok(self.lives.lock().streams.known(live, now))
    }

    async fn write_streams(&self, request: &WriteStreams) -> StoreResult<StreamsReply> {
        let now = self.now();
        let live = &request.live;
        let mut lives = self.lives.lock();
        let known = lives.streams.known(live, now);
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
        lives.streams.forget(now);
        let kept = Kept {
            until: now + millis(request.lifetime()),
            value: KnownStreams {
                version: now.max(known.version + 1),
                streams: request.streams.clone(),
            },
        };
        lives.streams.streams.insert(live.clone(), kept);
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
        let mut lives = self.lives.lock();
        lives.streams.forget(now);
        let kept = Kept {
            until: now + millis(lifetime),
            value: publishing.clone(),
        };
        lives.streams.keys.insert(digest.to_owned(), kept);
        Ok(())
    }

    async fn find_publishing(&self, digest: &str) -> StoreResult<Option<Publishing>> {
        let now = self.now();
        match self.lives.lock().streams.keys.get(digest) {
            Some(kept) if kept.until > now => Ok(Some(kept.value.clone())),
            _ => Ok(None),
        }
    }
}
