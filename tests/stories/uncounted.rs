//! Sockets with `?count=false` (a moderator's console, a recorder, a bot) take part without being counted.

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::on_both_stores;

const UNCOUNTED: &str = "&count=false";

on_both_stores! {
    async fn an_uncounted_socket_is_in_no_figure(world) {
        world.open("42").await;
        world.follow(&["bot", "u1"]).await;
        let mut dashboard = world.dashboard("42").await;
        let mut bot = world.person("bot", "viewer", UNCOUNTED).await;
        assert_eq!(bot.join("42").await["viewers"], 0);
        let mut viewer = world.viewer("u1").await;
        assert_eq!(viewer.join("42").await["viewers"], 1);
        world.fans_become("42", &["u1"]).await;
        dashboard.sees(viewers(1), fans(1)).await;
        let ack = bot.heartbeat().await;
        assert_eq!(ack.viewers, 1, "it sees the figures: {ack:?}");
        world.fans_stay("42", &["u1"], world.config.flush * 6).await;
        bot.close().await;
        dashboard.listen(world.config.flush * 6).await;
        let max = dashboard.log.iter().map(|c| c.number("viewers")).max();
        assert_eq!(max, Some(1), "{}", dashboard.seen());
    }
}

on_both_stores! {
    async fn an_uncounted_socket_hears_the_end_of_the_live(world) {
        world.open("42").await;
        let mut bot = world.person("bot", "viewer", "&count=false&live_id=42").await;
        bot.expect("joined").await;
        world.backend().close("42").await;
        let closed = bot.expect("closed").await;
        assert_eq!(closed["peak_viewers"], 0, "{closed}");
    }
}

on_both_stores! {
    async fn the_same_user_counts_through_another_socket(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut recorder = world.person("u1", "viewer", UNCOUNTED).await;
        recorder.join("42").await;
        let person = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        recorder.close().await;
        world.fans_stay("42", &["u1"], world.config.flush * 6).await;
        let mut recorder = world.person("u1", "viewer", UNCOUNTED).await;
        recorder.join("42").await;
        person.close().await;
        world.fans_become("42", &[]).await;
        assert_eq!(recorder.heartbeat().await.viewers, 0);
    }
}
