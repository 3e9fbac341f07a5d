//! What a dashboard shows: the right figures, peaks and times, for those who may see them.

use std::time::Duration;

use rollcall::base::clock::unix_now;
use serde_json::json;

use crate::support::dashboard::{Dashboard, fans, viewers};
use crate::support::stores::{on_both_stores, on_memory};

on_memory! {
    async fn watching_answers_with_the_figures_of_now(world) {
        world.open("42").await;
        let mut dashboard = Dashboard::at(world.service().await);
        let first = dashboard.watch("42").await;
        assert!(first.are(viewers(0), fans(0)), "{first:?}");
        assert_eq!(first.json["live_id"], "42");
        assert_eq!(first.json["epoch"], world.epoch("42").await);
        assert_eq!(first.json["quality"], "exact");
        assert_eq!((first.number("peak_viewers"), first.number("peak_fans")), (0, 0));
        let (now, opened, as_of) = (unix_now(), first.number("opened_at"), first.number("as_of"));
        assert!(opened <= now && opened > now - 60_000, "opened_at {opened} of {now}");
        assert!(as_of >= opened && as_of <= now + 1_000, "as_of {as_of} of {now}");
        assert!(first.number("seq") < u64::MAX);
    }
}

on_both_stores! {
    async fn peaks_stay_when_the_figures_fall(world) {
        world.open("42").await;
        world.crowd_follows("u", 3).await;
        let mut dashboard = world.dashboard("42").await;
        let crowd = world.crowd("u", 5, "42").await;
        dashboard.sees(viewers(5), fans(3)).await;
        for viewer in crowd {
            viewer.close().await;
        }
        let seen = dashboard.sees(viewers(0), fans(0)).await;
        assert_eq!((seen.number("peak_viewers"), seen.number("peak_fans")), (5, 3));
        assert!(dashboard.log.iter().all(|c| c.number("peak_viewers") >= c.number("viewers")), "{}", dashboard.seen());
        assert!(dashboard.log.iter().all(|c| c.number("peak_fans") >= c.number("fans")), "{}", dashboard.seen());
    }
}

on_memory! {
    async fn the_streamer_may_watch_and_others_may_not(world) {
        world.open("42").await;
        let mut streamer = Dashboard::at(world.streamer("s1").await);
        streamer.watch("42").await;
        for mut other in [world.viewer("u1").await, world.viewer("s1x").await, world.streamer("s2").await] {
            other.is_refused(json!({"type": "watch", "live_id": "42"}), "forbidden").await;
        }
        let _viewer = world.person("u1", "viewer", "&live_id=42").await;
        streamer.sees(viewers(1), fans(0)).await;
    }
}

on_memory! {
    async fn a_live_that_is_not_open_cannot_be_watched(world) {
        let mut service = world.service().await;
        service.is_refused(json!({"type": "watch", "live_id": "42"}), "live_not_open").await;
    }
}

on_memory! {
    async fn unwatch_ends_the_counts(world) {
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let _first = world.person("u1", "viewer", "&live_id=42").await;
        dashboard.sees(viewers(1), fans(0)).await;
        dashboard.say(json!({"type": "unwatch", "live_id": "42"})).await;
        // The answer to a later message shows that the gateway has served the unwatch.
        dashboard.heartbeat_json().await;
        dashboard.listen(Duration::ZERO).await;
        let _second = world.person("u2", "viewer", "&live_id=42").await;
        dashboard.hears_no("counts", Duration::from_millis(1_200)).await;
        assert_eq!(dashboard.watch("42").await.number("viewers"), 2);
    }
}

on_both_stores! {
    async fn a_new_epoch_starts_from_nothing(world) {
        world.open("42").await;
        world.crowd_follows("u", 2).await;
        let mut dashboard = world.dashboard("42").await;
        let mut crowd = world.crowd("u", 2, "42").await;
        dashboard.sees(viewers(2), fans(2)).await;
        world.backend().close("42").await;
        dashboard.expect("closed").await;
        let before = world.epoch("42").await;
        world.open("42").await;
        let first = dashboard.watch("42").await;
        assert!(first.number("epoch") > before, "{first:?}");
        assert!(first.are(viewers(0), fans(0)), "{first:?}");
        assert_eq!((first.number("peak_viewers"), first.number("peak_fans")), (0, 0));
        crowd[0].join("42").await;
        let seen = dashboard.sees(viewers(1), fans(1)).await;
        assert_eq!((seen.number("peak_viewers"), seen.number("peak_fans")), (1, 1));
    }
}

on_memory! {
    async fn one_socket_may_watch_two_lives(world) {
        world.open("1").await;
        world.open("2").await;
        let mut service = world.service().await;
        service.say(json!({"type": "watch", "live_id": "1"})).await;
        service.say(json!({"type": "watch", "live_id": "2"})).await;
        let _viewer = world.person("u1", "viewer", "&live_id=2").await;
        let mut newest = [None, None];
        while newest != [Some(0), Some(1)] {
            let counts = service.expect("counts").await;
            let at = usize::from(counts["live_id"] == "2");
            newest[at] = counts["viewers"].as_u64();
        }
    }
}
