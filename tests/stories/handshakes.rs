//! The WebSocket handshake: slow clients are cut off, and what is wrong in an address is told over the
//! socket. The tests beside the route tell which upgrades are refused.

use std::time::Duration;

use crate::support::dashboard::{fans, viewers};
use crate::support::socket::Socket;
use crate::support::stores::on_memory;
use crate::support::viewer::Viewer;

on_memory! {
    async fn a_live_in_the_address_that_is_not_open_keeps_the_socket(world) {
        let mut viewer = world.person("u1", "viewer", "&live_id=42").await;
        viewer.expect_error("live_not_open").await;
        world.open("42").await;
        viewer.join("42").await;
    }
}

on_memory! {
    async fn an_id_in_the_address_that_is_none_is_told_over_the_socket(world) {
        for more in ["&live_id=%7B42%7D", "&live_id=42_slice1", "&live_id=", "&watch=4%202", "&watch=42%0A"] {
            let mut service = world.person("service", "service", more).await;
            service.expect_error("invalid_id").await;
            assert!(service.is_connected().await);
        }
    }
}

on_memory! {
    async fn role_is_viewer_when_none_is_given(world) {
        let mut viewer = Viewer::connects(world.addr, "u1", "").await;
        viewer.is_refused(serde_json::json!({"type": "open", "live_id": "42"}), "forbidden").await;
    }
}

on_memory! {
    tuned(|config| config.timeout = Duration::from_secs(3))
    async fn sockets_that_come_and_go_at_once_leave_nothing(world) {
        world.open("42").await;
        world.crowd_follows("u", 50).await;
        let mut dashboard = world.dashboard("42").await;
        for i in 0..50 {
            let path = format!("/ws?user_id=u{i}&role=viewer&live_id=42");
            let (socket, _) = Socket::connect(world.addr, &path, &[]).await.unwrap();
            drop(socket);
        }
        // They vanished without a close frame, so each stays until its timeout.
        dashboard.sees(viewers(50), fans(50)).await;
        dashboard.sees(viewers(0), fans(0)).await;
        world.fans_stay("42", &[], world.config.flush * 4).await;
    }
}
