//! What the adapters make of requests. Those of nginx-rtmp and node-media-server were recorded from real servers with
//! a real ffmpeg; the others follow the manuals and sources of their servers.

use MediaKind::{
    Cloudflare, Generic, LiveKit, MediaMtx, Mux, NginxRtmp, NodeMediaServer, OvenMediaEngine,
    Owncast, Srs,
};
use StreamNews::{Alive, Done, Left, Publish, Request};

use crate::base::media_event::{MediaEvent, StreamNews, StreamSession};
use crate::base::media_server::MediaKind;
use crate::config::Mapping;
use crate::features::media::Unreadable;

mod recipes;
mod signatures;

fn read(kind: MediaKind, body: &[u8]) -> Result<Option<MediaEvent>, Unreadable> {
    crate::features::media::read(kind, &Mapping::of(kind), None, body)
}

fn event(kind: MediaKind, body: &str) -> MediaEvent {
    read(kind, body.as_bytes())
        .unwrap_or_else(|why| panic!("{why}: {body}"))
        .unwrap_or_else(|| panic!("{body}"))
}

fn ignored(kind: MediaKind, body: &str) {
    assert_eq!(read(kind, body.as_bytes()), Ok(None), "{body}");
}

fn session(event: &MediaEvent) -> &str {
    event.session.as_str()
}

fn token(event: &MediaEvent) -> Option<&str> {
    event.token.as_ref().map(|token| token.reveal())
}

/// A request, and what it says: the news, the session, the stream, and the token.
type Row = (
    &'static str,
    StreamNews,
    &'static str,
    &'static str,
    Option<&'static str>,
);

fn holds(kind: MediaKind, rows: &[Row]) {
    for (body, what, of, stream, by) in rows {
        let event = event(kind, body);
        assert_eq!(event.news, *what, "{body}");
        assert_eq!(session(&event), *of, "{body}");
        assert_eq!(event.stream.reveal(), *stream, "{body}");
        assert_eq!(token(&event), *by, "{body}");
        assert_eq!(
            event.asks,
            matches!(what, Request | Publish) && asks(kind, body),
            "{body}"
        );
    }
}

/// Who waits for an answer before a publisher is let in.
fn asks(kind: MediaKind, body: &str) -> bool {
    match kind {
        LiveKit | Owncast | Mux | Cloudflare => false,
        MediaMtx => body.starts_with('{'),
        _ => true,
    }
}

/// What a recording says, request by request; players and unknown events are left out.
fn told(kind: MediaKind, recording: &str) -> Vec<String> {
    let read =
        |line: &str| read(kind, line.as_bytes()).unwrap_or_else(|why| panic!("{why}: {line}"));
    let line = |event: MediaEvent| {
        format!(
            "{:?} {} {}",
            event.news,
            session(&event),
            event.stream.reveal()
        )
    };
    recording.lines().filter_map(read).map(line).collect()
}

#[test]
fn nginx_rtmp_as_recorded() {
    let told = told(NginxRtmp, include_str!("tests/recorded/nginx-rtmp.txt"));
    let expected = [
        "Publish 1 127.0.0.1 42",
        "Done 1 127.0.0.1 42",
        "Publish 9 127.0.0.1 43",
        "Done 9 127.0.0.1 43",
        "Publish 13 127.0.0.1 44",
        "Done 13 127.0.0.1 44",
        // A second publisher is refused by nginx. Its end names the stream that goes on.
        "Publish 17 127.0.0.1 45",
        "Publish 19 127.0.0.1 45",
        "Done 19 127.0.0.1 45",
        "Done 17 127.0.0.1 45",
        // The worker is killed, and nobody says so.
        "Publish 25 127.0.0.1 46",
    ];
    assert_eq!(told, expected);
    let first = include_str!("tests/recorded/nginx-rtmp.txt")
        .lines()
        .next()
        .unwrap();
    holds(
        NginxRtmp,
        &[(first, Publish, "1 127.0.0.1", "42", Some("abc"))],
    );
    let first = event(NginxRtmp, first);
    assert_eq!(first.address.as_deref(), Some("127.0.0.1"));
    assert_eq!(first.instance.as_deref(), Some("127.0.0.1:11935"));
    let update = "app=live&clientid=17&call=update_publish&time=30&timestamp=29980&name=45";
    holds(NginxRtmp, &[(update, Alive, "17", "45", None)]);
}

#[test]
fn players_of_nginx_rtmp_say_nothing_of_a_stream() {
    for call in [
        "play",
        "play_done",
        "update_play",
        "done",
        "connect",
        "a_later_one",
    ] {
        ignored(
            NginxRtmp,
            &format!("app=live&addr=127.0.0.1&clientid=3&call={call}&name=42&start=4294965296"),
        );
    }
}

#[test]
fn a_publisher_who_writes_fields_of_nginx_is_refused() {
    for (body, field) in [
        (
            "app=live&clientid=1&call=publish&name=42&type=live&call=publish_done",
            "call",
        ),
        (
            "app=live&tcurl=rtmp://h/x&clientid=17&clientid=1&call=publish_done&name=42",
            "clientid",
        ),
        (
            "app=live&clientid=1&call=publish&name=42&type=live&name=7",
            "name",
        ),
    ] {
        let read = read(NginxRtmp, body.as_bytes());
        assert_eq!(read, Err(Unreadable::Twice(field)), "{body}");
    }
    let body = "app=live&clientid=1&call=publish&name=42&type=live&token=a&token=b";
    holds(NginxRtmp, &[(body, Publish, "1", "42", Some("a"))]);
}

#[test]
fn node_media_server_as_recorded() {
    let told = told(
        NodeMediaServer,
        include_str!("tests/recorded/node-media-server.jsonl"),
    );
    let expected = [
        "Request 127.0.0.1 1795572365518 42",
        "Publish 127.0.0.1 1795572365518 42",
        // A player.
        "Left 127.0.0.1 1795572367486 42",
        "Request 127.0.0.1 1795572371343 43",
        "Publish 127.0.0.1 1795572371343 43",
        "Request 127.0.0.1 1795572374348 44",
        "Publish 127.0.0.1 1795572374348 44",
        "Done 127.0.0.1 1795572365518 42",
        "Done 127.0.0.1 1795572371343 43",
        // The second publisher of 45 ends as a player does.
        "Publish 127.0.0.1 1795572417367 45",
        "Request 127.0.0.1 1795572419360 45",
        "Publish 127.0.0.1 1795572419360 45",
        "Left 127.0.0.1 1795572419360 45",
    ];
    assert_eq!(told, expected);
    let first = include_str!("tests/recorded/node-media-server.jsonl")
        .lines()
        .next()
        .unwrap();
    holds(
        NodeMediaServer,
        &[(first, Request, "127.0.0.1 1795572365518", "42", Some("abc"))],
    );
}

#[test]
fn a_publisher_who_comes_back_to_node_media_server_goes_on_with_the_session() {
    let body = |action: &str, id: &str, ip: &str, created: u64| {
        let names = r#""app":"live","name":"42","query":{}"#;
        let body = format!(
            r#"{{"id":"{id}","ip":"{ip}",{names},"createtime":{created},"action":"{action}"}}"#
        );
        event(NodeMediaServer, &body)
    };
    let began = body("postPublish", "a", "::1:41888", 7);
    // It asks as a new connection, and then has the time of the first one, which never ends.
    let asks = body("prePublish", "b", "::1:41900", 9);
    let resumed = body("postPublish", "b", "::1:41900", 7);
    let ended = body("donePublish", "b", "::1:41900", 7);
    assert_eq!(resumed, began);
    assert_eq!(ended.session, began.session);
    assert_ne!(asks.session, began.session);
    let stranger = body("postPublish", "c", "192.0.2.7:41888", 7);
    assert_ne!(stranger.session, began.session);
}

#[test]
fn srs() {
    let published = concat!(
        r#"{"server_id":"vid-1","action":"on_publish","client_id":"9308h583","ip":"1.2.3.4","#,
        r#""vhost":"v","app":"live","tcUrl":"rtmp://h/live","stream":"42","param":"?token=abc&a=b","#,
        r#""stream_id":"vid-2"}"#,
    );
    let ended =
        r#"{"action":"on_unpublish","client_id":"9308h583","app":"live","stream":"42","param":""}"#;
    holds(
        Srs,
        &[
            (published, Publish, "9308h583", "42", Some("abc")),
            (ended, Done, "9308h583", "42", None),
        ],
    );
    let published = event(Srs, published);
    assert_eq!(published.instance.as_deref(), Some("vid-1"));
    assert_eq!(published.address.as_deref(), Some("1.2.3.4"));
    ignored(Srs, r#"{"action":"on_play","client_id":"1","stream":"42"}"#);
    let of_srs_3 = r#"{"action":"on_unpublish","client_id":105,"app":"live","stream":"42"}"#;
    holds(Srs, &[(of_srs_3, Done, "105", "42", None)]);
}

#[test]
fn oven_media_engine_tells_connections_apart_by_their_port() {
    let body = |port: u16, direction: &str, status: &str| {
        let client = format!(r#"{{"address":"1.2.3.4","port":{port}}}"#);
        let url = "rtmp://h:1935/app/42?token=abc";
        let how = format!(
            r#""direction":"{direction}","protocol":"rtmp","status":"{status}","url":"{url}""#
        );
        format!(r#"{{"client":{client},"request":{{{how},"time":"2026-05-12T13:45:00.000Z"}}}}"#)
    };
    let first = event(OvenMediaEngine, &body(1, "incoming", "opening"));
    assert_eq!(
        (first.news, first.stream.reveal(), first.app.as_deref()),
        (Publish, "42", Some("app"))
    );
    assert_eq!(token(&first), Some("abc"));
    assert_eq!(first.at, Some(1_778_593_500_000));
    let late = event(OvenMediaEngine, &body(2, "incoming", "closing"));
    assert_eq!(late.news, Done);
    assert_ne!(first.session, late.session);
    // WHIP ends by a request of its own, which has a port of its own.
    let whip = |port, status| {
        let body = body(port, "incoming", status)
            .replace(r#""protocol":"rtmp""#, r#""protocol":"webrtc""#);
        event(OvenMediaEngine, &body).session
    };
    assert_eq!(whip(1, "opening"), whip(2, "closing"));
    ignored(OvenMediaEngine, &body(1, "outgoing", "opening"));
}

#[test]
fn livekit_follows_tracks_and_ingresses_and_not_rooms() {
    let track = concat!(
        r#"{"event":"track_published","room":{"name":"42","sid":"RM_1","#,
        r#""metadata":"{\"streamer_id\":\"s1\"}"},"#,
        r#""participant":{"identity":"s1","sid":"PA_1"},"id":"EV_1","createdAt":"1795572365"}"#,
    );
    let left = r#"{"event":"participant_left","room":{"name":"42"},"participant":{"identity":"s1","sid":"PA_1"}}"#;
    let begun = r#"{"event":"ingress_started","ingressInfo":{"ingressId":"IN_1","roomName":"42"},"createdAt":7}"#;
    let ended = r#"{"event":"ingress_ended","ingressInfo":{"ingressId":"IN_1","roomName":"42"}}"#;
    holds(
        LiveKit,
        &[
            (track, Publish, "PA_1", "42", None),
            (left, Left, "PA_1", "42", None),
            (begun, Publish, "IN_1", "42", None),
            (ended, Done, "IN_1", "42", None),
        ],
    );
    ignored(
        LiveKit,
        &track.replace(r#""identity":"s1""#, r#""identity":"guest""#),
    );
    let nobodys = track.replace("streamer_id", "topic");
    assert_eq!(event(LiveKit, &nobodys).streamer, None);
    let track = event(LiveKit, track);
    assert_eq!(
        (track.streamer.as_deref(), track.at),
        (Some("s1"), Some(1_795_572_365_000))
    );
    let publisher = r#""participant":{"identity":"s1","sid":"PA_1","isPublisher":true}"#;
    let left = format!(r#"{{"event":"participant_left","room":{{"name":"42"}},{publisher}}}"#);
    assert_eq!(
        event(LiveKit, &left).news,
        Done,
        "remembered if it comes early"
    );
    let ingress = |what: &str, started: &str| {
        let state = format!(r#""state":{{"startedAt":"{started}"}}"#);
        let info = format!(r#""ingressInfo":{{"ingressId":"IN_1","roomName":"42",{state}}}"#);
        event(LiveKit, &format!(r#"{{"event":"{what}",{info}}}"#)).session
    };
    let first = ingress("ingress_started", "1795572365000000001");
    assert_eq!(ingress("ingress_ended", "1795572365000000001"), first);
    let second = ingress("ingress_started", "1795572365000000002");
    assert_ne!(second, first, "another stream in the same second");
    let finished = r#"{"event":"room_finished","room":{"name":"42","sid":"RM_1"}}"#;
    assert_eq!(event(LiveKit, finished).news, StreamNews::AllDone);
    ignored(
        LiveKit,
        r#"{"event":"room_started","room":{"name":"42","sid":"RM_1"}}"#,
    );
    ignored(
        LiveKit,
        r#"{"event":"participant_joined","room":{"name":"42"},"participant":{"sid":"PA_2"}}"#,
    );
}

#[test]
fn servers_without_sessions() {
    let rows = |kind, publish: &'static str, done: &'static str, id: &'static str| {
        holds(
            kind,
            &[(publish, Publish, id, id, None), (done, Done, id, id, None)],
        );
        assert!(matches!(
            event(kind, publish).session,
            StreamSession::Reused(_)
        ));
    };
    rows(
        Owncast,
        r#"{"type":"STREAM_STARTED","eventData":{"id":"x","timestamp":"2026-05-12T13:45:00Z"}}"#,
        r#"{"type":"STREAM_STOPPED","eventData":{}}"#,
        "stream",
    );
    rows(
        Mux,
        r#"{"type":"video.live_stream.active","data":{"id":"m1"},"created_at":"2026-05-12T13:45:00Z"}"#,
        r#"{"type":"video.live_stream.disconnected","data":{"id":"m1"}}"#,
        "m1",
    );
    rows(
        Cloudflare,
        concat!(
            r#"{"name":"n","data":{"input_id":"c1","event_type":"live_input.connected","#,
            r#""updated_at":"2026-05-12T13:45:00.5Z"}}"#,
        ),
        r#"{"data":{"input_id":"c1","event_type":"live_input.disconnected"}}"#,
        "c1",
    );
    for time in [
        "2026-05-12T13:45:00.25Z",
        "2026-05-12T06:45:00.25-07:00",
        "2026-05-12T19:15:00.25+05:30",
    ] {
        let data = format!(r#"{{"timestamp":"{time}"}}"#);
        let started = format!(r#"{{"type":"STREAM_STARTED","eventData":{data}}}"#);
        let at = event(Owncast, &started).at;
        assert_eq!(at, Some(1_778_593_500_250), "{time}");
    }
    ignored(Owncast, r#"{"type":"CHAT","eventData":{}}"#);
    ignored(Mux, r#"{"type":"video.asset.ready","data":{"id":"a"}}"#);
    ignored(Cloudflare, r#"{"text":"a test of the webhook"}"#);
}

#[test]
fn mediamtx_asks_in_json_and_its_hooks_tell_in_a_form() {
    let request = concat!(
        r#"{"user":"","password":"","token":"","ip":"1.2.3.4","action":"publish","path":"live/42","#,
        r#""protocol":"rtmp","id":"u-1","query":"token=abc"}"#,
    );
    let ready = "event=ready&path=live%2F42&id=u-1&query=token%3Dabc%26x%3Dy";
    let over = "event=not_ready&path=live%2F42&id=u-1&query=";
    holds(
        MediaMtx,
        &[
            (request, Request, "u-1", "42", Some("abc")),
            (ready, Publish, "u-1", "42", Some("abc")),
            (over, Done, "u-1", "42", None),
        ],
    );
    assert_eq!(event(MediaMtx, request).app.as_deref(), Some("live"));
    assert_eq!(event(MediaMtx, ready).app.as_deref(), Some("live"));
    let renamed = ready.replace("=ready", "=online");
    assert_eq!(event(MediaMtx, &renamed), event(MediaMtx, ready));
    let encoded_twice = ready.replace("%3D", "%253D").replace("%26", "%2526");
    assert_eq!(event(MediaMtx, &encoded_twice), event(MediaMtx, ready));
    for action in ["read", "playback"] {
        let viewer = format!(r#"{{"action":"{action}","path":"live/42","id":"u-2"}}"#);
        ignored(MediaMtx, &viewer);
    }
    for action in ["api", "metrics", "pprof", "a_later_one"] {
        let body = format!(r#"{{"action":"{action}","path":""}}"#);
        let read = read(MediaMtx, body.as_bytes());
        assert_eq!(read, Err(Unreadable::Event), "{action}");
    }
}

#[test]
fn generic() {
    let published = concat!(
        r#"{"event":"publish","session":"a","stream":"42","token":"abc","streamer_id":"s1","#,
        r#""at":1778593500250}"#,
    );
    let alive = r#"{"event":"alive","session":"a","stream":"42"}"#;
    let done = r#"{"event":"done","session":"a","stream":"42","something":"new"}"#;
    let rows: &[Row] = &[
        (published, Publish, "a", "42", Some("abc")),
        (alive, Alive, "a", "42", None),
        (done, Done, "a", "42", None),
    ];
    holds(Generic, rows);
    let published = event(Generic, published);
    assert_eq!(
        (published.streamer.as_deref(), published.at),
        (Some("s1"), Some(1_778_593_500_250))
    );
    let moved = r#"{"event":"pubilsh","session":"a","stream":"42"}"#;
    assert_eq!(read(Generic, moved.as_bytes()), Err(Unreadable::Event));
}

#[test]
fn garbage_is_refused_with_the_field_that_is_wrong_and_never_quoted() {
    let field = |name| Err(Unreadable::Field(name));
    assert_eq!(read(NginxRtmp, b"\xff\xfe="), Err(Unreadable::NotAForm));
    assert_eq!(read(NginxRtmp, b""), Err(Unreadable::NotAForm));
    assert_eq!(read(NginxRtmp, b"call=publish&name=42"), field("clientid"));
    assert_eq!(
        read(NginxRtmp, b"call=publish&clientid=1&name="),
        field("name")
    );
    assert_eq!(
        read(
            NginxRtmp,
            b"app=live&tcurl=rtmp://h/live&call=publish_done&clientid=17&call=publish&name=45"
        ),
        Err(Unreadable::Twice("call")),
        "the publisher wrote one of them"
    );
    let long = format!("call=publish&clientid=1&name={}", "a".repeat(257));
    assert_eq!(read(NginxRtmp, long.as_bytes()), field("name"));
    for kind in MediaKind::ALL {
        if kind == NginxRtmp {
            continue;
        }
        for body in ["{", "{}x", r#"{"event":"#] {
            assert_eq!(
                read(kind, body.as_bytes()),
                Err(Unreadable::NotJson),
                "{kind:?} {body}"
            );
        }
        let nothing = match kind {
            MediaMtx | Generic => Err(Unreadable::Event),
            _ => Ok(None),
        };
        assert_eq!(read(kind, b"{}"), nothing, "{kind:?}");
    }
    assert_eq!(read(Generic, b"[1]"), Err(Unreadable::Body));
    assert_eq!(
        read(Srs, br#"{"action":"on_publish","stream":"42"}"#),
        field("session")
    );
    assert_eq!(
        read(
            Srs,
            br#"{"action":"on_publish","client_id":[5],"stream":"42"}"#
        ),
        field("session")
    );
}

#[test]
fn a_stream_key_and_a_token_are_not_in_the_debug_text() {
    let event = event(
        NginxRtmp,
        "clientid=1&call=publish&name=live_key_123&token=abc.def",
    );
    let text = format!("{event:?}");
    assert!(
        !text.contains("live_key_123") && !text.contains("abc.def"),
        "{text}"
    );
}

#[test]
fn each_server_understands_its_answer() {
    for kind in MediaKind::ALL {
        let Mapping {
            yes_body,
            no_status,
            no_body,
            ..
        } = Mapping::of(kind);
        // OvenMediaEngine reads the body of a 200; the others go by the status.
        assert_eq!(no_status.is_success(), kind == OvenMediaEngine, "{kind:?}");
        assert!(
            no_status.is_client_error() || yes_body != no_body,
            "{kind:?}"
        );
    }
    assert_eq!(Mapping::of(Srs).yes_body, r#"{"code":0}"#);
}
