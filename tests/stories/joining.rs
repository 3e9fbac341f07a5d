//! What the gateway tells a client that connects, joins and sends heartbeats, field by field.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::dashboard::Dashboard;
use crate::support::socket::Socket;
use crate::support::stores::{on_both_stores, on_memory, on_redis};
use crate::support::viewer::Viewer;

fn fields(message: &Value) -> BTreeSet<&str> {
    message
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

on_memory! {
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
        assert_eq!(fields(&joined), BTreeSet::from(["fans", "guests", "live_id", "streamer_id", "type", "viewers"]));
        assert_eq!(joined["streamer_id"], "s1");
        assert_eq!(joined["viewers"], 1);
        assert_eq!(joined["fans"], 0);
        world.acks_become(&mut first, Some(false), 1, 0).await;

        let mut second = world.viewer("u2").await;
        assert_eq!(second.join("42").await["viewers"], 2);
    }
}

on_both_stores! {
    async fn a_heartbeat_is_acknowledged_with_the_figures(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let ack = viewer.heartbeat_json().await;
        let shown = ["fan", "fans", "guests", "heartbeat_ms", "live_id", "type", "viewers"];
        assert_eq!(fields(&ack), BTreeSet::from(shown));
        assert_eq!(ack["live_id"], "42");
        assert_eq!(ack["heartbeat_ms"], 400);
        world.acks_become(&mut viewer, Some(true), 1, 1).await;
    }
}

on_memory! {
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

on_memory! {
    async fn a_live_that_is_not_open_cannot_be_joined_until_it_is(world) {
        let mut viewer = world.viewer("u1").await;
        viewer.is_refused(json!({"type": "join", "live_id": "42"}), "live_not_open").await;
        world.open("42").await;
        viewer.join("42").await;
    }
}

on_memory! {
    async fn the_address_can_name_the_live_to_join_or_to_watch(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.person("u1", "viewer", "&live_id=42").await;
        let joined = viewer.expect("joined").await;
        assert_eq!(joined["live_id"], "42");
        world.fans_become("42", &["u1"]).await;
        let mut watcher = world.person("s1", "streamer", "&watch=42").await;
        assert_eq!(watcher.expect("counts").await["live_id"], "42");
    }
}

on_memory! {
    async fn the_subprotocol_is_selected_when_offered(world) {
        let path = "/ws?user_id=u1&role=viewer";
        let offer = [("sec-websocket-protocol", "chat, rollcall.v1")];
        let (_socket, answer) = Socket::connect(world.addr, path, &offer).await.unwrap();
        assert_eq!(answer.headers().get("sec-websocket-protocol").unwrap(), "rollcall.v1");
        let (_socket, answer) = Socket::connect(world.addr, path, &[]).await.unwrap();
        assert_eq!(answer.headers().get("sec-websocket-protocol"), None);
    }
}

on_redis! {
    /// Each is told at once of all who joined before on either gateway, and of itself.
    async fn whoever_joins_counts_also_if_the_others_are_on_another_gateway(world) {
        world.open("42").await;
        let gateways = [&world, &world.another_gateway().await];
        let mut dashboards = [gateways[0].dashboard("42").await, gateways[1].dashboard("42").await];
        let mut sockets = Vec::new();
        let mut beating = Vec::new();
        for n in 1..=6 {
            let at = gateways[n % 2];
            let user = format!("u{n}");
            let told = if n % 3 == 0 {
                let caller = at.caller(&user, "42").await;
                beating.push(caller.keeps_beating(&[at]));
                caller.begun
            } else {
                let mut viewer = at.viewer(&user).await;
                let joined = viewer.join("42").await;
                sockets.push(viewer);
                joined
            };
            assert_eq!(told["viewers"], n, "{told}");
            for dashboard in &mut dashboards {
                dashboard.sees_that("all", |counts| counts.number("viewers") == n as u64).await;
            }
        }
    }
}

on_redis! {
    async fn counts_that_lack_their_viewer_are_never_called_exact(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let _crowd = world.crowd("u", 7, "42").await;
        let mut dashboard = other.dashboard("42").await;
        dashboard.sees_that("all", |counts| counts.number("viewers") == 7).await;
        let mut watching = Vec::new();
        // The last is there already, on the other gateway.
        for (user, all) in [("a", 8), ("b", 9), ("u0", 9)] {
            let mut viewer = other.viewer(user).await;
            viewer.say(json!({"type": "join", "live_id": "42", "counts": true})).await;
            let joined = viewer.expect("joined").await;
            assert!(joined["viewers"].as_u64().unwrap() >= all, "{joined}");
            let mut told = Dashboard::at(viewer);
            let exact = told.sees_quality("exact").await;
            assert_eq!(exact.number("viewers"), all, "{}", told.seen());
            let before = &told.log[..told.log.len() - 1];
            assert!(before.iter().all(|counts| counts.number("viewers") >= all), "{}", told.seen());
            watching.push(told);
        }
    }
}
