//! What a dashboard says while something is down, and that it is right afterwards.

use std::time::Duration;

use serde_json::json;

use crate::page::{Page, Visitor, streamer_sees};
use crate::stories;
use crate::support::link::Link;
use crate::support::redis_view::Redis;
use crate::support::world::World;

/// What a browser says of a connection that was refused or broke; a page cannot keep it from saying
/// so.
const BROKEN: &[&str] = &["net::ERR_", "WebSocket connection to"];

async fn trust(page: &Page, wanted: &str) {
    page.is(
        "document.querySelector('#live').dataset.trust",
        json!(wanted),
    )
    .await;
}

stories! {
    async fn a_gateway_is_killed_and_another_takes_its_place() {
        let redis = Redis::start().await;
        let mut first = World::program(redis.clone()).await;
        let link = Link::to(first.addr).await;
        first.open("42").await;
        first.crowd_follows("u", 2).await;
        let before = first.crowd("u", 3, "42").await;
        let page = streamer_sees("42", link.addr()).await;
        page.shows("#viewers", "3").await;

        first.process().kill();
        trust(&page, "waiting").await;
        page.mentions("#state-text", "No connection. Old figures, as of").await;
        // The last figures stay, and look old.
        page.shows("#viewers", "3").await;
        page.is("getComputedStyle(document.querySelector('#viewers')).fontStyle", json!("italic")).await;
        drop(before);

        let second = World::program(redis).await;
        link.lead_to(second.addr);
        let _after = second.crowd("u", 2, "42").await;
        trust(&page, "exact").await;
        page.shows("#viewers", "2").await;
        page.shows("#fans", "2").await;
        page.complains_only_of(BROKEN);
    }

    async fn figures_are_marked_while_the_store_is_away() {
        let world = World::on_redis(|_| ()).await;
        world.open("42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        let page = streamer_sees("42", world.addr).await;
        page.shows("#viewers", "1").await;
        world.redis().freeze().await;
        trust(&page, "stale").await;
        page.mentions("#state-text", "The store does not answer. Old figures, as of").await;
        page.shows("#viewers", "1").await;
        world.redis().thaw().await;
        trust(&page, "exact").await;
        page.shows("#viewers", "1").await;
        // Reading a list fails meanwhile.
        page.complains_only_of(&["503 (Service Unavailable)"]);
    }

    async fn the_figures_of_all_lives_look_old_while_nobody_answers() {
        let world = World::on_redis(|_| ()).await;
        let link = Link::to(world.addr).await;
        world.open("42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        let page = Visitor::comes().await.visits(format!("http://{}/#user=office&role=service", link.addr())).await;
        let viewers = "#lives-body td.number";
        let style = format!("getComputedStyle(document.querySelector('{viewers}')).fontStyle");
        page.shows(viewers, "1").await;
        page.mentions("#lives-as-of", "As of").await;
        page.is(&style, json!("normal")).await;
        world.redis().freeze().await;
        page.mentions("#overview", "ld figures, as of").await;
        page.is(&style, json!("italic")).await;
        page.shows(viewers, "1").await;
        world.redis().thaw().await;
        page.is(&style, json!("normal")).await;

        link.cut();
        page.mentions("#lives-state", "The gateway does not answer. Old figures, as of").await;
        page.is(&style, json!("italic")).await;
        page.complains_only_of(&[BROKEN, &["503 (Service Unavailable)"]].concat());
    }

    async fn a_gateway_that_drains_is_followed_by_another() {
        let redis = Redis::start().await;
        let drain = Duration::from_secs(1);
        let mut first = World::program_with(redis.clone(), |config| config.drain = drain).await;
        let link = Link::to(first.addr).await;
        first.open("42").await;
        let page = streamer_sees("42", link.addr()).await;
        page.shows("#viewers", "0").await;
        let second = World::program(redis).await;
        link.lead_to(second.addr);
        first.process().terminate();
        let _crowd = second.crowd("u", 4, "42").await;
        page.shows("#viewers", "4").await;
        trust(&page, "exact").await;
        // A connection that the browser kept may still lead to the first one, which refuses.
        page.complains_only_of(&[BROKEN, &["503 (Service Unavailable)"]].concat());
    }
}
