//! A viewer's app says by datagram that it is there. It is counted as all others are, goes on when
//! its address changes or its gateway dies, and nobody else can speak for it.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use rollcall::features::datagrams::wire::{DatagramAnswer, DatagramStatus};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UdpSocket;
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use crate::support::datagrams::{counted, stays_silent, udp_address, with_datagrams};
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::wait::{PATIENCE, SLACK, becomes, same, throughout, until};
use crate::support::world::World;

on_both_stores! {
    tuned(with_datagrams)
    async fn an_app_that_beats_by_datagram_is_counted_as_all_others_are(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut app = world.app_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        let mut ack = app.beat().await;
        while ack.fan.is_none() || ack.fans == 0 {
            ack = app.beat().await;
        }
        assert_eq!((ack.fan, ack.viewers, ack.fans), (Some(true), 1, 1));
        assert_eq!((ack.beat_ms, ack.info), (400, 0));
        let version = world.backend().tell("42", json!({"goods": 7})).await;
        while ack.info == 0 {
            ack = app.beat().await;
        }
        assert_eq!(ack.info, version as u32);
        app.keeps_beating(world.config.timeout * 2).await;
        assert_eq!(world.figures("42").await, (1, 1));
        app.leaves().await;
        world.figures_become("42", (0, 0), PATIENCE).await;
        world.fans_become("42", &[]).await;
        app.hears_status(DatagramStatus::Left).await;
    }
}

on_memory! {
    tuned(with_datagrams)
    async fn who_is_silent_is_gone_and_a_beat_brings_the_viewer_back(world) {
        world.open("42").await;
        let mut app = world.app_in("u1", "42").await;
        world.figures_become("42", (1, 0), PATIENCE).await;
        world.figures_become("42", (0, 0), PATIENCE).await;
        app.settles().await;
        world.figures_become("42", (1, 0), PATIENCE).await;
        assert!(counted(&world, "resumed").await >= 1.0);
    }
}

on_memory! {
    tuned(with_datagrams)
    async fn copies_of_datagrams_keep_nobody_whoever_sends_them(world) {
        world.open("42").await;
        let mut app = world.app_in("u1", "42").await;
        for _ in 0..5 {
            app.beat().await;
        }
        let recorded = app.sent.clone();
        let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let gateway = udp_address(&world).await;
        let silent_since = Instant::now();
        until("gone, although copies arrive", world.config.timeout + SLACK + PATIENCE, async || {
            for copy in &recorded {
                stranger.send_to(copy, gateway).await.unwrap();
            }
            same(world.figures("42").await, (0, 0))
        })
        .await;
        assert!(silent_since.elapsed() < world.config.timeout + SLACK * 2);
        // The same from the address of the app itself.
        app.settles().await;
        world.figures_become("42", (1, 0), PATIENCE).await;
        let recorded = app.sent.clone();
        until("gone, although copies arrive", world.config.timeout + SLACK + PATIENCE, async || {
            for copy in &recorded {
                app.repeats(copy).await;
            }
            same(world.figures("42").await, (0, 0))
        })
        .await;
        assert!(counted(&world, "replayed").await > 0.0);
    }
}

on_memory! {
    tuned(with_datagrams)
    async fn an_app_whose_port_changes_goes_on(world) {
        world.open("42").await;
        let mut app = world.app_in("u1", "42").await;
        world.figures_become("42", (1, 0), PATIENCE).await;
        for _ in 0..10 {
            let former = app.address();
            app.gets_another_port().await;
            assert_ne!(app.address(), former);
            app.settles().await;
            sleep(world.config.heartbeat).await;
            assert_eq!(world.figures("42").await, (1, 0));
        }
        assert_eq!(counted(&world, "resumed").await, 0.0);
    }
}

on_memory! {
    tuned(with_datagrams)
    async fn an_app_whose_datagrams_are_repeated_all_the_time_goes_on_from_another_port(world) {
        world.open("42").await;
        let mut app = world.app_in("u1", "42").await;
        let overheard = app.sent.clone();
        let gateway = udp_address(&world).await;
        // Each 2,000 times a second.
        let flood = tokio::spawn(async move {
            let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            for n in 0_u64.. {
                for copy in &overheard {
                    let _ = stranger.send_to(copy, gateway).await;
                }
                if n % 20 == 0 {
                    sleep(Duration::from_millis(10)).await;
                }
            }
        });
        for _ in 0..5 {
            app.gets_another_port().await;
            app.settles().await;
        }
        flood.abort();
        assert_eq!(world.figures("42").await, (1, 0));
        assert_eq!(counted(&world, "resumed").await, 0.0);
    }
}

on_memory! {
    tuned(with_datagrams)
    async fn datagrams_of_any_other_kind_get_no_answer(world) {
        world.open("42").await;
        let mut app = world.app_in("u1", "42").await;
        let gateway = udp_address(&world).await;
        let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let beat = app.makes_beat();
        for length in 0..beat.len() {
            stranger.send_to(&beat[..length], gateway).await.unwrap();
        }
        for length in [beat.len() + 1, 1_200, 1_500, 9_000] {
            let mut padded = beat.clone();
            padded.resize(length, 0);
            stranger.send_to(&padded, gateway).await.unwrap();
        }
        for at in 0..beat.len() {
            let mut forged = beat.clone();
            forged[at] ^= 0x80;
            stranger.send_to(&forged, gateway).await.unwrap();
        }
        assert!(stays_silent(&stranger).await);
        // What was cut, padded and forged has used nothing up.
        app.sends(beat).await;
        assert!(matches!(app.hears(PATIENCE).await, Some(DatagramAnswer::Ack(_))));
    }
}

on_memory! {
    tuned(with_datagrams)
    async fn a_flood_of_garbage_harms_no_honest_app(world) {
        world.open("42").await;
        let mut app = world.app_in("u1", "42").await;
        let gateway = udp_address(&world).await;
        let flood = tokio::spawn(async move {
            let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let mut garbage = [0x11; 42];
            for n in 0_u64.. {
                garbage[2..10].copy_from_slice(&n.to_be_bytes());
                let _ = stranger.send_to(&garbage, gateway).await;
                if n % 50 == 0 {
                    sleep(Duration::from_millis(1)).await;
                }
            }
        });
        app.keeps_beating(world.config.timeout * 2).await;
        flood.abort();
        assert_eq!(world.figures("42").await, (1, 0));
        assert!(counted(&world, "forged").await > 1_000.0);
        assert_eq!(world.metric("rollcall_members").await, 1.0);
    }
}

on_memory! {
    tuned(with_datagrams)
    async fn an_app_learns_that_the_live_closed(world) {
        world.open("42").await;
        let mut app = world.app_in("u1", "42").await;
        world.backend().close("42").await;
        app.hears_status(DatagramStatus::Closed).await;
        world.open("42").await;
        app.hears_status(DatagramStatus::Closed).await;
        assert_eq!(world.figures("42").await, (0, 0));
    }
}

on_memory! {
    tuned(with_datagrams)
    async fn an_app_whose_user_was_removed_learns_it_and_stays_away(world) {
        world.open("42").await;
        let mut app = world.app_in("u1", "42").await;
        world.figures_become("42", (1, 0), PATIENCE).await;
        world.backend().ban("42", "u1", 60).await;
        app.hears_status(DatagramStatus::Removed).await;
        world.figures_become("42", (0, 0), PATIENCE).await;
    }
}

on_redis! {
    tuned(with_datagrams)
    async fn any_gateway_goes_on_with_a_session_and_a_leave_is_one_on_all(world) {
        let other = world.another_gateway().await;
        world.open("42").await;
        let mut app = world.app_in("u1", "42").await;
        app.goes_to(udp_address(&other).await);
        app.settles().await;
        app.goes_to(udp_address(&world).await);
        app.settles().await;
        becomes("both know the one viewer", ((1, 0), (1, 0)), async || {
            (world.figures("42").await, other.figures("42").await)
        })
        .await;
        app.goes_to(udp_address(&other).await);
        app.leaves().await;
        // Long before a gateway would find the session silent.
        until("gone on both", world.config.timeout / 2 + SLACK / 2, async || {
            same((world.figures("42").await, other.figures("42").await), ((0, 0), (0, 0)))
        })
        .await;
        app.goes_to(udp_address(&world).await);
        app.hears_status(DatagramStatus::Left).await;
    }
}

#[test]
fn a_gateway_is_killed_and_its_apps_go_on_at_another_one() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program_with(redis.clone(), with_datagrams).await;
        let other = World::beside(redis, with_datagrams).await;
        other.open("42").await;
        let gateways = [udp_address(&doomed).await, udp_address(&other).await];
        let mut staying = Vec::new();
        for n in 0..20 {
            let app = doomed.app_in(&format!("u{n}"), "42").await;
            staying.push(app.stays(gateways.to_vec()));
        }
        other.figures_become("42", (20, 0), PATIENCE).await;
        doomed.process().kill();
        let bound = other.config.heartbeat * 2 + other.config.lease;
        throughout(
            "nobody is missing or counted twice",
            bound * 2,
            async || same(other.figures("42").await, (20, 0)),
        )
        .await;
        // All of them are at the other gateway by now, and the dead one holds nobody.
        assert_eq!(other.metric("rollcall_members").await, 20.0);
        drop(staying);
        other.figures_become("42", (0, 0), PATIENCE).await;
    });
}

#[test]
fn a_gateway_that_stops_sends_its_apps_to_another_one() {
    story(async {
        let redis = Redis::start().await;
        let tune = |config: &mut rollcall::config::Config| {
            with_datagrams(config);
            config.drain = Duration::from_secs(4);
        };
        let mut stopping = Box::pin(World::program_with(redis.clone(), tune)).await;
        let other = Box::pin(World::beside(redis, tune)).await;
        other.open("42").await;
        let mut app = stopping.app_in("u1", "42").await;
        other.figures_become("42", (1, 0), PATIENCE).await;
        stopping.process().terminate();
        app.hears_status(DatagramStatus::Move).await;
        app.goes_to(udp_address(&other).await);
        app.settles().await;
        let staying = app.stays(vec![udp_address(&other).await]);
        let left = stopping.process().exit(PATIENCE * 2);
        let stayed = throughout("the viewer stays", Duration::from_secs(3), async || {
            same(other.figures("42").await, (1, 0))
        });
        let ((), status) = tokio::join!(stayed, left);
        assert_eq!(status.code(), Some(0));
        drop(staying);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_cannot_take_the_same_address() {
    let world = World::on_memory(with_datagrams).await;
    let taken: SocketAddr = udp_address(&world).await;
    let mut config = (*world.config).clone();
    config.udp = Some(taken);
    let Err(why) = rollcall::gateway::start(config).await else {
        panic!("a second gateway started at {taken}");
    };
    let why = why.to_string();
    assert!(
        why.starts_with(&format!("cannot listen on {taken}")),
        "{why}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_tells_apps_what_its_settings_say() {
    let world = World::on_memory(|config| {
        with_datagrams(config);
        config.udp_advertise = vec!["gw1.example.org:81".to_owned(), ":82".to_owned()];
    })
    .await;
    world.open("42").await;
    let caller = world.caller("u1", "42").await;
    let told = &caller.begun["udp"]["addresses"];
    assert_eq!(*told, json!(["gw1.example.org:81", ":82"]));
}

/// The program in Python that the document shows.
fn program() -> String {
    let page = include_str!("../../docs/datagrams.md");
    let (_, rest) = page.split_once("```python\n").expect("a program");
    let (program, _) = rest.split_once("```").expect("its end");
    program.to_owned()
}

#[test]
fn the_program_in_python_stays_in_its_live_until_its_user_is_removed() {
    story(async {
        let world = World::on_memory(with_datagrams).await;
        world.open("42").await;
        let url = format!("http://{}/v1/presence?user_id=u1", world.addr);
        let mut python = Command::new("/usr/bin/python3")
            .args(["-c", &program(), &url, "42"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("python3 is missing: ./tests/run installs it");
        let mut lines = BufReader::new(python.stdout.take().unwrap()).lines();
        let mut next = async || {
            let line = timeout(PATIENCE, lines.next_line()).await.expect("an ack");
            let line = line.unwrap().expect("the program goes on");
            serde_json::from_str::<Value>(&line).unwrap()
        };
        let ack = next().await;
        assert_eq!(
            ack,
            json!({"status": 0, "viewers": 1, "fans": 0, "info": 0})
        );
        throughout("it stays", world.config.timeout * 2, async || {
            same(world.figures("42").await, (1, 0))
        })
        .await;
        world.backend().ban("42", "u1", 60).await;
        while next().await["status"] != 4 {}
        let status = timeout(PATIENCE, python.wait()).await.expect("its end");
        assert!(status.unwrap().success());
    });
}
