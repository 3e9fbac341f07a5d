//! What the pages must hold: how much they weigh, how soon something can be seen, and how much
//! memory a dashboard takes that is open for a whole stream.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::page::{PATIENCE, Page, Visitor};
use crate::stories;
use crate::support::wait::until;
use crate::support::world::World;

/// The whole weight of the dashboard, in bytes: what is sent, and what that is unpacked.
const WEIGHT: u64 = 190_000;
const FIRST_PAINT_MS: f64 = 200.0;

/// On a machine that is slow, or too busy for that, the dashboard may take so many times as long as
/// a line of text.
const BARE_PAINTS: f64 = 3.0;

/// So many paints are tried: a machine that is busy is so for a while.
const MOST_PAINTS: usize = 30;
const HEAP: u64 = 50_000_000;

/// A gateway of this story's own, inside the page: it keeps a stream of 6 h, and sends its figures
/// as fast as the page takes them.
pub const FAKE_GATEWAY: &str = include_str!("fake_gateway.js");

/// When something of a page was painted, in ms after it was asked for.
async fn first_paint(page: &Page) -> f64 {
    let paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null";
    until("something is painted", PATIENCE, async || {
        page.value(paint).await.as_f64().ok_or("nothing")
    })
    .await
}

stories! {
    async fn the_dashboard_weighs_little_and_is_seen_at_once() {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let visitor = Visitor::comes().await;
        let (mut paints, mut bare) = (Vec::new(), Vec::new());
        // Other tests run beside this one: the best of some tells what a page itself takes.
        let best = |paints: &[f64]| paints.iter().copied().fold(f64::INFINITY, f64::min);
        let is_soon = |paints: &[f64], bare: &[f64]| best(paints) <= FIRST_PAINT_MS.max(best(bare) * BARE_PAINTS);
        for round in 0..MOST_PAINTS {
            let page = visitor.tab().await;
            page.call("Network.setCacheDisabled", json!({"cacheDisabled": true})).await;
            page.goes_to(format!("http://{}/healthz", world.addr)).await;
            bare.push(first_paint(&page).await);
            page.closes().await;

            let page = visitor.tab().await;
            page.call("Network.setCacheDisabled", json!({"cacheDisabled": true})).await;
            page.goes_to(format!("http://{}/#user=s1&role=streamer&live=42", world.addr)).await;
            page.shows("#viewers", "0").await;
            paints.push(first_paint(&page).await);
            if round == 0 {
                let finished = page.heard("Network.loadingFinished");
                let bytes = |event: &Value| event["encodedDataLength"].as_f64().unwrap_or_default() as u64;
                let sent: u64 = finished.iter().map(bytes).sum();
                let unpacked = |event: &Value| event["dataLength"].as_u64().unwrap_or_default();
                let unpacked: u64 = page.heard("Network.dataReceived").iter().map(unpacked).sum();
                println!("the dashboard weighs {sent} bytes, {unpacked} unpacked, in {} answers", finished.len());
                assert!(30_000 < sent && sent < unpacked && unpacked < WEIGHT, "{sent} bytes, {unpacked} unpacked");
            }
            page.does_not_complain();
            page.closes().await;
            if is_soon(&paints, &bare) {
                break;
            }
        }
        println!("first paint after {paints:.0?} ms, of a line of text after {bare:.0?} ms");
        assert!(is_soon(&paints, &bare), "{paints:?} ms, and a line of text {bare:?} ms");
    }

    async fn a_part_that_did_not_change_is_not_sent_again() {
        let world = World::on_memory(|_| ()).await;
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for path in ["/", "/rollcall.js", "/pages/dashboard.js", "/pages/uplot.js", "/pages/style.css"] {
            let url = format!("http://{}{path}", world.addr);
            let first = client.get(&url).send().await.unwrap();
            assert_eq!(first.status(), 200, "{path}");
            assert_eq!(first.headers()["cache-control"], "no-cache");
            let tag = first.headers()["etag"].clone();
            let plain = first.bytes().await.unwrap();
            let packed = client.get(&url).header("accept-encoding", "br, gzip;q=0.5").send().await.unwrap();
            assert_eq!(packed.headers()["content-encoding"], "gzip");
            assert_eq!(packed.headers()["etag"], tag);
            let mut unpacked = Vec::new();
            GzDecoder::new(&packed.bytes().await.unwrap()[..]).read_to_end(&mut unpacked).unwrap();
            assert_eq!(unpacked, plain, "{path}");
            for refused in ["identity", "gzip;q=0"] {
                let whole = client.get(&url).header("accept-encoding", refused).send().await.unwrap();
                assert!(!whole.headers().contains_key("content-encoding"), "{refused}");
                assert_eq!(whole.bytes().await.unwrap(), plain);
            }
            let again = client.get(&url).header("if-none-match", tag).send().await.unwrap();
            assert_eq!(again.status(), 304, "{path}");
            assert_eq!(again.bytes().await.unwrap().len(), 0);
        }
    }

    async fn a_dashboard_takes_little_memory_after_six_hours() {
        let world = World::on_memory(|_| ()).await;
        let page = Visitor::comes().await.tab().await;
        page.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": FAKE_GATEWAY})).await;
        page.goes_to(format!("http://{}/#user=s1&role=streamer&live=42", world.addr)).await;
        page.shows("#viewers", "1,000").await;
        // The chart has the whole stream, from one request: the opening, and then the first point
        // of the history.
        page.value("document.querySelector('#chart').focus()").await;
        until("the chart goes back to the beginning", PATIENCE, async || {
            page.presses("Home").await;
            page.presses("ArrowRight").await;
            let shown = page.value("document.querySelector('#chart-values').textContent").await;
            let first = page.value("fake.firstShown()").await;
            if shown == first { Ok(()) } else { Err(format!("{shown} instead of {first}")) }
        })
        .await;
        assert_eq!(page.value("fake.asked.filter(path => path.includes('/history')).length").await, json!(1));

        // Six hours of figures, two a second, with the highest size of the heap on the way.
        let peak = page.value("fake.stream(6 * 3_600)").await.as_u64().unwrap();
        page.call("HeapProfiler.collectGarbage", json!({})).await;
        let rest = page.call("Runtime.getHeapUsage", json!({})).await["usedSize"].as_f64().unwrap() as u64;
        println!("the heap: {peak} bytes at most, {rest} at rest");
        assert!(rest < HEAP && peak < HEAP, "{peak} at most, {rest} at rest");
        page.shows("#viewers", page.value("fake.lastShown()").await.as_str().unwrap()).await;
        page.does_not_complain();
    }
}
