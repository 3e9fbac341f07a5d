//! Reads the answers of media servers that are asked which sessions publish. Each session that an
//! answer names goes on. One that cannot be read is left out: the others go on.

use reqwest::Url;
use roxmltree::{Document, Node};
use serde_json::Value;

use crate::base::media_event::{MediaEvent, StreamNews, StreamSession};
use crate::base::media_server::MediaKind;
use crate::features::media::fields::{Unreadable, event, named, split_path};
use crate::features::media::json::{livekit_streamer, text};

/// Reads the answer of a server of this kind, which was asked at `url`.
///
/// # Errors
/// The answer is not what such a server sends.
pub(crate) fn read(kind: MediaKind, url: &Url, body: &[u8]) -> Result<Vec<MediaEvent>, Unreadable> {
    match kind {
        MediaKind::NginxRtmp => nginx_rtmp(body),
        MediaKind::OvenMediaEngine => oven_media_engine(url, body),
        MediaKind::MediaMtx => Ok(events(&list(body, &["items"])?, mediamtx_path)),
        _ => Ok(events(&list(body, &["streams", "clients"])?, srs_publisher)),
    }
}

/// The list that an answer has in one of these fields.
fn list(body: &[u8], fields: &[&'static str]) -> Result<Vec<Value>, Unreadable> {
    let mut body: Value = serde_json::from_slice(body).map_err(|_| Unreadable::NotJson)?;
    for field in fields {
        if let Some(Value::Array(list)) = body.get_mut(field).map(Value::take) {
            return Ok(list);
        }
    }
    Err(Unreadable::Field(fields[0]))
}

fn events(list: &[Value], read: fn(&Value) -> Option<MediaEvent>) -> Vec<MediaEvent> {
    list.iter().filter_map(read).collect()
}

fn goes_on(session: StreamSession, app: Option<&str>, stream: &str) -> Option<MediaEvent> {
    let mut event = event(session, named("", Some(stream)).ok()?, StreamNews::Alive);
    event.app = app.map(str::to_owned);
    Some(event)
}

fn unique(id: Option<&str>) -> Option<StreamSession> {
    let id = named("", id).ok()?;
    Some(StreamSession::Unique(id.to_owned()))
}

/// An element of `/api/v1/streams`, or of `/api/v1/clients`: an edge names its publishers only there.
fn srs_publisher(item: &Value) -> Option<MediaEvent> {
    if item.get("publish") == Some(&Value::Bool(true)) {
        let (app, name) = split_path(text(item, "/url")?);
        let app = app.map(|app| split_path(app).1);
        return goes_on(unique(text(item, "/id"))?, app, name);
    }
    if item.pointer("/publish/active") != Some(&Value::Bool(true)) {
        return None;
    }
    let session = unique(text(item, "/publish/cid"))?;
    goes_on(session, text(item, "/app"), text(item, "/name")?)
}

/// An element of `/v3/paths/list`.
fn mediamtx_path(item: &Value) -> Option<MediaEvent> {
    let is_on = |field| item.get(field) == Some(&Value::Bool(true));
    if !["ready", "available", "online"].into_iter().any(is_on) {
        return None;
    }
    let (app, name) = split_path(text(item, "/name")?);
    goes_on(unique(text(item, "/source/id"))?, app, name)
}

/// The answer names streams, and no sessions. The application stands in the URL only.
fn oven_media_engine(url: &Url, body: &[u8]) -> Result<Vec<MediaEvent>, Unreadable> {
    let mut path = url.path().split('/').skip_while(|part| *part != "apps");
    let app = path.nth(1);
    let names = list(body, &["response"])?;
    let read = |name: &Value| goes_on(StreamSession::Any, app, name.as_str()?);
    Ok(names.iter().filter_map(read).collect())
}

fn nginx_rtmp(body: &[u8]) -> Result<Vec<MediaEvent>, Unreadable> {
    let text = std::str::from_utf8(body).map_err(|_| Unreadable::NotXml)?;
    let document = Document::parse(text).map_err(|_| Unreadable::NotXml)?;
    if !document.root_element().has_tag_name("rtmp") {
        return Err(Unreadable::NotXml);
    }
    let clients = document
        .descendants()
        .filter(|node| node.has_tag_name("client"));
    Ok(clients.filter_map(nginx_client).collect())
}

/// A client of a stream of an application. One that plays is not `publishing`.
fn nginx_client(client: Node<'_, '_>) -> Option<MediaEvent> {
    child(client, "publishing")?;
    let stream = client.parent()?;
    let application = stream.parent()?.parent()?;
    let name_of = |node| child(node, "name")?.text();
    let id = child(client, "id")?.text()?;
    let address = child(client, "address")?.text()?;
    let session = StreamSession::Reused(format!("{id} {address}"));
    let mut event = goes_on(session, name_of(application), name_of(stream)?)?;
    event.address = Some(address.to_owned());
    Some(event)
}

fn child<'a, 'b>(node: Node<'a, 'b>, name: &str) -> Option<Node<'a, 'b>> {
    node.children().find(|child| child.has_tag_name(name))
}

/// A room in which somebody publishes.
pub(crate) struct LiveKitRoom {
    pub(crate) name: String,
    /// Whose the stream is, if the room says so.
    streamer: Option<String>,
}

/// Reads the answer to `ListRooms`.
///
/// # Errors
/// The answer is no list of rooms.
pub(crate) fn livekit_rooms(body: &[u8]) -> Result<Vec<LiveKitRoom>, Unreadable> {
    let read = |room: &Value| {
        let publishers = room.get("num_publishers").or(room.get("numPublishers"))?;
        (publishers.as_u64()? > 0).then_some(())?;
        Some(LiveKitRoom {
            name: text(room, "/name")?.to_owned(),
            streamer: livekit_streamer(text(room, "/metadata")),
        })
    };
    // The field is left out if there is none.
    let rooms = list(body, &["rooms"]).or_else(none_if_empty(body))?;
    Ok(rooms.iter().filter_map(read).collect())
}

/// Reads the answer to `ListParticipants` about a room.
///
/// # Errors
/// The answer is no list of participants.
pub(crate) fn livekit_participants(
    body: &[u8],
    room: &LiveKitRoom,
) -> Result<Vec<MediaEvent>, Unreadable> {
    let read = |participant: &Value| {
        let identity = text(participant, "/identity");
        let is_guest = room.streamer.is_some() && room.streamer.as_deref() != identity;
        let has_tracks = !participant.get("tracks")?.as_array()?.is_empty();
        if is_guest || !has_tracks {
            return None;
        }
        let mut event = goes_on(unique(text(participant, "/sid"))?, None, &room.name)?;
        event.streamer.clone_from(&room.streamer);
        Some(event)
    };
    let participants = list(body, &["participants"]).or_else(none_if_empty(body))?;
    Ok(participants.iter().filter_map(read).collect())
}

/// An empty list may be left out of an answer.
fn none_if_empty(body: &[u8]) -> impl FnOnce(Unreadable) -> Result<Vec<Value>, Unreadable> {
    let is_empty = body.trim_ascii() == b"{}";
    move |why| if is_empty { Ok(Vec::new()) } else { Err(why) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use MediaKind::{MediaMtx, NginxRtmp, OvenMediaEngine, Srs};

    const OME: &str = "http://h:8081/v1/vhosts/default/apps/app/streams";

    /// What an answer names: the session, the application and the stream.
    fn told(events: Vec<MediaEvent>) -> Vec<String> {
        let line = |event: MediaEvent| {
            assert_eq!(event.news, StreamNews::Alive);
            let app = event.app.unwrap_or_default();
            format!("{} {app}/{}", event.session.as_str(), event.stream.reveal())
        };
        events.into_iter().map(line).collect()
    }

    #[test]
    fn the_publishers_that_answers_name_are_read() {
        let url = Url::parse(OME).unwrap();
        for (kind, body, expected) in [
            (
                // SRS 5 and 6.
                Srs,
                r#"{"code":0,"server":"vid-1","streams":[
                {"id":"vid-2","name":"42","vhost":"vid-3","app":"live","clients":2,
                 "publish":{"active":true,"cid":"c1"}},
                {"id":"vid-4","name":"43","app":"live","publish":{"active":false,"cid":"c0"}},
                {"id":"vid-5","name":"44","app":"live","publish":{"active":true}},
                {"id":"vid-6","name":"45","app":"live"}, 7]}"#,
                vec!["c1 live/42"],
            ),
            (
                Srs,
                r#"{"code":0,"server":"vid-1","clients":[
                {"id":"c1","name":"42","url":"/live/42","type":"fmle-publish","publish":true},
                {"id":"c2","name":"42","url":"/live/42","type":"rtmp-play","publish":false},
                {"id":"c3","name":"43","url":"v.example.org/live/43","publish":true}]}"#,
                vec!["c1 live/42", "c3 live/43"],
            ),
            (
                MediaMtx,
                r#"{"itemCount":3,"pageCount":1,"items":[
                {"name":"live/42","source":{"type":"rtmpConn","id":"u-1"},"ready":true},
                {"name":"43","source":{"type":"webRTCSession","id":"u-2"},"available":true},
                {"name":"44","source":null,"ready":false}]}"#,
                vec!["u-1 live/42", "u-2 /43"],
            ),
            (
                OvenMediaEngine,
                r#"{"message":"OK","response":["42","43"],"statusCode":200}"#,
                vec![" app/42", " app/43"],
            ),
            (
                NginxRtmp,
                "<?xml version=\"1.0\"?><rtmp><server><application><name>live</name><live><stream>\
                 <name>42</name><client><id>3</id><address>::1</address><active/></client><client>\
                 <id>1</id><address>127.0.0.1</address><publishing/><active/></client><publishing/>\
                 </stream><nclients>2</nclients></live></application></server></rtmp>",
                vec!["1 127.0.0.1 live/42"],
            ),
        ] {
            let events = read(kind, &url, body.as_bytes()).unwrap();
            assert_eq!(told(events), expected, "{kind:?}");
        }
    }

    #[test]
    fn the_publishers_of_livekit_are_read_room_by_room() {
        let rooms = br#"{"rooms":[{"sid":"RM_1","name":"42","num_publishers":1,
            "metadata":"{\"streamer_id\":\"s1\"}"},{"name":"43","num_publishers":0}]}"#;
        let rooms = livekit_rooms(rooms).unwrap();
        assert_eq!(rooms.len(), 1);
        let participants = br#"{"participants":[
            {"sid":"PA_1","identity":"s1","tracks":[{"sid":"TR_1"}]},
            {"sid":"PA_2","identity":"guest","tracks":[{"sid":"TR_2"}]},
            {"sid":"PA_3","identity":"s1","tracks":[]}]}"#;
        let events = livekit_participants(participants, &rooms[0]).unwrap();
        assert_eq!(events[0].streamer.as_deref(), Some("s1"));
        assert_eq!(told(events), ["PA_1 /42"]);
        assert!(livekit_rooms(b"{}").unwrap().is_empty());
    }

    #[test]
    fn another_answer_is_refused() {
        let url = Url::parse(OME).unwrap();
        for (kind, body, why) in [
            (Srs, "<html>", Unreadable::NotJson),
            (Srs, r#"{"code":1}"#, Unreadable::Field("streams")),
            (MediaMtx, r#"{"error":"no"}"#, Unreadable::Field("items")),
            (
                OvenMediaEngine,
                r#"{"statusCode":401}"#,
                Unreadable::Field("response"),
            ),
            (NginxRtmp, "{}", Unreadable::NotXml),
            (NginxRtmp, "<html></html>", Unreadable::NotXml),
        ] {
            assert_eq!(read(kind, &url, body.as_bytes()), Err(why), "{kind:?}");
        }
        assert_eq!(read(Srs, &url, b"{\"streams\":[]}"), Ok(Vec::new()));
    }
}
