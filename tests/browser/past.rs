//! What a streamer sees of the past: the stream so far on a page that was just opened, the summary
//! after the close, and the past lives.

use serde_json::json;

use crate::page::{PATIENCE, Page, Visitor, streamer_sees};
use crate::stories;
use crate::support::link::Link;
use crate::support::wait::{fits, same, until};
use crate::support::world::World;

/// A point of the history tells so many milliseconds.
const STEP: u64 = 10_000;

/// A title that would be a tag if a page took it for more than text.
const TITLE: &str = "<img src=x onerror=hit()> {id} $& soup";

/// Opens the past lives, and waits for their table.
async fn past_lives_are(page: &Page, rows: serde_json::Value) {
    // What stands above may move just when the click arrives.
    until("the part opens", PATIENCE, async || {
        page.clicks("#past summary").await;
        same(
            page.value("document.querySelector('#past').open").await,
            json!(true),
        )
    })
    .await;
    let cells = "[...document.querySelectorAll('#past-body tr')]\
                 .map(row => [...row.cells].map(e => e.textContent.trim())\
                 .filter((_, n) => n !== 1 && n !== 2))";
    page.is(cells, rows).await;
}

stories! {
    async fn the_chart_has_the_stream_so_far_after_a_reload() {
        let world = World::on_memory(|_| ()).await;
        let crowd = {
            let mut fans = world.live_with_fans(2).await;
            fans.push(world.viewer_in("v", "42").await);
            fans
        };
        until("ten seconds with three viewers are over", PATIENCE, async || {
            let history = world.backend().get("/v1/lives/42/history").await.is(200).body;
            let (points, now) = (history["items"].as_array().unwrap(), history["to"].as_u64().unwrap());
            let mut over = points.iter().filter(|point| point["began_at"].as_u64().unwrap() + STEP < now);
            over.find(|point| point["viewers"] == 3).map(|_| ()).ok_or_else(|| history.to_string())
        })
        .await;
        let page = streamer_sees("42", world.addr).await;
        page.shows("#viewers", "3").await;
        drop(crowd);
        page.shows("#viewers", "0").await;

        page.value("window.before = true").await;
        page.call("Page.reload", json!({})).await;
        page.is("window.before ?? null", json!(null)).await;
        page.shows("#viewers", "0").await;
        page.shows("#leaves", "3").await;
        for (key, shown) in [("Home", "viewers 0, fans 0"), ("ArrowRight", "viewers 3, fans 2")] {
            until(&format!("{key} shows {shown}"), PATIENCE, async || {
                page.value("document.querySelector('#chart').focus()").await;
                page.presses("Home").await;
                page.presses(key).await;
                let said = page.value("document.querySelector('#chart-values').textContent").await;
                fits(said, |said| said.as_str().unwrap().ends_with(shown))
            })
            .await;
        }
        page.does_not_complain();
    }

    async fn a_streamer_reads_what_is_left_of_the_live_and_of_those_before() {
        let world = World::on_memory(|_| ()).await;
        let mut crowd = world.live_with_fans(2).await;
        crowd.push(world.viewer_in("v", "42").await);
        let page = streamer_sees("42", world.addr).await;
        page.shows("#viewers", "3").await;
        past_lives_are(&page, json!([])).await;
        page.shows("#past-note", "None is remembered.").await;
        // Somebody who comes again is nobody else.
        crowd.pop().unwrap().close().await;
        page.shows("#viewers", "2").await;
        crowd.push(world.viewer_in("v", "42").await);
        page.shows("#viewers", "3").await;
        page.clicks("#close-live").await;
        page.clicks("#close-form button.main").await;
        page.shows("#summary-unique", "Different viewers 3, different fans 2.").await;
        page.mentions("#summary-watched", "Viewer-minutes ").await;
        let duration = "/^Peaks: viewers 3, fans 2. On air for 0:0\\d:\\d\\d.$/\
                        .test(document.querySelector('#summary-peaks').textContent)";
        page.is(duration, json!(true)).await;
        // The list was open, and has the live now.
        let row = "document.querySelector('#past-body th')?.textContent.trim()";
        page.is(row, json!("42")).await;
        page.is_photographed("summary").await;
        page.clicks("[data-language=zh]").await;
        page.shows("#summary-unique", "独立观众 3，独立粉丝 2。").await;
        page.does_not_complain();
    }

    async fn a_service_reads_the_past_lives_of_the_streamer_whose_live_it_sees() {
        let world = World::on_memory(|_| ()).await;
        let body = json!({"streamer_id": "s1", "title": TITLE});
        world.backend().put("/v1/lives/41", body.clone()).await.is(201);
        let _viewer = world.viewer_in("v", "41").await;
        until("the store has counted the viewer", PATIENCE, || async {
            let viewers = world.backend().get("/v1/lives/41/viewers").await;
            same(viewers.body["items"].as_array().map(Vec::len), Some(1))
        })
        .await;
        world.backend().close("41").await;
        world.backend().put("/v1/lives/42", body).await.is(201);
        let page = Visitor::comes().await.visits(format!("http://{}/#user=office&role=service", world.addr)).await;
        page.shows("#lives-body th", &format!("42 {TITLE}")).await;
        page.clicks("[data-live='42']").await;
        page.shows("#viewers", "0").await;
        past_lives_are(&page, json!([[format!("41 {TITLE}"), "1 / 0", "1 / 0"]])).await;
        assert_eq!(page.value("document.querySelectorAll('main img').length").await, json!(0));
        page.does_not_complain();
    }

    async fn a_page_that_is_opened_after_the_end_sums_it_up() {
        let world = World::on_memory(|_| ()).await;
        let crowd = world.live_with_fans(2).await;
        world.backend().close("42").await;
        drop(crowd);
        let page = streamer_sees("42", world.addr).await;
        page.shows("#summary-unique", "Different viewers 2, different fans 2.").await;
        page.shows("#viewers", "–").await;
        world.open("42").await;
        page.shows("#viewers", "0").await;
        page.hides("#summary").await;
        page.does_not_complain();
    }

    async fn an_end_that_the_page_missed_is_summed_up_too() {
        let world = World::on_memory(|_| ()).await;
        let link = Link::to(world.addr).await;
        world.open("42").await;
        let _viewer = world.viewer_in("v", "42").await;
        let page = streamer_sees("42", link.addr()).await;
        page.shows("#viewers", "1").await;
        link.cut();
        page.is("document.querySelector('#live').dataset.trust", json!("waiting")).await;
        world.backend().close("42").await;
        link.heal();
        page.shows("#summary-unique", "Different viewers 1, different fans 0.").await;
        page.shows("#summary-why", "Somebody closed it.").await;
        page.complains_only_of(&["net::ERR_", "WebSocket connection to"]);
    }
}
