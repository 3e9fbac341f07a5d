//! Which requests a socket refuses, and with which code. A refusal never closes the socket, except
//! for an oversized frame.

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::support::stores::on_memory;
use crate::support::viewer::Viewer;

async fn frame_is_refused(viewer: &mut Viewer, frame: Message, codes: &[&str]) {
    let shown = format!("{frame:?}");
    viewer.say_frame(frame).await;
    let error = viewer.expect("error").await;
    assert!(
        codes.contains(&error["code"].as_str().unwrap()),
        "{error} for {shown}"
    );
    assert!(error["message"].is_string(), "{error}");
}

on_memory! {
    async fn a_frame_that_is_no_object_is_a_bad_message(world) {
        let mut viewer = world.viewer("u1").await;
        let open_ended = "{\"type\":\"heartbeat\"";
        for text in ["", " ", "heartbeat", "{", open_ended, "[]", "[{\"type\":\"heartbeat\"}]", "null", "7"] {
            frame_is_refused(&mut viewer, Message::text(text), &["bad_message"]).await;
        }
        for bytes in [b"".as_slice(), b"{\"type\":\"heartbeat\"}", &[0xff, 0x00, 0xfe]] {
            frame_is_refused(&mut viewer, Message::binary(bytes), &["bad_message"]).await;
        }
        assert!(viewer.is_connected().await);
    }
}

on_memory! {
    async fn unknown_types_are_told_and_unknown_fields_ignored(world) {
        world.open("42").await;
        let mut viewer = world.viewer("u1").await;
        viewer.is_refused(json!({"type": "dance"}), "unknown_type").await;
        viewer.is_refused(json!({"type": "Join", "live_id": "42"}), "unknown_type").await;
        viewer.is_refused(json!({"type": "welcome"}), "unknown_type").await;
        viewer.say(json!({"type": "join", "live_id": "42", "room": [1, {"x": null}], "v": 2})).await;
        viewer.expect("joined").await;
    }
}

on_memory! {
    async fn ids_outside_the_rules_are_invalid(world) {
        let long = "x".repeat(65);
        let ids = ["", "{42}", "4 2", "42\n", "42\u{0}", "*", "42:1", "a/b", "ä", "42_slice1", "_slice0", &long];
        for ids in ids.chunks(6) {
            let mut viewer = world.viewer("u1").await;
            for id in ids {
                let error = viewer.is_refused(json!({"type": "join", "live_id": id}), "invalid_id").await;
                assert!(error.to_string().len() < 600, "an error is short: {error}");
            }
        }
        let mut streamer = world.streamer("s1").await;
        for id in ["{42}", "42_slice12", "4\r\n2"] {
            streamer.is_refused(json!({"type": "open", "live_id": id}), "invalid_id").await;
            streamer.is_refused(json!({"type": "watch", "live_id": id}), "invalid_id").await;
            streamer.is_refused(json!({"type": "close", "live_id": id}), "invalid_id").await;
        }
        let mut service = world.service().await;
        for id in ["", "{s}", "s 1"] {
            service.is_refused(json!({"type": "open", "live_id": "42", "streamer_id": id}), "invalid_id").await;
        }
        let longest = "x".repeat(64);
        assert_eq!(world.streamer("s1").await.open(&longest).await["live_id"], longest.as_str());
    }
}

on_memory! {
    async fn leaving_nothing_is_not_joined(world) {
        world.open("42").await;
        let mut viewer = world.viewer("u1").await;
        viewer.is_refused(json!({"type": "leave"}), "not_joined").await;
        viewer.join("42").await;
        viewer.leave().await;
        viewer.is_refused(json!({"type": "leave"}), "not_joined").await;
    }
}

on_memory! {
    async fn a_reply_repeats_the_id_of_its_request(world) {
        world.open("42").await;
        let mut viewer = world.viewer("u1").await;
        for (id, kind, request) in [
            (json!(7), "joined", json!({"type": "join", "live_id": "42"})),
            (json!("a\"b\\ü"), "heartbeat_ack", json!({"type": "heartbeat"})),
            (json!(18_446_744_073_709_551_615_u64), "heartbeat_ack", json!({"type": "heartbeat"})),
            (json!(-1), "error", json!({"type": "dance"})),
            (json!(0), "error", json!({"type": "join", "live_id": "{"})),
            (json!("x"), "left", json!({"type": "leave"})),
        ] {
            let mut request = request;
            request["id"] = id.clone();
            viewer.say(request).await;
            assert_eq!(viewer.expect(kind).await["id"], id);
        }
        let mut streamer = world.streamer("s1").await;
        streamer.say(json!({"type": "open", "live_id": "43", "id": "o"})).await;
        assert_eq!(streamer.expect("opened").await["id"], "o");
        streamer.say(json!({"type": "watch", "live_id": "43", "id": "w"})).await;
        assert_eq!(streamer.expect("counts").await["id"], "w");
        streamer.say(json!({"type": "close", "live_id": "43", "id": "c"})).await;
        assert_eq!(streamer.expect("closed").await["id"], "c");
        assert_eq!(viewer.heartbeat_json().await.get("id"), None::<&Value>, "no id where none was sent");
    }
}

on_memory! {
    async fn a_frame_over_4_kib_closes_with_1009(world) {
        let of_size = |size: usize| {
            let head = "{\"type\":\"heartbeat\",\"pad\":\"";
            Message::text(format!("{head}{}\"}}", "x".repeat(size - head.len() - 2)))
        };
        let mut viewer = world.viewer("u1").await;
        viewer.say_frame(of_size(4_096)).await;
        viewer.expect("heartbeat_ack").await;
        viewer.say_frame(of_size(4_097)).await;
        viewer.expect_closed(1_009).await;
        let mut viewer = world.viewer("u1").await;
        viewer.say_frame(Message::binary(vec![0; 1_000_000])).await;
        viewer.end().await;
    }
}
