//! Lives that follow the streams of real media servers, to which a real ffmpeg publishes.

use std::net::Ipv4Addr;
use std::time::Duration;

use rollcall::base::media_server::MediaKind;
use rollcall::base::secret::Secret;
use rollcall::config::Config;
use serde_json::json;
use tokio::time::Instant;

use crate::support::backend::Backend;
use crate::support::media::{SECRET, server, server_of_manual, with_nginx};
use crate::support::program::Program;
use crate::support::redis_server::free_port;
use crate::support::rtmp::{Publisher, RtmpServer};
use crate::support::stores::{on_redis, story};
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::{SLACK, same, until};
use crate::support::world::{World, timings};

const GRACE: Duration = Duration::from_secs(3);

/// How often nginx says that a publisher goes on.
const OFTEN: Duration = Duration::from_millis(250);

/// What ffmpeg and a media server need to begin a stream on a busy machine.
const BEGINS_WITHIN: Duration = Duration::from_secs(40);

fn with_real(config: &mut Config) {
    with_nginx(config);
    config.media.push(server("nms", MediaKind::NodeMediaServer));
    config.stream_grace = GRACE;
    config.streamer_timeout = Some(Duration::from_secs(2));
}

async fn opens(world: &World) {
    world.live_becomes_within("42", "open", BEGINS_WITHIN).await;
}

on_redis! {
    tuned(with_real)
    async fn a_stream_to_nginx_opens_its_live_on_every_gateway_and_closes_it(world) {
        let other = world.another_gateway().await;
        let nginx = RtmpServer::nginx(world.addr, None).await;
        let mut streamer = Publisher::to(&nginx, "42?streamer_id=s1");
        opens(&other).await;
        assert_eq!(other.backend().live("42").await["streamer_id"], "s1");
        let epoch = other.epoch("42").await;
        let mut viewer = other.viewer_in("u1", "42").await;

        // A second publisher comes and is thrown out by nginx.
        let mut second = Publisher::to(&nginx, "42?streamer_id=s1");
        second.is_refused().await;
        other.stays_open(GRACE + SLACK).await;

        // The streamer's program crashes, and comes back in time.
        streamer.kill();
        let mut streamer = Publisher::to(&nginx, "42?streamer_id=s1");
        other.stays_open(GRACE + SLACK).await;
        assert_eq!(other.epoch("42").await, epoch);

        let ended = Instant::now();
        streamer.stop();
        assert_eq!(viewer.expect("closed").await["reason"], "stream_ended");
        let took = ended.elapsed();
        assert!(took > GRACE - Duration::from_millis(500), "closed after {took:?}");
        assert!(took < GRACE + Duration::from_secs(1) + SLACK, "closed only after {took:?}");
    }
}

on_redis! {
    tuned(with_real)
    async fn somebody_else_is_not_let_in_by_nginx(world) {
        world.backend().open("42", "s2").await;
        let nginx = RtmpServer::nginx(world.addr, None).await;
        let mut stranger = Publisher::to(&nginx, "42?streamer_id=s1");
        stranger.is_refused().await;
        assert_eq!(world.backend().live("42").await["streamer_id"], "s2");
    }
}

on_redis! {
    tuned(with_real)
    async fn a_killed_worker_of_nginx_ends_a_stream_with_heartbeats_only(world) {
        let silent = RtmpServer::nginx(world.addr, None).await;
        let _streamer = Publisher::to(&silent, "42?streamer_id=s1");
        opens(&world).await;
        silent.kill_worker();
        world.stays_open(Duration::from_secs(2) + GRACE + SLACK).await;
        world.backend().close("42").await;

        let beating = RtmpServer::nginx(world.addr, Some(OFTEN)).await;
        let _streamer = Publisher::to(&beating, "42?streamer_id=s1");
        opens(&world).await;
        world.stays_open(Duration::from_secs(2) + GRACE + SLACK).await;
        beating.kill_worker();
        let span = Duration::from_secs(4) + GRACE + SLACK;
        world.live_becomes_within("42", "closed", span).await;
    }
}

on_redis! {
    tuned(|config: &mut Config| {
        with_real(config);
        config.media[0].heartbeats = true;
    })
    async fn a_worker_of_nginx_that_is_killed_before_its_first_heartbeat_ends_the_stream(world) {
        // The first heartbeat comes later than this test ends.
        let nginx = RtmpServer::nginx(world.addr, Some(Duration::from_secs(60))).await;
        let _streamer = Publisher::to(&nginx, "42?streamer_id=s1");
        opens(&world).await;
        nginx.kill_worker();
        world.live_becomes_within("42", "closed", Duration::from_secs(2) + GRACE + SLACK).await;
    }
}

on_redis! {
    tuned(with_real)
    async fn two_nginx_that_share_a_table_do_not_end_each_others_streams(world) {
        let one = RtmpServer::nginx(world.addr, None).await;
        let other = RtmpServer::nginx(world.addr, None).await;
        let mut streamer = Publisher::to(&one, "42?streamer_id=s1");
        opens(&world).await;
        // Both number their first publisher alike.
        let mut backup = Publisher::to(&other, "42?streamer_id=s1");
        until("both hold the live", BEGINS_WITHIN, async || {
            let streams = world.backend().get("/v1/lives/42/streams").await.body;
            same(streams["items"].as_array().map(Vec::len), Some(2))
        })
        .await;
        backup.kill();
        world.stays_open(GRACE + SLACK).await;
        streamer.kill();
        world.live_becomes_within("42", "closed", GRACE + SLACK).await;
    }
}

/// nginx throws a publisher out whose heartbeat fails. The location that it calls always answers.
#[test]
fn heartbeats_that_no_gateway_answers_throw_no_publisher_out() {
    story(async {
        let file = tempfile::NamedTempFile::new().unwrap();
        let settings = format!("[media.main]\nkind = 'nginx-rtmp'\nsecret = '{SECRET}'\n");
        std::fs::write(file.path(), settings).unwrap();
        let path = file.path().display().to_string();
        let mut program = Program::start_with(&timings(), &format!("--config {path}")).await;
        let nginx = RtmpServer::nginx(program.addr, Some(OFTEN)).await;
        let mut streamer = Publisher::to(&nginx, "42?streamer_id=s1");
        let backend = Backend::at(program.addr);
        until("heartbeats arrive", BEGINS_WITHIN, async || {
            let streams = backend.get("/v1/lives/42/streams").await.body;
            same(
                streams["items"][0]["end_known_by"].clone(),
                "heartbeats".into(),
            )
        })
        .await;
        program.kill();
        streamer.goes_on_for(Duration::from_secs(4)).await;
    });
}

/// The table names a server that is asked.
#[test]
fn an_nginx_that_is_asked_ends_the_streams_of_a_killed_worker() {
    story(async {
        // The gateway that nginx calls begins after nginx, which it asks.
        let gateway = free_port();
        let nginx = RtmpServer::nginx((Ipv4Addr::LOCALHOST, gateway).into(), None).await;
        let world = World::on_memory(|config| {
            with_real(config);
            config.listen = (Ipv4Addr::LOCALHOST, gateway).into();
            config.streamer_timeout = Some(Duration::from_secs(4));
            config.media[0].poll_url = Some(Secret::new(nginx.statistics()));
        })
        .await;
        let _streamer = Publisher::to(&nginx, "42?streamer_id=s1");
        opens(&world).await;
        world.stays_open(Duration::from_secs(5) + GRACE).await;
        nginx.kill_worker();
        let killed = Instant::now();
        world
            .live_becomes_within("42", "closed", Duration::from_secs(4) + GRACE + SLACK)
            .await;
        let took = killed.elapsed();
        assert!(
            took < Duration::from_secs(2) + GRACE + SLACK,
            "noticed by silence, after {took:?}"
        );
    });
}

on_redis! {
    tuned(with_real)
    async fn a_stream_to_node_media_server_opens_its_live_and_closes_it(world) {
        let node = RtmpServer::node(world.addr).await;
        let mut streamer = Publisher::to(&node, "42?streamer_id=s1");
        opens(&world).await;
        let epoch = world.epoch("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;

        // A second publisher is let in, and its end does not close the live.
        let mut second = Publisher::to(&node, "42?streamer_id=s1");
        world.stays_open(Duration::from_secs(2)).await;
        second.kill();
        world.stays_open(GRACE).await;
        assert_eq!(world.epoch("42").await, epoch);

        // A streamer who comes back within half a minute goes on with the session.
        streamer.kill();
        tokio::time::sleep(Duration::from_secs(3)).await;
        let mut streamer = Publisher::to(&node, "42?streamer_id=s1");
        world.stays_open(GRACE + SLACK).await;

        // This server says only half a minute later that a publisher ended.
        let ended = Instant::now();
        streamer.stop();
        until("the stream is lost", Duration::from_secs(40), async || {
            let live = world.backend().live("42").await;
            same(live["stream"]["state"].clone(), "lost".into())
        })
        .await;
        assert!(ended.elapsed() > Duration::from_secs(20), "{:?}", ended.elapsed());
        assert_eq!(viewer.expect("closed").await["reason"], "stream_ended");
    }
}

#[test]
fn a_source_of_icecast_opens_its_live_with_its_password_and_closes_it() {
    story(async {
        let world = World::on_redis(|config| {
            with_tokens(config);
            config.media = vec![server_of_manual("Icecast")];
            config.stream_grace = GRACE;
        })
        .await;
        let is = async |field: &str, value: &str| {
            let found = world.redis().live_field("42", field).await;
            same(found, Some(value.to_owned()))
        };
        let icecast = RtmpServer::icecast(world.addr).await;
        let mut stranger = Publisher::of_audio(&icecast, "42", "guess");
        stranger.is_refused().await;
        let token = mint(&json!({"sub": "s1", "role": "streamer", "exp": in_seconds(60)}));
        let mut source = Publisher::of_audio(&icecast, "42", &token);
        until("the live opens", BEGINS_WITHIN, async || {
            is("state", "open").await
        })
        .await;
        is("streamer_id", "s1").await.unwrap();
        source.stop();
        until("the live closes", GRACE + BEGINS_WITHIN, async || {
            is("state", "closed").await
        })
        .await;
    });
}
