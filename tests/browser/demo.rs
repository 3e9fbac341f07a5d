//! The viewer page, and what somebody sees who has just started a gateway.

use std::time::Duration;

use serde_json::json;

use crate::page::Visitor;
use crate::stories;
use crate::support::link::Link;
use crate::support::wait::{same, throughout, until};
use crate::support::world::World;

stories! {
    async fn one_click_makes_the_dashboard_move() {
        let world = World::on_memory(|_| ()).await;
        let page = Visitor::comes().await.visits(format!("http://{}/", world.addr)).await;
        page.clicks("#try-button").await;
        page.shows("#live-title", "demo").await;
        let many = "Number(document.querySelector('#viewers').textContent) > 100 \
                    && Number(document.querySelector('#fans').textContent) > 40";
        page.is_within(Duration::from_secs(60), many, json!(true)).await;
        page.is_photographed("dashboard").await;
        // They come and go: the figure changes by itself.
        let viewers = page.value("document.querySelector('#viewers').textContent").await;
        until("the figure moves", Duration::from_secs(30), async || {
            let now = page.value("document.querySelector('#viewers').textContent").await;
            if now == viewers { Err(now) } else { Ok(()) }
        })
        .await;
        page.clicks("#crowd-stop").await;
        page.shows("#viewers", "0").await;
        page.does_not_complain();
    }

    async fn a_crowd_that_is_refused_is_told_so() {
        let world = World::on_memory(|config| config.max_sockets = Some(40)).await;
        world.open("42").await;
        let page = Visitor::comes().await.visits(format!("http://{}/demo#live=42", world.addr)).await;
        page.clicks("#simulate").await;
        page.mentions("#crowd-text", "The gateway refused").await;
        page.mentions("#crowd-text", "there is no room for another socket").await;
        let joined = "Number(document.querySelector('#crowd-text').textContent.match(/: (\\d+) of 200/)[1])";
        page.is(&format!("{joined} > 20 && {joined} <= 40"), json!(true)).await;
        page.clicks("#stop").await;
        page.complains_only_of(&["503"]);
    }

    async fn five_tabs_are_one_viewer() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let dashboard = Visitor::comes().await;
        let page = dashboard.visits(format!("http://{}/#user=s1&role=streamer&live=42", world.addr)).await;
        page.shows("#viewers", "0").await;
        let mut tabs = Vec::new();
        for _ in 0..5 {
            let tab = dashboard.visits(format!("http://{}/demo#user=u1&live=42&join=1", world.addr)).await;
            tab.shows("#place", "In the live 42.").await;
            tab.does_not_complain();
            tabs.push(tab);
        }
        page.comes_to_the_front().await;
        page.shows("#viewers", "1").await;
        let last = tabs.pop().unwrap();
        for tab in tabs {
            tab.closes().await;
        }
        let known = world.backend().get("/v1/gateway/lives/42/viewers/u1");
        assert!(known.await.is(200).body["joined"].as_bool().unwrap());
        page.shows("#viewers", "1").await;
        last.closes().await;
        page.shows("#viewers", "0").await;
        page.does_not_complain();
    }

    async fn a_viewer_in_a_hidden_tab_is_away_until_the_tab_is_shown() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let visitor = Visitor::comes().await;
        let page = visitor.visits(format!("http://{}/#user=s1&role=streamer&live=42", world.addr)).await;
        let viewer = visitor.visits(format!("http://{}/demo#user=u1&live=42&join=1", world.addr)).await;
        viewer.shows("#place", "In the live 42.").await;
        let away = "document.querySelector('#away').textContent";
        page.comes_to_the_front().await;
        page.is(away, json!("1 away")).await;
        page.shows("#viewers", "1").await;
        viewer.comes_to_the_front().await;
        page.is(away, json!("")).await;
        page.is("document.querySelector('#viewers').textContent", json!("1")).await;
        page.does_not_complain();
        viewer.does_not_complain();
    }

    async fn a_viewer_follows_is_answered_and_meets_a_friend() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let page = Visitor::comes().await.visits(format!("http://{}/demo", world.addr)).await;
        page.writes("#user", "u1").await;
        page.is("document.querySelector('#live-id').value", json!("42")).await;
        page.clicks("#join").await;
        page.shows("#place", "In the live 42.").await;
        page.shows("#fan", "You are not a fan.").await;
        page.mentions("#ack", "viewers 1, fans 0").await;
        page.clicks("#follow").await;
        page.shows("#fan", "You are a fan.").await;
        page.shows("#fans", "1").await;
        page.shows("#friends-note", "Nobody whom you follow is here.").await;
        page.writes("#friend", "u2").await;
        page.clicks("#friend-form button").await;
        let _friend = world.viewer_in("u2", "42").await;
        page.shows("#friends li", "u2").await;
        page.shows("#viewers", "2").await;
        page.is_photographed("viewer").await;
        page.clicks("#unfollow").await;
        page.shows("#fan", "You are not a fan.").await;
        page.clicks("#leave").await;
        page.shows("#place", "In no live.").await;

        world.backend().remove("42", "u1").await.is(200);
        page.clicks("#join").await;
        page.shows("#place", "In the live 42.").await;
        world.backend().ban("42", "u1", 600).await;
        page.shows("#place", "A moderator removed this user.").await;
        page.does_not_complain();
    }

    async fn a_viewer_without_a_connection_is_told_so_until_it_is_back() {
        let world = World::on_memory(|_| ()).await;
        let link = Link::to(world.addr).await;
        world.open("42").await;
        let page = Visitor::comes().await.tab().await;
        let hurry = "const real = setInterval; setInterval = (act, ms) => real(act, ms / 30);";
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": hurry})).await;
        page.goes_to(format!("http://{}/demo#user=u1&live=42&join=1", link.addr())).await;
        page.shows("#place", "In the live 42.").await;
        page.shows("#viewers", "1").await;
        link.cut();
        page.mentions("#place", "No connection. Old figures, as of").await;
        // The page looks for lives many times meanwhile.
        throughout("the page says so", Duration::from_secs(2), async || {
            let said = page.value("document.querySelector('#place').textContent").await;
            same(said.as_str().unwrap().starts_with("No connection. Old figures, as of"), true)
        })
        .await;
        page.shows("#viewers", "1").await;
        page.is("getComputedStyle(document.querySelector('#viewers')).fontStyle", json!("italic")).await;
        link.heal();
        page.shows("#place", "In the live 42.").await;
        page.is("getComputedStyle(document.querySelector('#viewers')).fontStyle", json!("normal")).await;
        page.complains_only_of(&["net::ERR_", "WebSocket connection to"]);
    }

    async fn beside_an_internal_port_a_viewer_joins_and_simulates_nobody() {
        let world = World::on_memory(|config| config.admin_listen = Some("127.0.0.1:0".parse().unwrap())).await;
        world.admin().open("42", "s1").await;
        let url = format!("http://{}/demo#user=u1&live=42&join=1&simulate=1", world.addr);
        let page = Visitor::comes().await.visits(url).await;
        page.shows("#place", "In the live 42.").await;
        page.mentions("#crowd-text", "This port has no HTTP API").await;
        let disabled = "['simulate', 'follow', 'follow-friend'].map(id => document.getElementById(id).disabled)";
        page.is(disabled, json!([true, true, true])).await;
        page.does_not_complain();
    }

    async fn pages_work_where_the_browser_keeps_nothing() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let page = Visitor::comes().await.tab().await;
        let denied = "for (const name of ['localStorage', 'sessionStorage']) \
                      Object.defineProperty(window, name, { get() { throw new Error('denied'); } });";
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": denied})).await;
        page.goes_to(format!("http://{}/demo#user=u1&live=42&join=1", world.addr)).await;
        page.shows("#place", "In the live 42.").await;
        page.goes_to(format!("http://{}/", world.addr)).await;
        page.shows("#sign-in-title", "Show a live").await;
        page.clicks("[data-language=zh]").await;
        page.shows("#sign-in-title", "查看直播").await;
        page.does_not_complain();
    }

    async fn a_newcomer_opens_the_first_live_on_the_viewer_page() {
        let world = World::on_memory(|_| ()).await;
        let page = Visitor::comes().await.visits(format!("http://{}/demo", world.addr)).await;
        page.clicks("#open-demo").await;
        page.is("document.querySelector('#live-id').value", json!("demo")).await;
        page.clicks("#join").await;
        page.shows("#place", "In the live demo.").await;
        page.does_not_complain();
    }
}
