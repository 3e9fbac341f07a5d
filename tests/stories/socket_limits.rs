//! One client cannot spoil it for others: how fast a socket may send, how many sockets a user may have, and what a
//! socket and a live take.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::support::stores::on_both_stores;
use crate::support::wait::{PATIENCE, until};
use crate::support::world::World;

fn heartbeat() -> Value {
    json!({"type": "heartbeat"})
}

/// How often a limit refused or closed something.
async fn limited(world: &World, limit: &str) -> f64 {
    world.metric(&format!("rollcall_limited_total{{why=\"{limit}\"}}")).await
}

on_both_stores! {
    async fn a_client_that_floods_is_told_once_and_then_closed(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        let mut pace = tokio::time::interval(Duration::from_millis(1));
        for _ in 0..60 {
            viewer.say(heartbeat()).await;
            pace.tick().await;
        }
        viewer.expect_error("rate_limited").await;
        // Any further error would fail this.
        viewer.hear_kind("none", Instant::now() + PATIENCE).await;
        viewer.expect_closed(4_008).await;
        world.fans_become("42", &[]).await;
        // 20 at once were served, 20 more were refused, and the next one was too many.
        let refused = limited(&world, "messages").await;
        assert!((21.0..=22.0).contains(&refused), "{refused} refused");
    }
}

on_both_stores! {
    async fn endless_pieces_of_a_message_are_no_way_around(world) {
        let mut viewer = world.viewer("u1").await;
        let piece = |data| Message::Frame(Frame::message("", OpCode::Data(data), false));
        viewer.say_frame(piece(Data::Text)).await;
        for _ in 0..60 {
            viewer.say_frame(piece(Data::Continue)).await;
        }
        assert_eq!(viewer.expect("error").await["code"], "rate_limited");
        viewer.say_frame(piece(Data::Continue)).await;
        viewer.expect_closed(4_008).await;
    }
}

on_both_stores! {
    async fn a_client_that_keeps_the_rate_is_always_served(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let mut pace = tokio::time::interval(Duration::from_millis(100));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for _ in 0..50 {
            pace.tick().await;
            viewer.heartbeat().await;
        }
        assert_eq!(limited(&world, "messages").await, 0.0);
    }
}

on_both_stores! {
    async fn a_client_that_was_refused_is_served_again_after_a_pause(world) {
        let mut viewer = world.viewer("u1").await;
        for _ in 0..30 {
            viewer.say(heartbeat()).await;
        }
        viewer.expect_error("rate_limited").await;
        // Ten beyond a burst of twenty: at ten a second it takes a second until one is served.
        viewer.hears_no("error", Duration::from_millis(1_500)).await;
        viewer.survives_errors().await;
        viewer.heartbeat_json().await;
    }
}

on_both_stores! {
    tuned(|config| config.message_rate = 0)
    async fn without_a_limit_a_client_may_send_as_it_likes(world) {
        let mut viewer = world.viewer("u1").await;
        for _ in 0..1_000 {
            viewer.heartbeat_json().await;
        }
    }
}

on_both_stores! {
    tuned(|config| config.sockets_per_user = 2)
    async fn the_oldest_socket_of_a_user_goes_when_there_are_too_many(world) {
        world.open("42").await;
        let mut first = world.viewer_in("u1", "42").await;
        // A gateway knows the age of a socket in milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let second = world.viewer_in("u1", "42").await;
        let mut other = world.viewer_in("u2", "42").await;
        let mut third = world.viewer_in("u1", "42").await;
        first.expect_closed(4_009).await;
        // Still one viewer, through the sockets that are left.
        world.acks_become(&mut third, Some(false), 2, 0).await;
        second.close().await;
        let mut fourth = world.viewer_in("u1", "42").await;
        for viewer in [&mut other, &mut third, &mut fourth] {
            assert!(viewer.is_connected().await, "{}", viewer.transcript());
        }
        assert_eq!(limited(&world, "sockets_per_user").await, 1.0);
    }
}

on_both_stores! {
    tuned(|config| {
        config.sockets_per_user = 1;
        config.timeout = Duration::from_secs(60);
    })
    async fn the_seat_of_a_socket_that_vanished_is_no_socket(world) {
        world.open("42").await;
        world.viewer_in("u1", "42").await.reset().await;
        until("the gateway notices that the socket is gone", PATIENCE, async || {
            let open = world.metric("rollcall_sockets").await;
            if open == 0.0 { Ok(()) } else { Err(open) }
        })
        .await;
        let mut again = world.viewer_in("u1", "42").await;
        assert!(again.is_connected().await);
        assert_eq!(limited(&world, "sockets_per_user").await, 0.0);
    }
}

on_both_stores! {
    tuned(|config| {
        config.watches_per_socket = 2;
        config.opens_per_socket = 1;
    })
    async fn a_socket_watches_and_opens_only_so_many_lives(world) {
        for live in ["1", "2", "3"] {
            world.open(live).await;
        }
        let request = |kind: &str, live: &str| json!({"type": kind, "live_id": live, "streamer_id": "s1"});
        let mut service = world.service().await;
        for live in ["1", "2", "2"] {
            assert_eq!(service.ask(request("watch", live)).await["type"], "counts");
        }
        service.is_refused(request("watch", "3"), "rate_limited").await;
        service.ask(request("unwatch", "1")).await;
        assert_eq!(service.ask(request("watch", "3")).await["type"], "counts");

        for live in ["4", "4"] {
            assert_eq!(service.ask(request("open", live)).await["type"], "opened");
        }
        service.is_refused(request("open", "5"), "rate_limited").await;
        // A live that is open already counts as any other.
        service.is_refused(request("open", "1"), "rate_limited").await;
        assert_eq!(world.backend().get("/v1/lives/5").await.status, 404, "nothing was written");
        service.close_live("4").await;
        assert_eq!(service.ask(request("open", "5")).await["type"], "opened");
        assert_eq!((limited(&world, "watches").await, limited(&world, "opens").await), (1.0, 2.0));
    }
}

on_both_stores! {
    tuned(|config| config.opens_per_socket = 1)
    async fn a_streamer_opens_no_more_lives_over_new_sockets(world) {
        let mut first = world.streamer("s1").await;
        first.open("6").await;
        let mut second = world.streamer("s1").await;
        second.is_refused(json!({"type": "open", "live_id": "7"}), "rate_limited").await;
        second.ask(json!({"type": "open", "live_id": "6"})).await;
        second.is_refused(json!({"type": "open", "live_id": "8", "slices": 256}), "forbidden").await;
        first.close_live("6").await;
        assert_eq!(second.ask(json!({"type": "open", "live_id": "7"})).await["type"], "opened");
    }
}

on_both_stores! {
    tuned(|config| {
        config.join_rate = 2;
        config.message_rate = 0;
    })
    async fn a_live_takes_only_so_many_joins_a_second(world) {
        for live in ["42", "43"] {
            world.open(live).await;
        }
        let mut viewer = world.viewer_in("u1", "43").await;
        for _ in 0..10 {
            // A socket that is there already joins at no cost.
            viewer.join("43").await;
        }
        let mut joined = 0;
        let (refused, there) = loop {
            let (live, there) = if joined % 2 == 0 { ("42", "43") } else { ("43", "42") };
            let answer = viewer.ask(json!({"type": "join", "live_id": live})).await;
            if answer["type"] == "error" {
                assert_eq!(answer["code"], "rate_limited");
                break (live, there);
            }
            joined += 1;
            assert!(joined < 200, "no join was refused");
        };
        assert!(joined >= 6, "four join each live at once, and one of them had joined before: {joined}");
        assert_eq!(viewer.heartbeat_json().await["live_id"], there, "the socket stays where it was");
        let viewer = tokio::sync::Mutex::new(viewer);
        until("the live takes another join", PATIENCE, async || {
            let answer = viewer.lock().await.ask(json!({"type": "join", "live_id": refused})).await;
            if answer["type"] == "joined" { Ok(()) } else { Err(answer) }
        })
        .await;
        assert!(limited(&world, "joins").await >= 1.0);
    }
}
