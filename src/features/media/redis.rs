//! The calls on the streams of lives. Their state lies beside the record of the live, in its slot.

use crate::features::media::scripts;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use crate::base::ids::LiveId;
use crate::features::media::store::{
    KnownStreams, Publishing, StreamStore, StreamsReply, WriteStreams,
};
use crate::store::redis::live_stream::status_word;
use crate::store::redis::lives::record;
use crate::store::redis::reply::{Reply, nonsense, number, text};
use crate::store::redis::{RedisCalls, args};
use crate::store::{MAX_RECORD_FIELDS, StoreResult};

#[async_trait]
impl StreamStore for RedisCalls {
    async fn load_streams(&self, live: &LiveId) -> StoreResult<KnownStreams> {
        let key = self.keys().streams(live);
        let fields = self
            .router
            .command("HMGET", args![key, "version", "state"])
            .await?;
        let mut fields = Reply::of(fields)?.pieces().into_iter();
        let version = fields.next().unwrap_or(Value::Null);
        if version.is_null() {
            return Ok(KnownStreams::default());
        }
        let state = text(fields.next().unwrap_or(Value::Null))?;
        // A state that another program garbled is replaced by the next one.
        let streams = serde_json::from_str(&state).unwrap_or_default();
        Ok(KnownStreams {
            version: number(&version)?,
            streams,
        })
    }

    async fn write_streams(&self, request: &WriteStreams) -> StoreResult<StreamsReply> {
        let live = &request.live;
        // Strings and numbers only: this does not fail.
        let state = serde_json::to_string(&request.streams).unwrap_or_default();
        let status = match request.streams.status(request.epoch) {
            Some(status) => status_word(&status),
            None => String::new(),
        };
        let event = match &request.change {
            Some((change, server)) => format!("{} {server}", change.kind()),
            None => String::new(),
        };
        let must_be_open = if request.must_be_open { "1" } else { "" };
        let mut args = args![
            request.seen,
            state,
            request.lifetime().as_secs(),
            request.epoch,
            must_be_open,
            status,
            event,
            MAX_RECORD_FIELDS
        ];
        args.extend(self.publish_args(live, request.message.as_deref().unwrap_or_default()));
        let keys = vec![self.keys().streams(live), self.keys().live(live)];
        let mut reply = self
            .change(live, &scripts::WRITE_STREAMS, keys, args)
            .await?;
        match reply.text()?.as_str() {
            "written" => {
                let record = record(live, reply)?;
                Ok(StreamsReply::Written(record.map(Box::new)))
            }
            "changed" => Ok(StreamsReply::Changed),
            "over" => Ok(StreamsReply::Over),
            other => Err(nonsense(format!("a write of streams answered {other}"))),
        }
    }

    async fn note_publishing(
        &self,
        digest: &str,
        publishing: &Publishing,
        lifetime: Duration,
    ) -> StoreResult<()> {
        let key = self.keys().stream_key(digest);
        let args = args![key, publishing.to_text(), "EX", lifetime.as_secs()];
        self.router.command("SET", args).await?;
        Ok(())
    }

    async fn find_publishing(&self, digest: &str) -> StoreResult<Option<Publishing>> {
        let key = self.keys().stream_key(digest);
        let found = self.router.command("GET", args![key]).await?;
        if found.is_null() {
            return Ok(None);
        }
        Ok(Publishing::from_text(&text(found)?))
    }
}
