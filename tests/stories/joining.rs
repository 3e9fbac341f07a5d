//! What the gateway tells a client that connects, joins and sends heartbeats, field by field.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::socket::Socket;
use crate::support::stores::on_both_stores;
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, same, until};

fn fields(message: &Value) -> BTreeSet<&str> {
    message
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

on_both_stores! {
    async fn the_welcome_names_the_timings_that_a_client_must_keep(world) {
        let first = world.viewer("u1").await;
        let second = world.viewer("mail@example.org:tab-1").await;
        let told = ["gateway_id", "heartbeat_ms", "socket_id", "timeout_ms", "type", "user_id"];
        assert_eq!(fields(&first.welcome), BTreeSet::from(told));
        assert_eq!(first.welcome["user_id"], "u1");
        assert_eq!(first.welcome["heartbeat_ms"], 400);
        assert_eq!(first.welcome["timeout_ms"], 1_600);
        assert_eq!(second.welcome["user_id"], "mail@example.org:tab-1");
        assert!(first.welcome["gateway_id"].as_str().is_some_and(|id| !id.is_empty()));
        assert_eq!(first.welcome["gateway_id"], second.welcome["gateway_id"]);
        let session = |viewer: &Viewer| viewer.welcome["socket_id"].as_str().expect("a socket id").to_owned();
        assert_eq!((session(&first).len(), session(&second).len()), (25, 25));
        assert_ne!(session(&first), session(&second));
    }
}

on_both_stores! {
    async fn the_answer_to_a_join_names_the_streamer_and_the_counts(world) {
        world.open("42").await;
        let mut first = world.viewer("u1").await;
        let joined = first.join("42").await;
        assert_eq!(fields(&joined), BTreeSet::from(["fans", "live_id", "streamer_id", "type", "viewers"]));
        assert_eq!(joined["streamer_id"], "s1");
        assert!(joined["viewers"].as_u64() <= Some(1), "the store counts a moment later: {joined}");
        assert_eq!(joined["fans"], 0);
        world.acks_become(&mut first, Some(false), 1, 0).await;

        let mut second = world.viewer("u2").await;
        let joined = second.join("42").await;
        assert!((1..=2).contains(&joined["viewers"].as_u64().unwrap()), "{joined}");
    }
}

on_both_stores! {
    async fn a_heartbeat_is_acknowledged_with_the_figures(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let ack = viewer.heartbeat_json().await;
        assert_eq!(fields(&ack), BTreeSet::from(["fan", "fans", "heartbeat_ms", "live_id", "type", "viewers"]));
        assert_eq!(ack["live_id"], "42");
        assert_eq!(ack["heartbeat_ms"], 400);
        world.acks_become(&mut viewer, Some(true), 1, 1).await;
    }
}

on_both_stores! {
    async fn fan_is_null_until_the_first_check_has_answered(world) {
        world.open("42").await;
        let mut viewer = world.viewer("u1").await;
        // The client sends join and heartbeat together, so the gateway acknowledges before any
        // flush can ask the store.
        viewer.say(json!({"type": "join", "live_id": "42"})).await;
        let first = viewer.heartbeat_json().await;
        assert!(first["fan"].is_null() || first["fan"] == false, "{first}");
        assert!(first.as_object().unwrap().contains_key("fan"), "null is said, not left out: {first}");
        world.acks_become(&mut viewer, Some(false), 1, 0).await;
    }
}

on_both_stores! {
    async fn joining_the_same_live_again_changes_nothing(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        let again = viewer.join("42").await;
        assert_eq!(again["viewers"], 1);
        world.fans_stay("42", &["u1"], world.config.flush * 4).await;
    }
}

on_both_stores! {
    async fn a_live_that_is_not_open_cannot_be_joined_until_it_is(world) {
        let mut viewer = world.viewer("u1").await;
        viewer.is_refused(json!({"type": "join", "live_id": "42"}), "live_not_open").await;
        world.open("42").await;
        viewer.join("42").await;
    }
}

on_both_stores! {
    async fn the_address_can_name_the_live_to_join(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.person("u1", "viewer", "&live_id=42").await;
        let joined = viewer.expect("joined").await;
        assert_eq!(joined["live_id"], "42");
        world.fans_become("42", &["u1"]).await;
    }
}

on_both_stores! {
    async fn the_address_can_name_the_live_to_watch(world) {
        world.open("42").await;
        let mut watcher = world.person("s1", "streamer", "&watch=42").await;
        let counts = watcher.expect("counts").await;
        assert_eq!(counts["live_id"], "42");
        assert_eq!(counts["viewers"], 0);
    }
}

on_both_stores! {
    async fn the_subprotocol_is_selected_when_offered(world) {
        let path = "/ws?user_id=u1&role=viewer";
        let offer = [("sec-websocket-protocol", "chat, rollcall.v1")];
        let (_socket, answer) = Socket::connect(world.addr, path, &offer).await.unwrap();
        assert_eq!(answer.headers().get("sec-websocket-protocol").unwrap(), "rollcall.v1");
        let (_socket, answer) = Socket::connect(world.addr, path, &[]).await.unwrap();
        assert_eq!(answer.headers().get("sec-websocket-protocol"), None);
    }
}

on_both_stores! {
    async fn viewers_and_fans_of_a_live_stand_in_the_api(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let _crowd = (
            world.person("u1", "viewer", "&live_id=42").await,
            world.person("u2", "viewer", "&live_id=42").await,
        );
        until("the live in the API", PATIENCE, || async {
            let live = world.backend().live("42").await;
            same((live["viewers"].clone(), live["fans"].clone()), (json!(2), json!(1)))
        })
        .await;
    }
}
