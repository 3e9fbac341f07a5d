//! Lives over HTTP: open, read, list and close, with the statuses that a back end may rely on.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::stores::{on_both_stores, on_memory};
use crate::support::wait::{PATIENCE, becomes};

on_memory! {
    async fn the_caller_chooses_the_number_of_slices(world) {
        let backend = world.backend();
        assert_eq!(backend.open_sliced("42", "s1", 8).await["slices"], 8);
        assert_eq!(backend.live("42").await["slices"], 8);
        world.crowd_follows("u", 30).await;
        let _crowd = world.crowd("u", 30, "42").await;
        world.card_becomes("42", 30, PATIENCE).await;
        assert_eq!(backend.fans("42").await.len(), 30);
        backend.close("42").await;
        assert_eq!(world.card("42").await, 0);
    }
}

on_both_stores! {
    async fn a_live_shows_its_figures_and_peaks(world) {
        world.open("42").await;
        world.crowd_follows("u", 2).await;
        let mut crowd = world.crowd("u", 3, "42").await;
        let figures = || async {
            let live = world.backend().live("42").await;
            let numbers = ["viewers", "fans", "peak_viewers", "peak_fans"].map(|field| live[field].as_u64());
            numbers.map(|n| n.unwrap_or_else(|| panic!("a figure is missing in {live}")))
        };
        becomes("the figures", [3, 2, 3, 2], async || figures().await).await;
        crowd.remove(0).close().await;
        becomes("the figures", [2, 1, 3, 2], async || figures().await).await;
    }
}

on_memory! {
    async fn a_listing_goes_on_while_lives_open_and_close(world) {
        for i in 0..20 {
            world.open(&format!("live-{i:02}")).await;
        }
        let backend = world.backend();
        let first = backend.get("/v1/lives?limit=10").await.is(200).body;
        let mut listed: Vec<String> = Vec::new();
        let mut take = |page: &Value| {
            for live in page["items"].as_array().unwrap() {
                listed.push(live["live_id"].as_str().unwrap().to_owned());
            }
        };
        take(&first);
        let gone = first["items"][3]["live_id"].as_str().unwrap().to_owned();
        backend.close(&gone).await;
        world.open("late").await;
        let cursor = first["cursor"].as_str().map_or_else(|| first["cursor"].to_string(), str::to_owned);
        take(&backend.get(&format!("/v1/lives?limit=100&cursor={cursor}")).await.is(200).body);
        let distinct: BTreeSet<_> = listed.iter().collect();
        assert_eq!(distinct.len(), listed.len(), "each at most once: {listed:?}");
        for i in 0..20 {
            assert!(distinct.contains(&format!("live-{i:02}")), "live-{i:02} was there all the time: {listed:?}");
        }
    }
}
