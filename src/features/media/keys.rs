//! The keys of streams whose names are stream keys. The state of the streams of a live lies beside
//! the record, see [`crate::store::redis::keys::STREAMS`].

use async_trait::async_trait;
use fred::types::Value;

use super::store::Publishing;
use crate::store::redis::args;
use crate::store::redis::erasing::{ErasesKeys, Erasing, FamilyEraser, Look, Suspect};
use crate::store::redis::family::{Family, KeyType::Text, Names, families};
use crate::store::redis::keys::Keys;
use crate::store::{PersonalData, StoreResult};

families! {
    /// The live to which a session publishes with a stream key, or for a minute the live and the streamer
    /// that a media server was told of a session, by a digest of the server, the session and the stream.
    STREAM_KEY, fn stream_key(digest: &str) =
        Family::new(Text, "rollcall:stream-key:<digest>").names(Names::Otherwise);
}

pub(crate) static ERASERS: &[FamilyEraser] = &[(&STREAM_KEY, &OfStreamKeys)];

struct OfStreamKeys;

#[async_trait]
impl ErasesKeys for OfStreamKeys {
    fn look(&self, key: &Suspect, _: &Erasing<'_>) -> Option<Look> {
        Some(Look::Read(("GET", args![key.key])))
    }

    async fn act(&self, key: &Suspect, answer: Value, of: &mut Erasing<'_>) -> StoreResult<()> {
        let text = answer.into_string().unwrap_or_default();
        let Some(found) = Publishing::from_text(&text) else {
            return Ok(());
        };
        let is_users = match found.publisher {
            Some(publisher) if publisher.streamer == *of.user => true,
            _ => {
                // A live without a record has not begun yet, or is over: its key ends by itself.
                let record = of.calls.keys().live(&found.live);
                of.is_user(&of.send("HGET", args![record, "streamer_id"]).await?)
            }
        };
        if is_users {
            let gone = of.delete(&key.key).await?;
            of.step.add(PersonalData::StreamKeys, gone);
        }
        Ok(())
    }
}
