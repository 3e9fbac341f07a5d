//! One user, many sockets: devices, tabs and gateways of one user count once, and the user stays
//! until the last leaves.

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::on_memory;
use crate::support::wait::SLACK;

on_memory! {
    async fn two_devices_count_once_until_the_last_leaves(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut dashboard = world.dashboard("42").await;
        let mut phone = world.viewer("u1").await;
        let mut tablet = world.viewer("u1").await;
        phone.join("42").await;
        tablet.join("42").await;
        world.fans_become("42", &["u1"]).await;
        dashboard.sees(viewers(1), fans(1)).await;

        phone.leave().await;
        world.fans_stay("42", &["u1"], world.config.flush * 6).await;
        world.acks_become(&mut tablet, Some(true), 1, 1).await;

        tablet.close().await;
        world.fans_become_within("42", &[], world.config.flush * 2 + SLACK).await;
        dashboard.sees(viewers(0), fans(0)).await;
    }
}

on_memory! {
    async fn a_device_that_vanishes_takes_nobody_with_it(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let phone = world.viewer_in("u1", "42").await;
        let mut tablet = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        phone.vanish();
        world.fans_stay("42", &["u1"], world.config.timeout + SLACK).await;
        world.acks_become(&mut tablet, Some(true), 1, 1).await;
    }
}

on_memory! {
    async fn ten_tabs_of_each_user_make_no_difference(world) {
        world.open("42").await;
        world.crowd_follows("u", 3).await;
        let mut dashboard = world.dashboard("42").await;
        let mut tabs = Vec::new();
        for _ in 0..10 {
            tabs.extend(world.crowd("u", 3, "42").await);
        }
        world.fans_become("42", &["u0", "u1", "u2"]).await;
        dashboard.sees(viewers(3), fans(3)).await;
        for tab in tabs.drain(..27) {
            tab.close().await;
        }
        world.fans_stay("42", &["u0", "u1", "u2"], world.config.flush * 6).await;
        for tab in tabs {
            tab.close().await;
        }
        world.fans_become("42", &[]).await;
        dashboard.sees(viewers(0), fans(0)).await;
    }
}

on_memory! {
    async fn a_quick_reconnect_is_no_leave(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees(viewers(1), fans(1)).await;
        dashboard.log.clear();
        for _ in 0..5 {
            let mut next = world.viewer("u1").await;
            viewer.vanish();
            next.join("42").await;
            viewer = next;
        }
        world.fans_stay("42", &["u1"], world.config.timeout + SLACK).await;
        dashboard.listen(std::time::Duration::ZERO).await;
        assert!(dashboard.log.iter().all(|c| c.are(viewers(1), fans(1))), "{}", dashboard.seen());
    }
}
