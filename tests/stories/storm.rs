//! Everybody connects at once: the gateway admits sockets at a bounded rate and tells the others
//! when to come back. Viewers who stayed connected do not notice, and the figures stay right.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::handshake::client::Response;

use crate::support::dashboard::{fans, viewers};
use crate::support::socket::Socket;
use crate::support::stores::{on_memory, story};
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, SLACK, until};
use crate::support::world::World;

/// What a 503 contains: its code, and after how many seconds to come back.
fn refusal(answer: &Response) -> (String, u64) {
    assert_eq!(answer.status(), 503, "{answer:?}");
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    assert_eq!(answer.headers()["connection"], "close");
    let after = answer.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .expect("whole seconds");
    let body: Value = serde_json::from_slice(answer.body().as_deref().unwrap_or_default()).unwrap();
    (body["code"].as_str().unwrap().to_owned(), after)
}

/// Joins with the URL, and comes back as told after a refusal. Returns how often it was refused,
/// too.
async fn obedient(addr: SocketAddr, user: String) -> (Viewer, usize) {
    let path = format!("/ws?user_id={user}&live_id=42");
    for refused in 0..8 {
        match Socket::connect(addr, &path, &[]).await {
            Ok((socket, _)) => {
                let mut viewer = Viewer::greeted(&user, socket).await;
                viewer.expect("joined").await;
                return (viewer, refused);
            }
            Err(Error::Http(answer)) => {
                let (code, after) = refusal(&answer);
                assert_eq!(code, "crowded");
                assert!((1..=30).contains(&after), "{after} s");
                tokio::time::sleep(Duration::from_secs(after)).await;
            }
            Err(error) => panic!("{user}: {error}"),
        }
    }
    panic!("{user} came back as told, again and again, and never got in");
}

/// Users `u0` to `u<n-1>`, who connect all at once, and how often they were refused in total.
async fn herd(world: &World, n: usize) -> (Vec<Viewer>, usize) {
    let all = join_all((0..n).map(|i| obedient(world.addr, format!("u{i}")))).await;
    let refused = all.iter().map(|(_, refused)| refused).sum();
    (all.into_iter().map(|(viewer, _)| viewer).collect(), refused)
}

on_memory! {
    tuned(|config| (config.handshake_rate, config.message_rate) = (20, 0))
    async fn more_come_than_the_rate_and_all_get_in(world) {
        world.open("42").await;
        let mut stayed = world.viewer_in("stayed", "42").await;
        let others = async {
            loop {
                let asked = Instant::now();
                stayed.heartbeat().await;
                assert!(asked.elapsed() < SLACK, "a heartbeat was answered after {:?}", asked.elapsed());
                world.backend().get("/healthz").await.is(200);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let began = Instant::now();
        let (everybody, refused) = tokio::select! {
            everybody = herd(&world, 70) => everybody,
            () = others => unreachable!(),
        };
        // The rate is 20 per second. The gateway admits 2 at once, and 10 more after a wait of at
        // most half a second.
        assert!(began.elapsed() > Duration::from_millis(2_500), "70 at 20 a second took {:?}", began.elapsed());
        assert!(refused > 0, "nobody was told to come back");
        assert_eq!(world.metric("rollcall_upgrades_refused_total{why=\"crowded\"}").await, refused as f64);
        assert!(world.metric("rollcall_handshakes_delayed_total").await > 0.0);
        world.dashboard("42").await.sees(viewers(71), fans(0)).await;
        assert_eq!(everybody.len(), 70);
    }
}

#[test]
fn below_the_rate_or_without_one_nobody_is_turned_away() {
    story(async {
        for (rate, crowd) in [(200, 60), (0, 150)] {
            let world = World::on_memory(|config| config.handshake_rate = rate).await;
            world.open("42").await;
            let (everybody, refused) = herd(&world, crowd).await;
            assert_eq!((everybody.len(), refused), (crowd, 0), "rate {rate}");
        }
    });
}

on_memory! {
    tuned(|config| config.max_handshakes = 8)
    async fn connections_that_say_nothing_make_room(world) {
        world.open("42").await;
        let mut silent = Vec::new();
        for _ in 0..20 {
            silent.push(TcpStream::connect(world.addr).await.unwrap());
        }
        let _viewer = world.viewer_in("u1", "42").await;
        world.backend().get("/healthz").await.is(200);
        assert!(world.metric("rollcall_connections_dropped_total").await >= 10.0);
        // The oldest connection was closed first, long before the timeout of a handshake.
        let mut rest = Vec::new();
        tokio::time::timeout(PATIENCE, silent[0].read_to_end(&mut rest)).await.expect("closed").unwrap();
    }
}

on_memory! {
    tuned(|config| config.max_sockets = Some(3))
    async fn a_full_gateway_says_so(world) {
        let mut here = Vec::new();
        for i in 0..3 {
            here.push(world.viewer(&format!("u{i}")).await);
        }
        let Err(Error::Http(answer)) = Socket::connect(world.addr, "/ws?user_id=u4", &[]).await else {
            panic!("a fourth was let in");
        };
        let (code, after) = refusal(&answer);
        assert_eq!(code, "full");
        assert!(after >= 1);
        world.backend().get("/healthz").await.is(200);
        here.pop().unwrap().close().await;
        until("there is room again", PATIENCE, || async {
            Socket::connect(world.addr, "/ws?user_id=u4", &[]).await.map(drop)
        })
        .await;
    }
}

on_memory! {
    tuned(|config| {
        config.max_sockets = Some(4);
        config.timeout = Duration::from_secs(30);
    })
    async fn a_viewer_who_vanished_keeps_the_seat_but_no_connection(world) {
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let gone = world.crowd("u", 3, "42").await;
        dashboard.sees(viewers(3), fans(0)).await;
        gone.into_iter().for_each(Viewer::vanish);
        let (back, refused) = herd(&world, 3).await;
        assert_eq!((back.len(), refused), (3, 0));
        assert!(dashboard.log.last().unwrap().are(viewers(3), fans(0)), "{}", dashboard.seen());
    }
}

on_memory! {
    tuned(|config| {
        config.handshake_rate = 100;
        config.heartbeat = Duration::from_secs(2);
        config.timeout = Duration::from_secs(12);
        config.streamer_timeout = None;
    })
    async fn a_storm_does_not_move_the_figures(world) {
        const ALL: usize = 300;
        world.open("42").await;
        world.crowd_follows("u", 100).await;
        let mut dashboard = world.dashboard("42").await;
        let (everybody, _) = herd(&world, ALL).await;
        dashboard.sees(viewers(ALL as u64), fans(100)).await;
        let before = dashboard.log.len();

        everybody.into_iter().for_each(Viewer::vanish);
        let (mut back, refused) = herd(&world, ALL).await;
        assert!(refused > 0, "300 at 100 a second, and nobody was told to come back");
        dashboard.listen(world.config.flush * 4).await;
        let moved = dashboard.log[before..].iter().filter(|c| !c.are(viewers(ALL as u64), fans(100))).count();
        assert_eq!(moved, 0, "{}", dashboard.seen());
        for viewer in back.iter_mut().step_by(29) {
            let ack = viewer.heartbeat().await;
            assert_eq!((ack.viewers, ack.fans), (ALL as u64, 100));
        }
        world.card_becomes("42", 100, PATIENCE).await;
    }
}
