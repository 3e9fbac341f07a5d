//! Lives over HTTP: open, read, list and close, with the statuses that a back end may rely on.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::stores::{on_both_stores, on_memory};
use crate::support::wait::{PATIENCE, same, until};

on_memory! {
    async fn a_live_is_opened_looked_at_and_closed(world) {
        let backend = world.backend();
        let opened = backend.put("/v1/lives/42", json!({"streamer_id": "s1"})).await.is(201).body;
        // Epochs follow the time, so none is used again, whatever was lost.
        let epoch = opened["epoch"].as_u64().unwrap();
        assert!(epoch > 1_700_000_000, "{opened}");
        let live = backend.live("42").await;
        assert_eq!(live["live_id"], "42");
        assert_eq!(live["state"], "open");
        assert_eq!(live["streamer_id"], "s1");
        assert_eq!(live["epoch"], epoch);
        assert_eq!(live["slices"], 1);
        assert_eq!((&live["viewers"], &live["fans"]), (&json!(0), &json!(0)));
        assert!(live["opened_at"].as_u64().unwrap() > 1_700_000_000_000, "{live}");
        let closed = backend.delete("/v1/lives/42").await.is(200).body;
        assert_eq!(closed["state"], "closed", "{closed}");
        assert_eq!(backend.live("42").await["state"], "closed");
    }
}

on_memory! {
    async fn opening_again_answers_200_and_the_same_epoch(world) {
        let backend = world.backend();
        let first = backend.put("/v1/lives/42", json!({"streamer_id": "s1"})).await.is(201).body;
        let again = backend.put("/v1/lives/42", json!({"streamer_id": "s1"})).await.is(200).body;
        assert_eq!(again["epoch"], first["epoch"]);
        backend.close("42").await;
        let reopened = backend.put("/v1/lives/42", json!({"streamer_id": "s1"})).await.is(201).body;
        assert!(reopened["epoch"].as_u64() > first["epoch"].as_u64(), "{reopened} after {first}");
    }
}

on_memory! {
    async fn another_streamer_s_live_is_owned(world) {
        let backend = world.backend();
        backend.open("42", "s1").await;
        let answer = backend.put("/v1/lives/42", json!({"streamer_id": "s2"})).await;
        assert_eq!(answer.problem(409), "live_owned");
        assert_eq!(backend.live("42").await["streamer_id"], "s1");
        backend.close("42").await;
        backend.put("/v1/lives/42", json!({"streamer_id": "s2"})).await.is(201);
    }
}

on_memory! {
    async fn closing_again_answers_200_and_an_unknown_live_404(world) {
        let backend = world.backend();
        backend.open("42", "s1").await;
        backend.delete("/v1/lives/42").await.is(200);
        backend.delete("/v1/lives/42").await.is(200);
        backend.delete("/v1/lives/never").await.problem(404);
        backend.get("/v1/lives/never").await.problem(404);
        backend.get("/v1/lives/never/fans").await.problem(404);
        backend.get("/v1/lives/never/fans/u1").await.problem(404);
    }
}

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
        for bad in [json!(0), json!(-1), json!(257), json!("8"), json!(1.5)] {
            backend.put("/v1/lives/43", json!({"streamer_id": "s1", "slices": bad})).await.problem(400);
        }
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
        until("the figures", PATIENCE, || async { same(figures().await, [3, 2, 3, 2]) }).await;
        crowd.remove(0).close().await;
        until("the figures", PATIENCE, || async { same(figures().await, [2, 1, 3, 2]) }).await;
    }
}

on_memory! {
    async fn open_lives_are_listed_page_by_page(world) {
        let wanted: BTreeSet<String> = (0..25).map(|i| format!("live-{i}")).collect();
        for live in &wanted {
            world.open(live).await;
        }
        world.open("closed").await;
        world.backend().close("closed").await;
        let ids = |items: Vec<Value>| -> Vec<String> {
            items.iter().map(|live| live["live_id"].as_str().unwrap().to_owned()).collect()
        };
        for limit in [1, 7, 25, 1_000] {
            let listed = ids(world.backend().list("/v1/lives", limit).await);
            assert_eq!(listed.len(), 25, "each once, with limit {limit}: {listed:?}");
            assert_eq!(BTreeSet::from_iter(listed), wanted, "limit {limit}");
        }
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
