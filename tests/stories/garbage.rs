//! Garbage: thousands of random frames and bytes neither stop the gateway nor leave a key behind.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use crate::support::socket::UPGRADE;
use crate::support::stores::{on_memory, on_redis};
use crate::support::wait::PATIENCE;
use crate::support::world::World;

const FRAMES: usize = 10_000;
const PER_SOCKET: usize = 20;
const AT_ONCE: usize = 8;

fn word(rng: &mut StdRng) -> String {
    let words = [
        "type", "join", "live_id", "42", "\u{0}", "{", "}", "\"", "\\", "[", ":", ",", "null", "é",
        "\n", "*",
    ];
    (0..rng.random_range(0..12))
        .map(|_| *words.choose(rng).unwrap())
        .collect()
}

/// A frame that no client should send; now and then one that is almost right.
fn garbage(rng: &mut StdRng) -> Message {
    match rng.random_range(0..7) {
        0 => Message::text(word(rng)),
        1 => {
            let mut bytes = vec![0; rng.random_range(0..200)];
            rng.fill_bytes(&mut bytes);
            Message::binary(bytes)
        }
        2 => {
            let types = [
                "join",
                "leave",
                "watch",
                "unwatch",
                "open",
                "close",
                "heartbeat",
                "refresh",
                "",
            ];
            Message::text(
                json!({"type": types.choose(rng).unwrap(), "live_id": word(rng), "id": word(rng)})
                    .to_string(),
            )
        }
        3 => Message::text(json!({"type": word(rng), word(rng): word(rng)}).to_string()),
        4 => Message::text("[".repeat(rng.random_range(1..2_000))),
        5 => Message::text(format!("{{\"type\":\"join\",\"live_id\":{}}}", word(rng))),
        _ => Message::Ping(word(rng).into_bytes().into()),
    }
}

async fn everything_still_works(world: &World) {
    world.open("after").await;
    world.follow(&["u1"]).await;
    let _viewer = world.viewer_in("u1", "after").await;
    world.fans_become("after", &["u1"]).await;
    assert_eq!(world.backend().get("/healthz").await.status, 200);
}

on_redis! {
    // The sockets alone would make keys of the users who are online.
    tuned(|config| config.track_online = false)
    async fn ten_thousand_random_frames_do_no_harm(world) {
        let world = Arc::new(world);
        let before = world.redis().keys("*").await;
        let mut senders = tokio::task::JoinSet::new();
        for sender in 0..AT_ONCE {
            let world = world.clone();
            senders.spawn(async move {
                let mut rng = StdRng::seed_from_u64(sender as u64);
                for socket in 0..FRAMES / AT_ONCE / PER_SOCKET {
                    let mut viewer = world.person(&format!("u{sender}-{socket}"), "viewer", "").await;
                    for _ in 0..PER_SOCKET {
                        viewer.say_frame(garbage(&mut rng)).await;
                    }
                    assert!(viewer.survives_errors().await, "closed by garbage: {}", viewer.transcript());
                }
            });
        }
        while let Some(done) = senders.join_next().await {
            done.unwrap();
        }
        let after = world.redis().keys("*").await;
        let new: Vec<_> = after.difference(&before).filter(|key| !key.starts_with("rollcall:")).collect();
        assert!(new.is_empty(), "garbage made keys: {new:?}");
        everything_still_works(&world).await;
    }
}

on_memory! {
    async fn garbage_on_the_port_does_no_harm(world) {
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..100 {
            let mut tcp = TcpStream::connect(world.addr).await.unwrap();
            let mut bytes = vec![0; rng.random_range(1..2_000)];
            rng.fill_bytes(&mut bytes);
            let _ = tcp.write_all(&bytes).await;
        }
        let half_an_upgrade = "GET /ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n\r\n";
        for request in ["GET / HTTP/9.9\r\n\r\n", half_an_upgrade, "\r\n\r\n\r\n"] {
            let mut tcp = TcpStream::connect(world.addr).await.unwrap();
            tcp.write_all(request.as_bytes()).await.unwrap();
            tcp.shutdown().await.unwrap();
            let mut answer = Vec::new();
            let read = tokio::time::timeout(PATIENCE, tcp.read_to_end(&mut answer)).await;
            read.expect("a request that makes no sense is answered or cut").ok();
        }
        everything_still_works(&world).await;
    }
}

on_memory! {
    async fn broken_frames_after_the_upgrade_do_no_harm(world) {
        let mut rng = StdRng::seed_from_u64(9);
        for _ in 0..100 {
            let mut tcp = TcpStream::connect(world.addr).await.unwrap();
            tcp.write_all(UPGRADE.as_bytes()).await.unwrap();
            let mut head = [0; 12];
            tcp.read_exact(&mut head).await.unwrap();
            assert_eq!(&head, b"HTTP/1.1 101");
            let mut bytes = vec![0; rng.random_range(1..400)];
            rng.fill_bytes(&mut bytes);
            let _ = tcp.write_all(&bytes).await;
        }
        everything_still_works(&world).await;
    }
}
