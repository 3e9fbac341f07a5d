//! The servers that send JSON and name sessions in ways of their own.

use reqwest::Url;
use serde_json::Value;

use crate::base::media_event::{MediaEvent, StreamNews, StreamSession};
use crate::features::media::fields::{Unreadable, event, named, read_credential, read_query};

type ParsedEvent = Result<Option<MediaEvent>, Unreadable>;

pub(crate) fn object(body: &[u8]) -> Result<Value, Unreadable> {
    match serde_json::from_slice(body) {
        Ok(value @ Value::Object(_)) => Ok(value),
        _ => Err(Unreadable::NotJson),
    }
}

/// A text at a path of fields, such as `/data/id`.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// A time such as `2026-01-13T11:43:41.855Z` or `2026-01-13T12:43:41.855+01:00`, in Unix
/// milliseconds.
pub(crate) fn time(text: Option<&str>) -> Option<u64> {
    let text = text?;
    let Some(sign) = text.rfind(['+', '-']).filter(|place| *place > DATE.len()) else {
        return unix_millis(text);
    };
    let local = unix_millis(&format!("{}Z", &text[..sign]))?;
    let mut offset = text[sign + 1..].splitn(2, ':');
    let hours: u64 = offset.next()?.parse().ok()?;
    let minutes: u64 = offset.next()?.parse().ok()?;
    let ahead = hours.checked_mul(60)?.checked_add(minutes)?;
    let ahead = ahead.checked_mul(60_000)?;
    if text[sign..].starts_with('+') {
        local.checked_sub(ahead)
    } else {
        local.checked_add(ahead)
    }
}

/// A date has dashes, too.
const DATE: &str = "2026-01-13";

fn unix_millis(text: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_millis()).ok()
}

fn unique(field: &'static str, id: Option<&str>) -> Result<StreamSession, Unreadable> {
    Ok(StreamSession::Unique(named(field, id)?.to_owned()))
}

/// A publisher who comes back within half a minute from the same address resumes the session: it gets
/// another `id`, keeps the `createtime` from before, and only one `donePublish` comes for both. So the
/// address and the `createtime` name the session.
///
/// A second publisher of a stream is let in, and ends as a player does: `donePlay`.
pub(crate) fn node_media_server(body: &[u8]) -> ParsedEvent {
    let body = object(body)?;
    let news = match text(&body, "/action") {
        Some("prePublish") => StreamNews::Request,
        Some("postPublish") => StreamNews::Publish,
        Some("donePublish") => StreamNews::Done,
        Some("donePlay") => StreamNews::Left,
        _ => return Ok(None),
    };
    let ip = named("ip", text(&body, "/ip"))?;
    let address = match ip.rsplit_once(':') {
        Some((address, _port)) => address,
        None => ip,
    };
    let Some(created) = body.get("createtime").and_then(Value::as_u64) else {
        return Err(Unreadable::Field("createtime"));
    };
    let session = StreamSession::Unique(format!("{address} {created}"));
    let mut event = event(session, named("name", text(&body, "/name"))?, news);
    event.address = Some(address.to_owned());
    event.asks = matches!(news, StreamNews::Request | StreamNews::Publish);
    event.app = text(&body, "/app").map(str::to_owned);
    for name in ["token", "streamer_id"] {
        let value = text(&body, &format!("/query/{name}"));
        read_credential(&mut event, name, value.unwrap_or_default());
    }
    Ok(Some(event))
}

/// The server names no session, but the address and port of a connection tell it from the one
/// before. The end of WHIP has the port of another connection, the one that asked for the end.
pub(crate) fn oven_media_engine(body: &[u8]) -> ParsedEvent {
    let body = object(body)?;
    if text(&body, "/request/direction") != Some("incoming") {
        return Ok(None);
    }
    let news = match text(&body, "/request/status") {
        Some("opening") => StreamNews::Publish,
        Some("closing") => StreamNews::Done,
        _ => return Ok(None),
    };
    let address = named("client.address", text(&body, "/client/address"))?;
    let Some(port) = body.pointer("/client/port").and_then(Value::as_u64) else {
        return Err(Unreadable::Field("client.port"));
    };
    let protocol = text(&body, "/request/protocol").unwrap_or_default();
    let session = StreamSession::Reused(if protocol.eq_ignore_ascii_case("webrtc") {
        address.to_owned()
    } else {
        format!("{address}:{port}")
    });
    let url = url(text(&body, "/request/url"))?;
    let mut path = url.path().trim_matches('/').splitn(2, '/');
    let app = path.next().unwrap_or_default();
    let stream = named("request.url", path.next())?;
    let mut event = event(session, stream, news);
    event.asks = news == StreamNews::Publish;
    event.app = Some(app.to_owned());
    event.address = Some(address.to_owned());
    event.at = time(text(&body, "/request/time"));
    read_query(&mut event, url.query().unwrap_or_default());
    Ok(Some(event))
}

/// A URL may be longer than a name: it has the token in it.
fn url(text: Option<&str>) -> Result<Url, Unreadable> {
    match Url::parse(text.unwrap_or_default()) {
        Ok(url) => Ok(url),
        Err(_) => Err(Unreadable::Field("request.url")),
    }
}

/// Who publishes a track publishes the stream. A room alone says nothing: viewers start rooms too.
pub(crate) fn livekit(body: &[u8]) -> ParsedEvent {
    let body = object(body)?;
    let read = match text(&body, "/event") {
        Some("track_published") => livekit_participant(&body, StreamNews::Publish),
        Some("participant_left" | "participant_connection_aborted") => {
            livekit_participant(&body, livekit_end(&body))
        }
        Some("ingress_started") => livekit_ingress(&body, StreamNews::Publish).map(Some),
        Some("ingress_ended") => livekit_ingress(&body, StreamNews::Done).map(Some),
        Some("room_finished") => livekit_room(&body).map(Some),
        _ => return Ok(None),
    };
    let Some(mut event) = read? else {
        return Ok(None);
    };
    event.at = number(body.get("createdAt")).map(|seconds| seconds.saturating_mul(1_000));
    Ok(Some(event))
}

/// The end of a participant who published is remembered, in case it arrives before the beginning.
fn livekit_end(body: &Value) -> StreamNews {
    match body.pointer("/participant/isPublisher") {
        Some(Value::Bool(true)) => StreamNews::Done,
        _ => StreamNews::Left,
    }
}

/// Several may publish in a room. Its metadata, which only a back end writes, may say whose the
/// stream is; then all others are guests, who begin nothing.
fn livekit_participant(body: &Value, news: StreamNews) -> Result<Option<MediaEvent>, Unreadable> {
    let session = unique("participant.sid", text(body, "/participant/sid"))?;
    let room = named("room.name", text(body, "/room/name"))?;
    let mut event = event(session, room, news);
    event.streamer = livekit_streamer(text(body, "/room/metadata"));
    let identity = text(body, "/participant/identity");
    let is_guest = event.streamer.is_some() && event.streamer.as_deref() != identity;
    Ok((!is_guest).then_some(event))
}

/// The field `streamer_id` of a room's metadata, if that is a JSON object.
pub(crate) fn livekit_streamer(metadata: Option<&str>) -> Option<String> {
    let metadata: Value = serde_json::from_str(metadata?).ok()?;
    text(&metadata, "/streamer_id").map(str::to_owned)
}

/// Nobody is in the room any more.
fn livekit_room(body: &Value) -> Result<MediaEvent, Unreadable> {
    let room = named("room.name", text(body, "/room/name"))?;
    Ok(event(StreamSession::Any, room, StreamNews::AllDone))
}

/// An ingress is made once and used for many streams. Its state says when the present one began; if
/// it does not, the latest message about the ingress holds.
fn livekit_ingress(body: &Value, news: StreamNews) -> Result<MediaEvent, Unreadable> {
    let id = text(body, "/ingressInfo/ingressId");
    let id = named("ingressInfo.ingressId", id)?;
    let room = named("ingressInfo.roomName", text(body, "/ingressInfo/roomName"))?;
    let session = match number(body.pointer("/ingressInfo/state/startedAt")) {
        None | Some(0) => StreamSession::Reused(id.to_owned()),
        Some(started) => StreamSession::Unique(format!("{id} {started}")),
    };
    let mut event = event(session, room, news);
    event.streamer = text(body, "/ingressInfo/participantIdentity").map(str::to_owned);
    Ok(event)
}

/// A 64-bit number, which the JSON of protocol buffers may write as a text.
fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}
