//! The settings of docs/media-servers.md for servers without a kind of their own, and what they make of
//! requests as the sources of these servers build them.

use std::ffi::OsString;
use std::io::Write;

use crate::config::{Loaded, MediaServer, load};
use crate::features::media::tests::*;

const MANUAL: &str = include_str!("../../../../docs/media-servers.md");

/// The table under the heading of a server.
fn recipe(server: &str) -> MediaServer {
    let heading = format!("\n### {server}\n");
    let (_, rest) = MANUAL.split_once(&heading).expect(server);
    let start = rest.find("[media.main]").expect(server);
    let table = rest[start..].split("```").next().unwrap();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(table.as_bytes()).unwrap();
    let args = ["rollcall".into(), "--config".into(), file.path().into()];
    let loaded = load(args, Vec::<(OsString, OsString)>::new());
    let Ok(Loaded::Run(_, config)) = loaded else {
        panic!("the recipe of {server} is wrong")
    };
    config.media.into_iter().next().unwrap()
}

/// What a callback says: the news, whether the server asks, the session, the application, the stream
/// and the token.
fn said(server: &MediaServer, word: &str, body: &str) -> String {
    let word = (!word.is_empty()).then_some(word);
    match crate::features::media::read(server.kind, &server.mapping, word, body.as_bytes()) {
        Ok(Some(event)) => format!(
            "{:?} {} {} {}/{} {}",
            event.news,
            if event.asks { "asks" } else { "tells" },
            session(&event),
            event.app.as_deref().unwrap_or_default(),
            event.stream.reveal(),
            token(&event).unwrap_or("-"),
        ),
        Ok(None) => "nothing".to_owned(),
        Err(why) => why.to_string(),
    }
}

const UNKNOWN: &str = "the event is none that the settings of this server know";

#[test]
fn the_recipes_of_the_manual_read_what_the_servers_send() {
    let xiu = |event: &str| {
        let stream = r#""identifier":{"rtmp":{"app_name":"live","stream_name":"42"}}"#;
        let url = r#""notify_info":{"request_url":"rtmp://h/live/42?token=abc","remote_addr":"1.2.3.4:5"}"#;
        format!(r#"{{"{event}":{{{stream},"info":{{"id":"u1","sub_type":"PushRtmp",{url}}}}}}}"#)
    };
    let lal = concat!(
        r#"{"server_id":"1","session_id":"RTMPPUBSUB1","protocol":"RTMP","base_type":"PUB","#,
        r#""remote_addr":"1.2.3.4:5","url":"rtmp://h/live/42","app_name":"live","stream_name":"42","#,
        r#""url_param":"token=abc","has_in_session":true,"has_out_session":false}"#,
    );
    let ivs = |event: &str| {
        let channel = r#""resources":["arn:aws:ivs:us-east-1:123456789012:channel/abcd"]"#;
        let detail = format!(r#"{{"event_name":"{event}","channel_name":"c","stream_id":"st-1"}}"#);
        format!(
            r#"{{"source":"aws.ivs","time":"2026-05-12T13:45:00Z",{channel},"detail":{detail}}}"#
        )
    };
    let zlm = |more: &str| {
        format!(
            r#"{{{more},"schema":"rtmp","vhost":"__defaultVhost__","app":"live","stream":"42"}}"#
        )
    };
    for (server, word, body, expected) in [
        // ZLMediaKit, server/WebHook.cpp of 2024.
        (
            "ZLMediaKit",
            "ask",
            zlm(r#""ip":"1.2.3.4","port":5,"id":"7","params":"token=abc""#),
            "Request asks 42 live/42 abc",
        ),
        (
            "ZLMediaKit",
            "",
            zlm(r#""regist":true"#),
            "Publish tells 42 live/42 -",
        ),
        (
            "ZLMediaKit",
            "",
            zlm(r#""regist":false"#),
            "Done tells 42 live/42 -",
        ),
        ("ZLMediaKit", "", zlm(r#""regist":7"#), UNKNOWN),
        // Ant Media Server 2.11, AcceptOnlyStreamsWithWebhook and AntMediaApplicationAdapter.
        (
            "Ant Media Server",
            "",
            r#"{"appName":"LiveApp","streamId":"42","mode":"publish","queryParams":"{token=abc}"}"#.to_owned(),
            "Request asks 42 LiveApp/42 -",
        ),
        (
            "Ant Media Server",
            "",
            r#"{"id":"42","action":"liveStreamStarted","streamName":"n","category":"","app":"LiveApp"}"#.to_owned(),
            "Publish tells 42 LiveApp/42 -",
        ),
        (
            "Ant Media Server",
            "",
            "id=42&action=liveStreamEnded&streamName=n&category=".to_owned(),
            "Done tells 42 /42 -",
        ),
        (
            "Ant Media Server",
            "",
            r#"{"id":"42","action":"vodReady"}"#.to_owned(),
            "nothing",
        ),
        // xiu 0.13, library/streamhub.
        (
            "xiu",
            "publish",
            xiu("Publish"),
            "Publish asks u1 live/42 abc",
        ),
        (
            "xiu",
            "unpublish",
            xiu("UnPublish"),
            "Done tells u1 live/42 -",
        ),
        ("xiu", "", xiu("Publish"), UNKNOWN),
        // lal 0.37, pkg/base/t_http_an__notify.go.
        ("lal", "start", lal.to_owned(), "Publish tells RTMPPUBSUB1 live/42 abc"),
        ("lal", "stop", lal.to_owned(), "Done tells RTMPPUBSUB1 live/42 abc"),
        // Icecast 2.4.4, auth_url.c.
        (
            "Icecast",
            "",
            "action=stream_auth&mount=%2F42&ip=1.2.3.4&server=h&port=8000&user=source&pass=abc".to_owned(),
            "Request asks 42 /42 abc",
        ),
        (
            "Icecast",
            "",
            "action=mount_add&mount=%2F42&server=h&port=8000".to_owned(),
            "Publish tells 42 /42 -",
        ),
        (
            "Icecast",
            "",
            "action=mount_remove&mount=%2F42&server=h&port=8000".to_owned(),
            "Done tells 42 /42 -",
        ),
        ("Icecast", "", "action=listener_add&mount=%2F42".to_owned(), UNKNOWN),
        (
            "Icecast",
            "",
            "action=mount_add&mount=%2F42&mount=%2F7".to_owned(),
            "path is there twice",
        ),
        // AWS IVS, the user guide's page about EventBridge.
        (
            "AWS IVS",
            "",
            ivs("Stream Start"),
            "Publish tells st-1 arn:aws:ivs:us-east-1:123456789012:channel/abcd -",
        ),
        (
            "AWS IVS",
            "",
            ivs("Stream End"),
            "Done tells st-1 arn:aws:ivs:us-east-1:123456789012:channel/abcd -",
        ),
        ("AWS IVS", "", ivs("Session Created"), "nothing"),
    ] {
        assert_eq!(
            said(&recipe(server), word, &body),
            expected,
            "{server} {body}"
        );
    }
    let icecast = recipe("Icecast").mapping.yes_header.unwrap();
    assert_eq!(
        (icecast.0.as_str(), icecast.1.to_str().unwrap()),
        ("icecast-auth-user", "1")
    );
    assert!(
        recipe("ZLMediaKit")
            .mapping
            .yes_body
            .starts_with(r#"{"code":0"#)
    );
}

#[test]
fn times_are_seconds_milliseconds_or_texts() {
    for (at, millis) in [
        ("1778593500", Some(1_778_593_500_000)),
        ("1778593500250", Some(1_778_593_500_250)),
        (r#""1778593500""#, Some(1_778_593_500_000)),
        (r#""2026-05-12T13:45:00.25Z""#, Some(1_778_593_500_250)),
        (r#""yesterday""#, None),
        ("-1", None),
    ] {
        let body = format!(r#"{{"event":"done","session":"a","stream":"42","at":{at}}}"#);
        assert_eq!(event(Generic, &body).at, millis, "{at}");
    }
}
