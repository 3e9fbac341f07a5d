//! Listing the fans of a live: each once, whatever the store repeats and whoever comes and goes.

use std::sync::atomic::Ordering;

use super::world::World;
use crate::config::Config;
use crate::edge::http::paging::Listing;

async fn room(slices: u32, fans: usize) -> (World, Vec<String>) {
    let world = World::new();
    world.opens("42", slices).await;
    let mut names: Vec<_> = (0..fans).map(|n| format!("u{n}")).collect();
    names.iter().for_each(|name| world.store.comes("42", name));
    names.sort();
    (world, names)
}

async fn listed(world: &World, limit: usize) -> Vec<String> {
    let mut fans = world
        .pages("/v1/lives/42/fans", limit, "user_id")
        .await
        .concat();
    fans.sort();
    fans
}

#[tokio::test]
async fn each_fan_comes_once_on_pages_of_any_size() {
    for slices in [1, 8] {
        let (world, fans) = room(slices, 25).await;
        for limit in [1, 2, 7, 24, 25, 26, 1_000] {
            let pages = world.pages("/v1/lives/42/fans", limit, "user_id").await;
            assert_eq!(pages.len(), 25_usize.div_ceil(limit), "{limit}: {pages:?}");
            assert_eq!(
                listed(&world, limit).await,
                fans,
                "slices {slices}, limit {limit}"
            );
        }
    }
}

#[tokio::test]
async fn a_listing_begins_with_what_is_true_now() {
    let (world, fans) = room(4, 12).await;
    assert_eq!(listed(&world, 2).await, fans);
    // The copies of the listing before are seconds young, and yet too old for this one.
    world.store.comes("42", "newcomer");
    world.store.goes("u3");
    let fans = listed(&world, 2).await;
    assert_eq!(fans.len(), 12);
    assert!(fans.contains(&"newcomer".to_owned()) && !fans.contains(&"u3".to_owned()));
}

#[tokio::test]
async fn fans_who_come_back_in_the_middle_are_not_listed_twice() {
    let (world, fans) = room(2, 20).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    for round in 0.. {
        let page = world
            .get(&format!("/v1/lives/42/fans?limit=3&cursor={cursor}"))
            .await
            .is(200);
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|fan| fan["user_id"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["cursor"].as_str() else {
            break;
        };
        next.clone_into(&mut cursor);
        for fan in &fans[..10] {
            world.store.goes(fan);
            world.store.comes("42", fan);
        }
        // A second listing replaces the copies under the first one.
        if round % 2 == 0 {
            listed(&world, 1_000).await;
        }
    }
    seen.sort();
    assert_eq!(seen, fans);
}

#[tokio::test]
async fn pages_of_one_listing_share_one_read_of_a_slice() {
    let (world, fans) = room(1, 20).await;
    assert_eq!(
        world
            .pages("/v1/lives/42/fans", 4, "user_id")
            .await
            .concat(),
        fans
    );
    assert_eq!(world.store.scans.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_cursor_from_the_future_costs_no_more_than_any_other() {
    let (world, fans) = room(1, 20).await;
    let epoch = world.get("/v1/lives/42").await.is(200)["epoch"]
        .as_u64()
        .unwrap();
    let cursor = Listing::Fans.cursor(&[&u64::MAX, &epoch, &1, &fans[4]]);
    let page = world
        .get(&format!("/v1/lives/42/fans?cursor={cursor}"))
        .await
        .is(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 15);
    assert_eq!(world.store.scans.load(Ordering::SeqCst), 1);
    for slice in [0, 2] {
        let cursor = Listing::Fans.cursor(&[&1, &epoch, &slice, &fans[4]]);
        world
            .get(&format!("/v1/lives/42/fans?cursor={cursor}"))
            .await
            .is_problem(400, "invalid_cursor");
    }
}

#[tokio::test]
async fn another_gateway_can_answer_the_next_page() {
    let (world, fans) = room(2, 10).await;
    let page = world.get("/v1/lives/42/fans?limit=4").await.is(200);
    let elsewhere = World::on(&Config::default(), world.store.clone());
    let path = format!(
        "/v1/lives/42/fans?cursor={}",
        page["cursor"].as_str().unwrap()
    );
    let rest = elsewhere.get(&path).await.is(200);
    let items = |page: &serde_json::Value| page["items"].as_array().unwrap().clone();
    let mut seen: Vec<_> = [items(&page), items(&rest)].concat();
    seen.sort_by_key(ToString::to_string);
    assert_eq!(seen.len(), fans.len());
    assert_eq!(
        seen.iter()
            .map(|fan| fan["user_id"].as_str().unwrap())
            .collect::<Vec<_>>(),
        fans
    );
}

#[tokio::test]
async fn an_ended_live_has_no_fans() {
    let (world, _) = room(2, 10).await;
    let page = world.get("/v1/lives/42/fans?limit=4").await.is(200);
    let cursor = page["cursor"].as_str().unwrap().to_owned();
    assert_eq!(
        world.get("/v1/lives/42/fans/u1").await.is(200)["online"],
        true
    );
    world.delete("/v1/lives/42").await.is(200);
    let nothing = serde_json::json!({"items": [], "cursor": null});
    assert_eq!(world.get("/v1/lives/42/fans").await.is(200), nothing);
    assert_eq!(
        world.get("/v1/lives/42/fans/u1").await.is(200)["online"],
        false
    );
    // Opened again: the old listing is over, it does not go on among the new fans.
    world.opens("42", 1).await;
    world.store.comes("42", "zz");
    assert_eq!(
        world
            .get(&format!("/v1/lives/42/fans?cursor={cursor}"))
            .await
            .is(200),
        nothing
    );
    assert_eq!(listed(&world, 10).await, ["zz"]);
}

#[tokio::test]
async fn one_fan_is_online_or_not() {
    let (world, _) = room(8, 10).await;
    assert_eq!(
        world.get("/v1/lives/42/fans/u9").await.is(200),
        serde_json::json!({"online": true})
    );
    assert_eq!(
        world.get("/v1/lives/42/fans/u10").await.is(200)["online"],
        false
    );
    world
        .get("/v1/lives/43/fans/u9")
        .await
        .is_problem(404, "live_not_found");
    world
        .get("/v1/lives/43/fans")
        .await
        .is_problem(404, "live_not_found");
}
