//! Any frame is a heartbeat: text, a Ping, or the Pong that answers the server's Ping. A plain
//! client that only answers Pings stays present with no code.

use serde_json::json;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::support::stores::{on_both_stores, on_memory};
use crate::support::viewer::Viewer;
use crate::support::wait::SLACK;
use crate::support::world::World;

/// Several timeouts long, so the gateway heard everyone in between who is still there at its end.
fn long_enough(world: &World) -> std::time::Duration {
    world.config.timeout * 2 + SLACK
}

/// A fan whose client no longer answers Pings, so the gateway hears only what the story sends.
async fn hand_operated_fan(world: &World) -> Viewer {
    world.open("42").await;
    world.follow(&["u1"]).await;
    let viewer = world.viewer_in("u1", "42").await;
    world.fans_become("42", &["u1"]).await;
    viewer.answer_no_pings();
    viewer
}

on_both_stores! {
    async fn a_client_that_only_answers_pings_stays(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.person("u1", "viewer", "&live_id=42").await;
        viewer.expect("joined").await;
        world.fans_become("42", &["u1"]).await;
        world.fans_stay("42", &["u1"], long_enough(&world)).await;
        assert!(viewer.is_connected().await);
        assert!(viewer.pings() >= 3, "a silent socket is pinged every heartbeat interval: {}", viewer.pings());
    }
}

on_memory! {
    async fn a_client_that_speaks_is_not_pinged(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let end = Instant::now() + world.config.heartbeat * 5;
        let mut slowest = std::time::Duration::ZERO;
        while Instant::now() < end {
            let said = Instant::now();
            viewer.heartbeat().await;
            tokio::time::sleep(world.config.heartbeat / 4).await;
            slowest = slowest.max(said.elapsed());
        }
        if slowest < world.config.heartbeat * 3 / 4 {
            assert_eq!(viewer.pings(), 0, "{}", viewer.transcript());
        }
    }
}

on_memory! {
    async fn pings_of_the_client_are_heartbeats(world) {
        let mut viewer = hand_operated_fan(&world).await;
        let end = Instant::now() + long_enough(&world);
        while Instant::now() < end {
            viewer.ping().await;
            world.fans_stay("42", &["u1"], world.config.heartbeat / 2).await;
        }
    }
}

on_memory! {
    async fn text_of_any_kind_is_a_heartbeat(world) {
        let mut viewer = hand_operated_fan(&world).await;
        let end = Instant::now() + long_enough(&world);
        let mut turn = 0;
        while Instant::now() < end {
            match turn % 3 {
                0 => drop(viewer.heartbeat_json().await),
                1 => drop(viewer.is_refused(json!({"type": "no such type"}), "unknown_type").await),
                _ => drop(viewer.is_refused(json!(["not", "an", "object"]), "bad_message").await),
            }
            turn += 1;
            world.fans_stay("42", &["u1"], world.config.heartbeat / 2).await;
        }
    }
}

on_memory! {
    async fn pieces_of_a_message_are_heartbeats(world) {
        let mut viewer = hand_operated_fan(&world).await;
        let piece = |text: &str, data, last| Message::Frame(Frame::message(text.to_owned(), OpCode::Data(data), last));
        viewer.say_frame(piece("{\"type\":", Data::Text, false)).await;
        let end = Instant::now() + long_enough(&world);
        while Instant::now() < end {
            viewer.say_frame(piece(" ", Data::Continue, false)).await;
            world.fans_stay("42", &["u1"], world.config.heartbeat / 2).await;
        }
        viewer.say_frame(piece("\"heartbeat\"}", Data::Continue, true)).await;
        viewer.expect("heartbeat_ack").await;
    }
}

on_memory! {
    async fn without_any_of_these_the_same_client_is_closed(world) {
        let mut viewer = hand_operated_fan(&world).await;
        viewer.expect_closed(4_000).await;
        world.fans_become("42", &[]).await;
    }
}
