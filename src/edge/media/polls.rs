//! Reads the answers of media servers that are asked which sessions publish. Each session that an
//! answer names goes on.

use serde_json::Value;

use super::fields::{Unreadable, event, named};
use crate::base::media_event::{MediaEvent, StreamNews, StreamSession};

/// Reads the answer of SRS to `GET /api/v1/streams`. A session that cannot be read is left out: the
/// others go on.
///
/// # Errors
/// The answer is no list of streams.
pub(crate) fn srs(body: &[u8]) -> Result<Vec<MediaEvent>, Unreadable> {
    let body: Value = serde_json::from_slice(body).map_err(|_| Unreadable::NotJson)?;
    let Some(streams) = body.get("streams").and_then(Value::as_array) else {
        return Err(Unreadable::Field("streams"));
    };
    let mut events = Vec::new();
    for stream in streams {
        if let Ok(Some(event)) = srs_stream(stream) {
            events.push(event);
        }
    }
    Ok(events)
}

/// `None` for a stream without a publisher.
fn srs_stream(stream: &Value) -> Result<Option<MediaEvent>, Unreadable> {
    if stream.pointer("/publish/active") != Some(&Value::Bool(true)) {
        return Ok(None);
    }
    let session = stream.pointer("/publish/cid").and_then(Value::as_str);
    let session = named("publish.cid", session)?;
    let name = named("name", stream.get("name").and_then(Value::as_str))?;
    let session = StreamSession::Unique(session.to_owned());
    let mut event = event(session, name, StreamNews::Alive);
    event.app = stream.get("app").and_then(Value::as_str).map(str::to_owned);
    Ok(Some(event))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_publishers_of_srs_are_read() {
        let body = br#"{"code":0,"server":"vid-1","streams":[
            {"id":"vid-2","name":"42","vhost":"vid-3","app":"live","clients":2,
             "publish":{"active":true,"cid":"c1"}},
            {"id":"vid-4","name":"43","app":"live","publish":{"active":false,"cid":"c0"}},
            {"id":"vid-5","name":"44","app":"live","publish":{"active":true}},
            {"id":"vid-6","name":"45","app":"live"}, 7]}"#;
        let events = srs(body).unwrap();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!(events[0].session, StreamSession::Unique("c1".to_owned()));
        assert_eq!(events[0].stream.reveal(), "42");
        assert_eq!(events[0].app.as_deref(), Some("live"));
        assert_eq!(events[0].news, StreamNews::Alive);
    }

    #[test]
    fn another_answer_is_refused() {
        assert_eq!(srs(b"<html>"), Err(Unreadable::NotJson));
        assert_eq!(srs(b"{\"code\":1}"), Err(Unreadable::Field("streams")));
        assert_eq!(srs(b"{\"streams\":[]}"), Ok(Vec::new()));
    }
}
