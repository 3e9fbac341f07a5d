//! A streamer removes a viewer, bans another, and lifts the ban.

use serde_json::json;

use crate::page::streamer_sees;
use crate::stories;
use crate::support::world::World;

stories! {
    async fn a_viewer_is_removed_and_may_come_back() {
        let world = World::on_memory(|_| ()).await;
        let mut fans = world.live_with_fans(1).await;
        let page = streamer_sees("42", world.addr).await;
        page.shows("#viewers", "1").await;
        page.clicks("#fans-list button").await;
        page.is("document.querySelector('#moderate-user').value", json!("u0")).await;
        page.clicks("#moderate-form button.main").await;
        page.shows("#note", "u0 was removed.").await;
        page.shows("#viewers", "0").await;
        fans[0].expect_closed(4003).await;
        let _back = world.viewer_in("u0", "42").await;
        page.shows("#viewers", "1").await;
        page.does_not_complain();
    }

    async fn a_banned_viewer_stays_out_until_the_ban_is_lifted() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let mut rude = world.viewer_in("rude", "42").await;
        let page = streamer_sees("42", world.addr).await;
        page.shows("#bans-note", "Nobody is banned.").await;
        // No fan, so not in the list: the streamer names the user, and everything is done by
        // keyboard.
        page.value("document.querySelector('#moderate-open').focus()").await;
        page.presses("Enter").await;
        page.is("document.activeElement.id", json!("moderate-user")).await;
        page.writes("#moderate-user", "rude").await;
        page.chooses("#moderate-ban", "600").await;
        page.value("document.querySelector('#moderate-form button.main').focus()").await;
        page.presses("Enter").await;
        page.mentions("#note", "rude was removed, and is banned until").await;
        page.shows("#bans-list .id", "rude").await;
        rude.expect_closed(4003).await;
        let mut again = world.viewer("rude").await;
        assert_eq!(again.ask(json!({"type": "join", "live_id": "42"})).await["code"], "banned");

        page.clicks("#bans-list button").await;
        page.shows("#note", "rude may come back.").await;
        page.shows("#bans-note", "Nobody is banned.").await;
        // The button that had the focus is gone; whoever uses the keyboard goes on from its list.
        page.is("document.activeElement.id", json!("bans-list")).await;
        again.join("42").await;
        page.does_not_complain();
    }

    async fn a_mistake_is_said_in_the_dialog() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let page = streamer_sees("42", world.addr).await;
        page.clicks("#moderate-open").await;
        page.writes("#moderate-user", "no id").await;
        page.clicks("#moderate-form button.main").await;
        page.shows("#moderate-note", "Not an id.").await;
        page.writes("#moderate-user", "s1").await;
        page.clicks("#moderate-form button.main").await;
        page.shows("#moderate-note", "This is the streamer's own live: close it instead.").await;
        page.presses("Escape").await;
        page.hides("#moderate").await;
        page.complains_only_of(&["400 (Bad Request)", "403 (Forbidden)"]);
    }
}
