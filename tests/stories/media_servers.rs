//! A live follows its stream: media servers open and close lives by themselves.

use std::collections::BTreeSet;
use std::time::Duration;

use reqwest::Method;
use rollcall::base::media_server::MediaKind;
use rollcall::base::secret::Secret;
use rollcall::config::{Config, Placeholder, Template};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::support::backend::Backend;
use crate::support::media::{LiveKitRooms, Nginx, Platform, SECRET, SrsApi, server, with_nginx};
use crate::support::program::Program;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::{PATIENCE, SLACK, becomes, same, until};
use crate::support::world::{World, timings};

const GRACE: Duration = Duration::from_millis(1_500);

fn short(config: &mut Config) {
    with_nginx(config);
    config.stream_grace = GRACE;
}

/// Long enough for a story that has to see a stream that is lost.
fn long(config: &mut Config) {
    short(config);
    config.stream_grace = Duration::from_secs(20);
}

on_both_stores! {
    tuned(short)
    async fn a_stream_opens_its_live_and_the_end_of_the_stream_closes_it(world) {
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        let live = world.backend().live("42").await;
        assert_eq!(live["state"], "open");
        assert_eq!(live["opened_by"], "media");
        assert_eq!(live["streamer_id"], "s1");
        assert_eq!(live["stream"]["state"], "live", "{live}");
        let mut viewer = world.viewer_in("u1", "42").await;
        let ended = Instant::now();
        nginx.done(1, "42").await;
        world.stays_open(GRACE - Duration::from_millis(300)).await;
        assert_eq!(viewer.expect("closed").await["reason"], "stream_ended");
        let took = ended.elapsed();
        assert!(took < GRACE + SLACK, "closed only after {took:?}");
        world.live_becomes("42", "closed").await;
    }
}

on_memory! {
    tuned(short)
    async fn a_streamer_who_comes_back_in_time_goes_on_with_the_same_live(world) {
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        let epoch = world.epoch("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        for client in 1..4 {
            nginx.done(client, "42").await;
            world.stays_open(GRACE / 3).await;
            nginx.lets_in(client + 1, "42").await;
        }
        world.stays_open(GRACE * 2).await;
        assert_eq!(world.epoch("42").await, epoch);
        let ack = viewer.heartbeat_json().await;
        assert_eq!(ack["live_id"], "42", "the socket noticed nothing");
    }
}

on_memory! {
    tuned(short)
    async fn nobody_publishes_to_the_live_of_another_streamer(world) {
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        nginx.publish(2, "42", "streamer_id=s2").await.is(403);
        assert_eq!(world.backend().live("42").await["streamer_id"], "s1");
        nginx.done(2, "42").await;
        world.stays_open(GRACE * 2).await;
    }
}

on_memory! {
    tuned(long)
    async fn dashboards_see_that_the_stream_is_lost_and_when_the_live_closes(world) {
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        let mut dashboard = world.dashboard("42").await;
        // The room may hear of the stream a moment after the live was opened.
        let mut first = dashboard.log[0].json.clone();
        while first["stream"].is_null() {
            first = dashboard.next().await.json;
        }
        assert_eq!(first["stream"]["state"], "live", "{first}");
        nginx.done(1, "42").await;
        let lost = dashboard.next().await.json;
        assert_eq!(lost["stream"]["state"], "lost", "{lost}");
        let began_at = lost["stream"]["began_at"].as_u64().unwrap();
        assert_eq!(lost["stream"]["closes_at"].as_u64().unwrap(), began_at + 20_000);
        nginx.lets_in(2, "42").await;
        let back = dashboard.next().await.json;
        assert_eq!(back["stream"]["state"], "live", "{back}");
        assert_eq!(back["stream"]["closes_at"], Value::Null);
    }
}

on_memory! {
    tuned(short)
    async fn operators_see_which_sessions_hold_a_live_and_end_one(world) {
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(17, "42").await;
        nginx.lets_in(19, "42").await;
        nginx.update(19, "42").await.is(200);
        let backend = world.backend();
        let list = async || backend.get("/v1/lives/42/streams").await.is(200).body["items"].clone();
        let held = list().await;
        let shown = |n: usize| {
            let stream = &held[n];
            [&stream["server"], &stream["instance"], &stream["session"], &stream["address"]].map(|field| {
                field.as_str().unwrap().to_owned()
            })
        };
        assert_eq!(shown(0), ["main", "127.0.0.1:11935", "17 127.0.0.1", "127.0.0.1"]);
        assert_eq!(held[1]["end_known_by"], "heartbeats", "{held}");
        assert!(held[1]["heard_at"].as_u64() >= held[1]["began_at"].as_u64(), "{held}");

        let path = |n: usize| format!("/v1/lives/42/streams/{}", held[n]["stream_id"].as_str().unwrap());
        backend.send(Method::DELETE, "/v1/lives/42/streams/none", None).await.is(404);
        backend.send(Method::DELETE, &path(0), None).await.is(200);
        backend.send(Method::DELETE, &path(0), None).await.is(404);
        assert_eq!(list().await.as_array().unwrap().len(), 1);
        world.stays_open(GRACE * 2).await;
        backend.send(Method::DELETE, &path(1), None).await.is(200);
        // It may go on, and is nobody any more.
        nginx.update(19, "42").await.is(200);
        world.live_becomes("42", "closed").await;
        assert_eq!(list().await, json!([]));
        backend.send(Method::DELETE, &path(1), None).await.is(409);
        backend.get("/v1/lives/43/streams").await.is(404);
    }
}

on_memory! {
    tuned(short)
    async fn forged_and_garbled_callbacks_change_nothing(world) {
        let backend = world.backend();
        let publish = "app=live&clientid=1&call=publish&name=42";
        for (path, body, status) in [
            ("/v1/media/main", publish, 401),
            ("/v1/media/main?secret=guess", publish, 401),
            ("/v1/media/main?secret=", publish, 401),
            ("/v1/media/other?secret=guess", publish, 404),
        ] {
            backend.send(Method::POST, path, Some(body)).await.is(status);
        }
        let path = format!("/v1/media/main?secret={SECRET}");
        for (body, status) in [
            ("", 400),
            ("{}", 400),
            ("call=publish&name=42", 400),
            ("app=live&clientid=1&call=publish&call=publish_done&name=42", 400),
            ("app=live&clientid=1&call=publish&name=a%7Bb", 403),
            ("app=live&clientid=1&call=play&name=42", 200),
        ] {
            backend.send(Method::POST, &path, Some(body)).await.is(status);
        }
        assert_eq!(world.state_of("42").await, "");
        let metrics = backend.get("/metrics").await.is(200).text;
        for line in [
            r#"rollcall_media_callbacks_total{kind="nginx-rtmp",result="forged"} 3"#,
            r#"rollcall_media_callbacks_total{kind="nginx-rtmp",result="unreadable"} 4"#,
            r#"rollcall_media_callbacks_total{kind="nginx-rtmp",result="refused"} 1"#,
            r#"rollcall_media_callbacks_total{kind="nginx-rtmp",result="ignored"} 1"#,
        ] {
            assert!(metrics.contains(line), "{line} is not in {metrics}");
        }
    }
}

/// Who may publish with `--auth jwt`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_needs_the_token_of_a_streamer() {
    let world = World::on_memory(|config| {
        short(config);
        with_tokens(config);
    })
    .await;
    let token = |claims: Value| {
        let mut claims = claims;
        claims["exp"] = in_seconds(60).into();
        format!("token={}", mint(&claims))
    };
    let nginx = Nginx::calling(&world, "main");
    nginx.publish(1, "42", "").await.is(403);
    nginx.publish(1, "42", "token=guess").await.is(403);
    nginx.publish(1, "42", "streamer_id=s1").await.is(403);
    let viewer = token(json!({"sub": "s1", "role": "viewer"}));
    nginx.publish(1, "42", &viewer).await.is(403);
    let elsewhere = token(json!({"sub": "s1", "role": "streamer", "lives": ["43"]}));
    nginx.publish(1, "42", &elsewhere).await.is(403);
    let mine = token(json!({"sub": "s1", "role": "streamer", "lives": ["42"]}));
    nginx.publish(1, "42", &mine).await.is(200);
    // A doubled number of a client is no way around the token.
    nginx.publish(1, "42", "").await.is(403);
    let service = mint(&json!({"sub": "b", "role": "service", "exp": in_seconds(60)}));
    let answer = reqwest::Client::new()
        .get(format!("http://{}/v1/lives/42", world.addr))
        .bearer_auth(service)
        .send()
        .await
        .unwrap();
    let live: Value = answer.json().await.unwrap();
    assert_eq!(live["streamer_id"], "s1", "{live}");
}

/// LiveKit puts much metadata into a callback, and sends one that was refused only once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_callback_is_read_if_it_may_come_from_the_server() {
    let world = World::on_memory(|config| {
        config.media = vec![
            server("any", MediaKind::Generic),
            server("livekit", MediaKind::LiveKit),
        ];
    })
    .await;
    let more = "x".repeat(1_000_000);
    let publish = json!({"event": "publish", "session": "a", "stream": "g1", "more": more});
    assert_eq!(call(world.backend(), "any", &publish).await.0, 200);
    world.live_becomes("g1", "open").await;
    // Nobody waits for the body of another one.
    let good = format!("/v1/media/any?secret={SECRET}");
    for (path, length, status) in [
        (good.as_str(), 2_000_000, "413"),
        ("/v1/media/any?secret=guess", 900_000, "401"),
        ("/v1/media/livekit", 900_000, "401"),
    ] {
        let mut connection = TcpStream::connect(world.addr).await.unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        let read = timeout(PATIENCE, connection.read_exact(&mut answer));
        read.await.expect("an answer").unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status}").as_bytes(), "{path}");
    }
}

/// MediaMTX knows the token of a bearer, or of a password, only when it asks. Its hook names the session.
#[test]
fn a_session_that_was_granted_opens_its_live_without_the_token() {
    story(async {
        let world = World::on_redis(|config| {
            with_tokens(config);
            config.media = vec![server("mtx", MediaKind::MediaMtx)];
        })
        .await;
        let other = world.another_gateway().await;
        let claims = json!({"sub": "s1", "role": "streamer", "exp": in_seconds(60)});
        let token = mint(&claims);
        let path = format!("/v1/media/mtx?secret={SECRET}");
        // The same text in the query: of MediaMTX before 1.18.1, and since.
        let plain = format!("token%3D{token}%26x%3Dy");
        let encoded = format!("token%253D{token}%2526x%253Dy");
        for (live, field, in_hook) in [
            ("m1", "token", ""),
            ("m2", "password", ""),
            ("m3", "nothing", plain.as_str()),
            ("m4", "nothing", encoded.as_str()),
        ] {
            let mut asks = json!({"action": "publish", "path": live, "id": live, "query": ""});
            asks[field] = token.clone().into();
            let hook = format!("event=available&path={live}&id={live}&query={in_hook}");
            let send = async |body: &str, status: u16| {
                let backend = other.backend();
                backend
                    .send(Method::POST, &path, Some(body))
                    .await
                    .is(status);
            };
            if in_hook.is_empty() {
                send(&hook, 401).await;
                assert_eq!(call(world.backend(), "mtx", &asks).await.0, 200);
                // Another session was not granted.
                send(&hook.replace("&id=m", "&id=n"), 401).await;
                send(&hook.replace("&path=m", "&path=n"), 401).await;
            }
            send(&hook, 200).await;
            assert_eq!(
                world
                    .redis()
                    .live_field(live, "streamer_id")
                    .await
                    .as_deref(),
                Some("s1")
            );
        }
    });
}

/// The entries of the stream of events about a live: the kind, and the server if there is one.
async fn events(redis: &Redis) -> Vec<(String, Value)> {
    let entries = redis.ask(&["XRANGE", "rollcall:events", "-", "+"]).await;
    let mut events = Vec::new();
    for entry in entries.as_array().unwrap() {
        let fields: Vec<&str> = entry[1]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let at = fields.iter().position(|name| *name == "data").unwrap() + 1;
        let data: Value = serde_json::from_str(fields[at]).unwrap();
        let kind = data["type"].as_str().unwrap().to_owned();
        if kind != "live.counts" {
            events.push((kind, data["server"].clone()));
        }
    }
    events
}

on_redis! {
    tuned(short)
    async fn the_stream_of_events_tells_of_the_stream(world) {
        let nginx = Nginx::calling(&world, "main");
        let eu = Nginx::calling(&world, "eu");
        nginx.lets_in(1, "42").await;
        nginx.done(1, "42").await;
        eu.lets_in(1, "42").await;
        eu.done(1, "42").await;
        world.live_becomes("42", "closed").await;
        let expected = vec![
            ("live.opened".to_owned(), Value::Null),
            ("stream.started".to_owned(), json!("main")),
            ("stream.lost".to_owned(), json!("main")),
            ("stream.started".to_owned(), json!("eu")),
            ("stream.lost".to_owned(), json!("eu")),
            ("stream.ended".to_owned(), json!("eu")),
            ("live.closed".to_owned(), Value::Null),
        ];
        becomes("the events are written", expected.clone(), async || events(world.redis()).await).await;
    }
}

on_redis! {
    tuned(short)
    async fn any_gateway_hears_any_callback(world) {
        let other = world.another_gateway().await;
        let here = Nginx::calling(&world, "main");
        let there = Nginx::calling(&other, "main");
        here.lets_in(1, "42").await;
        let epoch = world.epoch("42").await;
        let mut viewer = other.viewer_in("u1", "42").await;
        there.done(1, "42").await;
        here.lets_in(2, "42").await;
        other.stays_open(GRACE * 2).await;
        assert_eq!(other.epoch("42").await, epoch);
        there.done(2, "42").await;
        assert_eq!(viewer.expect("closed").await["reason"], "stream_ended");
    }
}

on_redis! {
    tuned(short)
    async fn a_live_closes_though_the_gateway_that_heard_the_end_is_killed(world) {
        // The settings of a program have no media servers, so the program only looks after lives.
        let mut program = World::program_with(world.redis().clone(), |config| {
            config.stream_grace = GRACE;
        })
        .await;
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        let _viewer = program.viewer_in("u1", "42").await;
        nginx.done(1, "42").await;
        program.process().kill();
        world.live_becomes("42", "closed").await;
    }
}

#[test]
fn a_live_closes_though_every_gateway_that_heard_of_it_is_gone() {
    story(async {
        let world = World::on_redis(short).await;
        let redis = world.redis().clone();
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        nginx.done(1, "42").await;
        world.stop().await;
        let later = World::beside(redis, short).await;
        later.live_becomes("42", "closed").await;
    });
}

on_redis! {
    tuned(short)
    async fn a_live_on_air_outlives_the_loss_of_all_data(world) {
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        let epoch = world.epoch("42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        becomes("the gateway knows the stream", json!("live"), async || {
            world.backend().live("42").await["stream"]["state"].clone()
        })
        .await;
        world.redis().ask(&["FLUSHALL"]).await;
        until("the record is back", PATIENCE, async || {
            match world.redis().live_field("42", "stream").await {
                Some(stream) if stream.starts_with("on ") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        world.stays_open(GRACE * 2).await;
        assert_eq!(world.epoch("42").await, epoch);
        nginx.done(1, "42").await;
        world.live_becomes("42", "closed").await;
    }
}

#[test]
fn the_platform_says_whose_a_stream_key_is_and_nobody_else_learns_the_key() {
    story(async {
        let platform = Platform::start().await;
        let world = World::on_redis(|config| {
            short(config);
            config.fan_ttl = Duration::from_millis(100);
            config.media[0].publish_url = Some(platform.url());
        })
        .await;
        let nginx = Nginx::calling(&world, "main");
        // Whoever tries keys shuts out nobody.
        for n in 0..8 {
            let guess = format!("live_key_8{n}");
            nginx.publish(1, &guess, "").await.is(403);
        }
        nginx.publish(1, "live_key_7", "").await.is(200);
        assert_eq!(world.backend().live("42").await["streamer_id"], "s1");
        // The end of the stream finds its live though the platform is away.
        drop(platform);
        nginx.done(1, "live_key_7").await;
        world.live_becomes("42", "closed").await;
        becomes("the platform is asked again", 503, async || {
            nginx.publish(2, "live_key_7", "").await.status
        })
        .await;
        let backend = world.backend();
        let mut seen = backend.get("/metrics").await.is(200).text;
        seen += &backend.get("/v1/lives").await.is(200).text;
        let keys: BTreeSet<String> = world.redis().keys("*").await;
        for key in &keys {
            let dump = world.redis().ask(&["DUMP", key]).await;
            seen += &format!("{key} {dump}");
        }
        assert!(!seen.contains("live_key"), "{seen}");
    });
}

/// What one publisher can make the platform answer is nothing to the others.
#[test]
fn keys_on_which_the_platform_fails_shut_out_nobody_else() {
    story(async {
        let platform = Platform::start().await;
        let world = World::on_memory(|config| {
            short(config);
            config.media[0].publish_url = Some(platform.url());
        })
        .await;
        let nginx = Nginx::calling(&world, "main");
        for n in 0..20 {
            nginx
                .publish(1, &format!("live_key_broken{n}"), "")
                .await
                .is(503);
            nginx
                .publish(1, &format!("live_key_odd{n}"), "")
                .await
                .is(403);
        }
        nginx.publish(2, "live_key_7", "").await.is(200);

        // Nobody makes the platform fail as often as they like, whatever their session.
        let asked = platform.asked();
        let began = Instant::now();
        for session in 10..30 {
            nginx.publish(session, "live_key_broken", "").await.is(503);
        }
        let more = platform.asked() - asked;
        let seconds = began.elapsed().as_secs() as usize + 1;
        assert!(more <= seconds, "asked {more} times within {seconds} s");

        // The platform is not asked about what is no key.
        let asked = platform.asked();
        let long = "a".repeat(257);
        for odd in ["live%00key", "live%0Akey", "live%1B%5B2Jkey", "", &long] {
            nginx.publish(3, odd, "").await.is(400);
        }
        assert_eq!(platform.asked(), asked);
    });
}

/// The server takes silence for a no.
#[test]
fn a_publisher_whose_answer_came_too_late_does_not_keep_the_live_open() {
    story(async {
        let platform = Platform::start().await;
        let world = World::on_redis(|config| {
            short(config);
            config.fan_timeout = Duration::from_secs(8);
            config.media[0].publish_url = Some(platform.url());
        })
        .await;
        platform.takes(Duration::from_secs(3));
        let nginx = Nginx::calling(&world, "main");
        let asked = Instant::now();
        nginx.publish(1, "live_key_7", "").await.is(503);
        assert!(asked.elapsed() < Duration::from_millis(2_500) + SLACK);
        world.live_becomes("42", "open").await;
        world.live_becomes("42", "closed").await;
    });
}

#[test]
fn each_broadcast_with_a_key_has_the_live_in_which_it_began() {
    story(async {
        let platform = Platform::start().await;
        let world = World::on_redis(|config| {
            short(config);
            config.fan_ttl = Duration::from_millis(100);
            config.media[0].publish_url = Some(platform.url());
        })
        .await;
        let nginx = Nginx::calling(&world, "main");
        nginx.publish(1, "live_key_7", "").await.is(200);
        platform.moves_key_to("43");
        until("the next broadcast begins", PATIENCE, async || {
            nginx.publish(2, "live_key_7", "").await.is(200);
            same(world.state_of("43").await, "open".to_owned())
        })
        .await;
        // The end of the first one comes late, and is about its own live.
        nginx.done(1, "live_key_7").await;
        world.live_becomes("42", "closed").await;
        assert_eq!(world.state_of("43").await, "open");
        nginx.done(2, "live_key_7").await;
        world.live_becomes("43", "closed").await;
    });
}

on_memory! {
    tuned(|config: &mut Config| {
        short(config);
        config.streamers_open = false;
    })
    async fn a_stream_opens_its_live_where_streamers_open_none(world) {
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        assert_eq!(world.state_of("42").await, "open");
    }
}

/// Not even a log of everything has them.
#[test]
fn no_log_line_has_a_stream_key_a_token_or_a_secret() {
    story(async {
        let platform = Platform::start().await;
        let redis = Redis::start().await;
        let file = tempfile::NamedTempFile::new().unwrap();
        let settings = format!(
            "[media.main]\nkind = 'nginx-rtmp'\nsecret = '{SECRET}'\npublish-url = '{}'\n\
             [media.eu]\nkind = 'nginx-rtmp'\nsecret = '{SECRET}'\n",
            platform.url().reveal()
        );
        std::fs::write(file.path(), settings).unwrap();
        let mut config = timings();
        config.redis = Some(Secret::new(redis.url()));
        let path = file.path().display().to_string();
        let options = format!("--config {path} --log trace,h2=off");
        let program = Program::start_with(&config, &options).await;
        let main = Nginx::at(program.addr, "main");
        main.publish(1, "live_key_7", "").await.is(200);
        main.publish(2, "live_key_8", "").await.is(403);
        main.update(1, "live_key_7").await.is(200);
        main.done(1, "live_key_7").await;
        drop(platform);
        main.publish(3, "live_key_9", "").await;
        let eu = Nginx::at(program.addr, "eu");
        eu.publish(1, "42", "token=token_of_s1&streamer_id=s1")
            .await;
        eu.publish(1, "no{id}live_key", "token=token_of_s1")
            .await
            .is(403);
        eu.publish(2, "42", "streamer_id=s2").await.is(403);
        let fields = [
            "a stream was refused",
            "live_id=42",
            "app=\"live\"",
            "address=\"127.0.0.1\"",
            "opened by another streamer",
        ];
        program.logs(&fields).await;
        let said = program.said();
        assert!(said.contains("a stream began"), "{said}");
        for secret in ["live_key", "token_of_s1", SECRET] {
            assert!(!said.contains(secret), "{secret} is in {said}");
        }
    });
}

/// SRS sends no heartbeats, so a gateway asks it.
#[test]
fn a_server_that_is_asked_ends_the_streams_that_it_lost() {
    story(async {
        let srs = SrsApi::start().await;
        let silence = Duration::from_millis(2_000);
        let world = World::on_memory(|config| {
            config.stream_grace = GRACE;
            config.streamer_timeout = Some(silence);
            let mut settings = server("srs", MediaKind::Srs);
            settings.poll_url = Some(srs.url());
            config.media = vec![settings];
        })
        .await;
        let publish = |id: &str| json!({"action": "on_publish", "client_id": id, "app": "live", "stream": "42"});
        call(world.backend(), "srs", &publish("c1")).await;
        srs.publish(&[("c1", "42"), ("c7", "77")]);
        world.live_becomes("77", "open").await;
        world.stays_open(silence + GRACE + SLACK).await;

        // It refused more second publishers than can publish, and said no more of them.
        for n in 0..20 {
            call(world.backend(), "srs", &publish(&format!("double{n}"))).await;
        }
        world.stays_open(silence + GRACE + SLACK).await;

        // The server was started again, and sent nothing.
        srs.publish(&[]);
        let lost = Instant::now();
        world.live_becomes("42", "closed").await;
        let took = lost.elapsed();
        assert!(
            took < silence + GRACE,
            "noticed by its silence, after {took:?}"
        );

        // A server that does not answer ends nothing at once.
        call(world.backend(), "srs", &publish("c2")).await;
        srs.publish(&[("c2", "42")]);
        until("the session is found", PATIENCE, async || {
            match world
                .metric("rollcall_media_polls_total{result=\"answered\"}")
                .await
            {
                polls if polls >= 3.0 => Ok(()),
                polls => Err(polls),
            }
        })
        .await;
        world.stays_open(silence / 2).await;
        drop(srs);
        world.stays_open(silence / 2 + GRACE / 2).await;
        world.live_becomes("42", "closed").await;
    });
}

/// A room of LiveKit says whose its stream is, and the streamer's tracks hold the live.
#[test]
fn a_room_of_livekit_has_the_live_of_its_streamer_and_guests_hold_nothing() {
    story(async {
        let rooms = LiveKitRooms::start().await;
        let world = World::on_memory(|config| {
            config.stream_grace = GRACE;
            config.streamer_timeout = Some(Duration::from_millis(2_000));
            let mut settings = server("livekit", MediaKind::LiveKit);
            settings.poll_url = Some(rooms.url());
            settings.streamer = Some(Template::parse("{streamer_id}", &Placeholder::ALL).unwrap());
            config.media = vec![settings];
        })
        .await;
        rooms.publish(&[("PA_2", "guest")]);
        until("rooms are asked", PATIENCE, async || {
            match world
                .metric("rollcall_media_polls_total{result=\"answered\"}")
                .await
            {
                polls if polls >= 2.0 => Ok(()),
                polls => Err(polls),
            }
        })
        .await;
        assert_eq!(world.state_of("42").await, "");
        rooms.publish(&[("PA_2", "guest"), ("PA_1", "s1")]);
        world.live_becomes("42", "open").await;
        assert_eq!(world.backend().live("42").await["streamer_id"], "s1");
        // The streamer stops and stays; the guest goes on.
        rooms.publish(&[("PA_2", "guest")]);
        world.live_becomes("42", "closed").await;
    });
}

/// Calls as a server does that sends JSON; the status and the body of the answer.
async fn call(backend: &Backend, server: &str, body: &Value) -> (u16, String) {
    let path = format!("/v1/media/{server}?secret={SECRET}");
    let answer = backend
        .send(Method::POST, &path, Some(&body.to_string()))
        .await;
    (answer.status, answer.text)
}
