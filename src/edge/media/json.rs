//! The servers that send JSON, whatever content type they give it.

use reqwest::Url;
use serde_json::Value;

use super::fields::{Unreadable, credential, event, named, with_query};
use crate::base::secret::Secret;
use crate::base::stream_event::{StreamEvent, StreamNews, StreamSession};

type Read = Result<Option<StreamEvent>, Unreadable>;

fn object(body: &[u8]) -> Result<Value, Unreadable> {
    let value: Value = serde_json::from_slice(body).map_err(|_| Unreadable::NotJson)?;
    if value.is_object() { Ok(value) } else { Err(Unreadable::NotJson) }
}

/// A text at a path of fields, such as `/data/id`.
fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// A time such as `2026-01-13T11:43:41.855Z`, in Unix milliseconds.
fn time(text: Option<&str>) -> Option<u64> {
    let time = humantime::parse_rfc3339(text?).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn unique(name: &'static str, id: Option<&str>) -> Result<StreamSession, Unreadable> {
    Ok(StreamSession::Unique(named(name, id)?.to_owned()))
}

pub(super) fn srs(body: &[u8]) -> Read {
    let body = object(body)?;
    let what = match text(&body, "/action") {
        Some("on_publish") => StreamNews::Publish,
        Some("on_unpublish") => StreamNews::Done,
        _ => return Ok(None),
    };
    let session = unique("client_id", text(&body, "/client_id"))?;
    let mut event = event(session, named("stream", text(&body, "/stream"))?, what);
    event.asks = what == StreamNews::Publish;
    event.app = text(&body, "/app").map(str::to_owned);
    Ok(Some(with_query(event, text(&body, "/param").unwrap_or_default())))
}

/// A second publisher of a stream is let in, publishes, and ends as a player does: `donePlay`.
pub(super) fn node_media_server(body: &[u8]) -> Read {
    let body = object(body)?;
    let what = match text(&body, "/action") {
        Some("prePublish") => StreamNews::Wish,
        Some("postPublish") => StreamNews::Publish,
        Some("donePublish") => StreamNews::Done,
        Some("donePlay") => StreamNews::Left,
        _ => return Ok(None),
    };
    let session = unique("id", text(&body, "/id"))?;
    let mut event = event(session, named("name", text(&body, "/name"))?, what);
    event.asks = matches!(what, StreamNews::Wish | StreamNews::Publish);
    event.app = text(&body, "/app").map(str::to_owned);
    for name in ["token", "streamer_id"] {
        if let Some(value) = body.pointer("/query").and_then(|query| query.get(name)).and_then(Value::as_str) {
            credential(&mut event, name, value);
        }
    }
    Ok(Some(event))
}

/// The server names no session, but the address and port of a connection tell it from the one before.
pub(super) fn oven_media_engine(body: &[u8]) -> Read {
    let body = object(body)?;
    if text(&body, "/request/direction") != Some("incoming") {
        return Ok(None);
    }
    let what = match text(&body, "/request/status") {
        Some("opening") => StreamNews::Publish,
        Some("closing") => StreamNews::Done,
        _ => return Ok(None),
    };
    let address = named("client.address", text(&body, "/client/address"))?;
    let port = body.pointer("/client/port").and_then(Value::as_u64).ok_or(Unreadable::Field("client.port"))?;
    let url = named_url(text(&body, "/request/url"))?;
    let mut path = url.path().trim_matches('/').splitn(2, '/');
    let app = path.next().unwrap_or_default();
    let stream = named("request.url", path.next())?;
    let mut event = event(StreamSession::Reused(format!("{address}:{port}")), stream, what);
    event.asks = what == StreamNews::Publish;
    event.app = Some(app.to_owned());
    event.at = time(text(&body, "/request/time"));
    Ok(Some(with_query(event, url.query().unwrap_or_default())))
}

/// A URL may be longer than a name: it has the token in it.
fn named_url(text: Option<&str>) -> Result<Url, Unreadable> {
    text.and_then(|text| Url::parse(text).ok()).ok_or(Unreadable::Field("request.url"))
}

/// Who publishes a track publishes the stream. A room alone says nothing: viewers start rooms too.
pub(super) fn livekit(body: &[u8]) -> Read {
    let body = object(body)?;
    let read = match text(&body, "/event") {
        Some("track_published") => livekit_participant(&body, StreamNews::Publish),
        Some("participant_left" | "participant_connection_aborted") => livekit_participant(&body, StreamNews::Left),
        Some("ingress_started") => livekit_ingress(&body, StreamNews::Publish),
        Some("ingress_ended") => livekit_ingress(&body, StreamNews::Done),
        _ => return Ok(None),
    };
    let mut event = read?;
    event.at = seconds(body.get("createdAt")).map(|seconds| seconds.saturating_mul(1000));
    Ok(Some(event))
}

fn livekit_participant(body: &Value, what: StreamNews) -> Result<StreamEvent, Unreadable> {
    let session = unique("participant.sid", text(body, "/participant/sid"))?;
    let mut event = event(session, named("room.name", text(body, "/room/name"))?, what);
    event.streamer_id = text(body, "/participant/identity").map(str::to_owned);
    Ok(event)
}

/// An ingress is made once and used for many streams.
fn livekit_ingress(body: &Value, what: StreamNews) -> Result<StreamEvent, Unreadable> {
    let id = named("ingressInfo.ingressId", text(body, "/ingressInfo/ingressId"))?;
    let room = named("ingressInfo.roomName", text(body, "/ingressInfo/roomName"))?;
    let mut event = event(StreamSession::Reused(id.to_owned()), room, what);
    event.streamer_id = text(body, "/ingressInfo/participantIdentity").map(str::to_owned);
    Ok(event)
}

/// A 64-bit number, which the JSON of protocol buffers may write as a text.
fn seconds(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

/// A server has one stream, without a name.
pub(super) fn owncast(body: &[u8]) -> Read {
    let body = object(body)?;
    let what = match text(&body, "/type") {
        Some("STREAM_STARTED") => StreamNews::Publish,
        Some("STREAM_STOPPED") => StreamNews::Done,
        _ => return Ok(None),
    };
    let mut event = event(StreamSession::Reused("stream".into()), "stream", what);
    event.at = time(text(&body, "/eventData/timestamp"));
    Ok(Some(event))
}

/// Mux waits for an encoder to come back before it says `idle`. Rollcall has a grace of its own, so `disconnected` is
/// the end of a session, and `connected` may be its return.
pub(super) fn mux(body: &[u8]) -> Read {
    let body = object(body)?;
    let what = match text(&body, "/type") {
        Some("video.live_stream.active" | "video.live_stream.connected") => StreamNews::Publish,
        Some("video.live_stream.disconnected" | "video.live_stream.idle") => StreamNews::Done,
        _ => return Ok(None),
    };
    let id = named("data.id", text(&body, "/data/id"))?;
    let mut event = event(StreamSession::Reused(id.to_owned()), id, what);
    event.at = time(text(&body, "/created_at"));
    Ok(Some(event))
}

pub(super) fn cloudflare(body: &[u8]) -> Read {
    let body = object(body)?;
    let what = match text(&body, "/data/event_type") {
        Some("live_input.connected") => StreamNews::Publish,
        Some("live_input.disconnected" | "live_input.errored") => StreamNews::Done,
        _ => return Ok(None),
    };
    let id = named("data.input_id", text(&body, "/data/input_id"))?;
    let mut event = event(StreamSession::Reused(id.to_owned()), id, what);
    event.at = time(text(&body, "/data/updated_at"));
    Ok(Some(event))
}

/// The question whether somebody may publish. The hooks say what happens then.
pub(super) fn mediamtx(body: &[u8]) -> Read {
    let body = object(body)?;
    if text(&body, "/action") != Some("publish") {
        return Ok(None);
    }
    let session = unique("id", text(&body, "/id"))?;
    let mut event = event(session, named("path", text(&body, "/path"))?, StreamNews::Wish);
    event.asks = true;
    event.token = text(&body, "/token").filter(|token| !token.is_empty()).map(Secret::new);
    Ok(Some(with_query(event, text(&body, "/query").unwrap_or_default())))
}

/// `{"event":"publish","session":"…","stream":"…","token":"…"?,"streamer_id":"…"?,"at":…?}`.
pub(super) fn generic(body: &[u8]) -> Read {
    let body = object(body)?;
    let what = match text(&body, "/event") {
        Some("publish") => StreamNews::Publish,
        Some("alive") => StreamNews::Alive,
        Some("done") => StreamNews::Done,
        _ => return Ok(None),
    };
    let session = unique("session", text(&body, "/session"))?;
    let mut event = event(session, named("stream", text(&body, "/stream"))?, what);
    event.asks = what == StreamNews::Publish;
    event.token = text(&body, "/token").map(Secret::new);
    event.streamer_id = text(&body, "/streamer_id").map(str::to_owned);
    event.at = body.get("at").and_then(Value::as_u64);
    Ok(Some(event))
}
