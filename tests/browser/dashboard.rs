//! What a streamer sees while people come and go, how a live begins and ends on the page, and the
//! list of all lives.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::limits::FAKE_GATEWAY;
use crate::page::{PATIENCE, Visitor, streamer_sees};
use crate::stories;
use crate::support::media::{Nginx, with_nginx};
use crate::support::wait::{SLACK, same, throughout, until};
use crate::support::world::World;

stories! {
    async fn fifty_viewers_come_and_the_dashboard_says_so_within_a_second() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        world.crowd_follows("u", 20).await;
        let page = streamer_sees("42", world.addr).await;
        page.shows("#viewers", "0").await;
        page.shows("#fans", "0").await;
        page.shows("#state-text", "Connected. The figures are exact.").await;
        let crowd = world.crowd("u", 50, "42").await;
        let came = Instant::now();
        let bound = Duration::from_secs(1) + SLACK;
        page.is_within(bound, "document.querySelector('#viewers').textContent", json!("50")).await;
        assert!(came.elapsed() < bound);
        page.shows("#fans", "20").await;
        page.shows("#peak-viewers", "peak 50").await;
        page.is("document.querySelectorAll('#fans-list li').length", json!(20)).await;
        page.is("document.querySelector('#chart canvas') !== null", json!(true)).await;
        page.is_photographed("dashboard-of-fifty").await;
        drop(crowd);
        page.shows("#viewers", "0").await;
        page.shows("#peak-viewers", "peak 50").await;
        page.does_not_complain();
    }

    async fn the_page_opens_a_live_and_closes_it() {
        let world = World::on_memory(|_| ()).await;
        let page = streamer_sees("7", world.addr).await;
        page.shows("#state-text", "This live is not open.").await;
        page.writes("#open-title", "Soup").await;
        page.clicks("#open-form button").await;
        page.shows("#viewers", "0").await;
        assert_eq!(world.backend().live("7").await["title"], "Soup");
        let _viewer = world.viewer_in("u1", "7").await;
        page.shows("#viewers", "1").await;

        page.clicks("#close-live").await;
        page.mentions("#close-title", "7").await;
        page.clicks("#close-cancel").await;
        page.hides("#close-dialog").await;
        assert_eq!(world.backend().live("7").await["state"], "open");
        page.clicks("#close-live").await;
        page.clicks("#close-form button.main").await;
        page.shows("#state-text", "This live is not open.").await;
        page.mentions("#summary-peaks", "Peaks: viewers 1").await;
        page.shows("#summary-why", "Somebody closed it.").await;
        assert_eq!(world.backend().live("7").await["state"], "closed");

        // Somebody else opens it again: the page notices by itself.
        world.open("7").await;
        page.shows("#state-text", "Connected. The figures are exact.").await;
        page.hides("#summary").await;
        page.does_not_complain();
    }

    async fn a_lost_stream_is_shown_with_the_time_until_the_live_closes() {
        let world = World::on_memory(|config| {
            with_nginx(config);
            config.stream_grace = Duration::from_secs(30);
        })
        .await;
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        let page = streamer_sees("42", world.addr).await;
        page.mentions("#on-air", "on air for").await;
        nginx.done(1, "42").await;
        page.mentions("#on-air", "stream lost, closing in").await;
        nginx.lets_in(2, "42").await;
        page.mentions("#on-air", "on air for").await;
        page.does_not_complain();
    }

    async fn a_service_sees_all_lives_by_size_and_opens_one_by_keyboard() {
        let world = World::on_memory(|_| ()).await;
        // Also in the order of their ids, should both open within a millisecond.
        for live in ["calm", "loud"] {
            world.open(live).await;
        }
        let _crowd = world.crowd("u", 3, "loud").await;
        let _viewer = world.viewer_in("v", "calm").await;
        let page = Visitor::comes().await.visits(format!("http://{}/", world.addr)).await;
        page.writes("#user", "office").await;
        page.chooses("#role", "service").await;
        page.clicks("#sign-in-form button").await;
        let names = "[...document.querySelectorAll('#lives-body button')].map(e => e.textContent)";
        page.is(names, json!(["loud", "calm"])).await;
        page.chooses("#lives-sort", "opened_at").await;
        page.is(names, json!(["calm", "loud"])).await;
        page.value("document.querySelector('[data-live=loud]').focus()").await;
        page.presses("Enter").await;
        page.shows("#live-title", "loud").await;
        page.shows("#viewers", "3").await;
        page.is("location.hash", json!("#user=office&role=service&live=loud")).await;
        page.clicks("#all-lives").await;
        page.shows("#overview-title", "Open lives").await;
        page.does_not_complain();
    }

    async fn fans_are_listed_page_by_page_and_found_by_their_beginning() {
        let world = World::on_memory(|_| ()).await;
        let mut crowd = world.live_with_fans_of(&["anna", "anton", "bert"], 60).await;
        let page = streamer_sees("42", world.addr).await;
        page.shows("#fans", "63").await;
        let shown = "document.querySelectorAll('#fans-list li').length";
        page.is(shown, json!(50)).await;
        page.clicks("#fans-more").await;
        page.is(shown, json!(63)).await;
        page.hides("#fans-more").await;
        // The list that grew follows the figures as well.
        drop(crowd.pop());
        page.is(shown, json!(62)).await;
        page.writes("#fan-search", "an").await;
        let names = "[...document.querySelectorAll('#fans-list .id')].map(e => e.textContent)";
        page.is(names, json!(["anna", "anton"])).await;
        page.writes("#fan-search", "zoe").await;
        page.shows("#fans-note", "No fan online has an id that begins so.").await;
        page.does_not_complain();
    }

    async fn fans_of_one_live_are_never_listed_in_another() {
        let world = World::on_memory(|_| ()).await;
        let mut fans = world.live_with_fans_of(&["anna"], 0).await;
        world.open("empty").await;
        world.follow(&["bert", "carl"]).await;
        let url = format!("http://{}/#user=office&role=service&live=42", world.addr);
        let page = Visitor::comes().await.visits(url).await;
        page.is("document.querySelectorAll('#fans-list li').length", json!(1)).await;
        // The list follows the figures a little later; the reader is elsewhere then.
        for user in ["bert", "carl"] {
            fans.push(world.viewer_in(user, "42").await);
        }
        page.shows("#fans", "3").await;
        page.clicks("#all-lives").await;
        page.clicks("[data-live=empty]").await;
        page.shows("#fans-note", "No fan is online.").await;
        throughout("the list is that of this live", Duration::from_secs(6), async || {
            same(page.value("document.querySelectorAll('#fans-list li').length").await, json!(0))
        })
        .await;
        page.does_not_complain();
    }

    async fn the_list_of_fans_follows_those_who_change_places_and_what_was_missed() {
        let world = World::on_memory(|_| ()).await;
        let page = Visitor::comes().await.tab().await;
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": FAKE_GATEWAY})).await;
        page.goes_to(format!("http://{}/#user=s1&role=streamer&live=42", world.addr)).await;
        // The fake gateway lists other fans after each of its messages.
        let first = "document.querySelector('#fans-list .id').textContent";
        page.is(first, json!("u1")).await;
        page.value("fake.tells({joins: 1, leaves: 1})").await;
        page.is(first, json!("u2")).await;
        page.value("fake.drops()").await;
        page.is(first, json!("u3")).await;
        page.does_not_complain();
    }

    async fn the_lists_are_read_only_while_the_live_is_open() {
        let world = World::on_memory(|_| ()).await;
        let page = Visitor::comes().await.tab().await;
        // What is done now and then is done thirty times as often.
        let hurry = "const real = setInterval; setInterval = (act, ms) => real(act, ms / 30);";
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": hurry})).await;
        page.goes_to(format!("http://{}/#user=s1&role=streamer&live=7", world.addr)).await;
        page.shows("#state-text", "This live is not open.").await;
        let reads = "performance.getEntriesByType('resource').filter(e => e.name.includes('/7/bans')).length";
        let rest = Duration::from_secs(3);
        throughout("no list is read", rest, async || same(page.value(reads).await, json!(0))).await;
        world.open("7").await;
        page.is(&format!("{reads} > 2"), json!(true)).await;
        page.clicks("#close-live").await;
        page.clicks("#close-form button.main").await;
        page.shows("#state-text", "This live is not open.").await;
        let before = page.value(reads).await;
        throughout("no list is read any more", rest, async || same(page.value(reads).await, before.clone())).await;
        page.does_not_complain();
    }

    async fn beside_an_internal_port_without_tokens_figures_are_shown_and_nothing_else() {
        let world = World::on_memory(|config| config.admin_listen = Some("127.0.0.1:0".parse().unwrap())).await;
        world.admin().open("42", "s1").await;
        let _viewer = world.viewer_in("u1", "42").await;
        let page = streamer_sees("42", world.addr).await;
        page.shows("#viewers", "1").await;
        page.mentions("#note", "This port has no HTTP API").await;
        page.hides("#lists").await;
        page.hides("#close-live").await;
        page.goes_to(format!("http://{}/?#user=office&role=service", world.addr)).await;
        page.mentions("#lives-note", "This port has no HTTP API").await;
        page.does_not_complain();
    }

    async fn a_hidden_tab_is_right_when_it_is_looked_at_again() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let visitor = Visitor::comes().await;
        let page = visitor.visits(format!("http://{}/#user=s1&role=streamer&live=42", world.addr)).await;
        page.shows("#viewers", "0").await;
        let other = visitor.tab().await;
        other.comes_to_the_front().await;
        page.is("document.visibilityState", json!("hidden")).await;
        let _crowd = world.crowd("u", 7, "42").await;
        // The socket of a hidden page is heard from for longer than the gateway waits for the
        // silent.
        let since = Instant::now();
        until("a while goes by", PATIENCE, async || {
            same(since.elapsed() > world.config.timeout * 2, true).map_err(|_| "not yet")
        })
        .await;
        page.comes_to_the_front().await;
        page.is("document.visibilityState", json!("visible")).await;
        page.shows("#viewers", "7").await;
        page.shows("#state-text", "Connected. The figures are exact.").await;
        page.does_not_complain();
    }
}

impl World {
    /// Opens live 42 with these fans, and so many more.
    async fn live_with_fans_of(
        &self,
        named: &[&str],
        more: usize,
    ) -> Vec<crate::support::viewer::Viewer> {
        self.open("42").await;
        self.follow(named).await;
        self.crowd_follows("u", more).await;
        let mut crowd = self.crowd("u", more, "42").await;
        for user in named {
            crowd.push(self.viewer_in(user, "42").await);
        }
        crowd
    }
}
