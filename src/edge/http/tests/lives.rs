//! Opening, closing, looking at and listing lives.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::world::World;

#[tokio::test]
async fn a_close_that_names_its_opening_closes_no_later_one() {
    let world = World::new();
    world.opens("42", 1).await;
    let first = world.get("/v1/lives/42").await.is(200)["epoch"]
        .as_u64()
        .unwrap();
    let close_first = format!("/v1/lives/42?epoch={first}");
    for _ in 0..2 {
        assert_eq!(world.delete(&close_first).await.is(200)["state"], "closed");
    }
    world.opens("42", 1).await;
    world
        .delete(&close_first)
        .await
        .is_problem(409, "live_not_open");
    let second = world.get("/v1/lives/42").await.is(200);
    assert_eq!(second["state"], "open");
    let close_second = format!("/v1/lives/42?epoch={}", second["epoch"]);
    assert_eq!(world.delete(&close_second).await.is(200)["state"], "closed");
    world
        .delete("/v1/lives/42?epoch=last")
        .await
        .is_problem(400, "invalid_query");
}

#[tokio::test]
async fn a_back_end_opens_and_closes_a_live() {
    let world = World::new();
    world
        .get("/v1/lives/42")
        .await
        .is_problem(404, "live_not_found");
    world
        .delete("/v1/lives/42")
        .await
        .is_problem(404, "live_not_found");

    let opened = world
        .put("/v1/lives/42", r#"{"streamer_id":"s1","slices":8}"#)
        .await;
    assert_eq!(opened.header("location"), "/v1/lives/42");
    let live = opened.is(201);
    assert_eq!(
        (&live["state"], &live["slices"]),
        (&"open".into(), &8.into())
    );
    let epoch = live["epoch"].as_u64().unwrap();
    assert!(
        epoch >= live["opened_at"].as_u64().unwrap() / 1_000,
        "an epoch is at least the time in seconds: {live}"
    );
    assert_eq!(
        (&live["live_id"], &live["streamer_id"]),
        (&"42".into(), &"s1".into())
    );
    assert!(live["reason"].is_null());

    let again = world
        .put(
            "/v1/lives/42",
            r#"{"streamer_id":"s1","slices":4,"attendance":false}"#,
        )
        .await
        .is(200);
    assert_eq!(
        (&again["slices"], &again["epoch"]),
        (&8.into(), &epoch.into())
    );
    world
        .put("/v1/lives/42", r#"{"streamer_id":"s2"}"#)
        .await
        .is_problem(409, "live_owned");

    let now = world.get("/v1/lives/42").await.is(200);
    assert_eq!(
        (&now["viewers"], &now["fans"], &now["opened_by"]),
        (&0.into(), &0.into(), &"service".into())
    );

    let closed = world.delete("/v1/lives/42").await.is(200);
    assert_eq!(
        (&closed["state"], &closed["reason"]),
        (&"closed".into(), &"requested".into())
    );
    assert!(closed["duration_ms"].is_u64());
    assert_eq!(world.delete("/v1/lives/42").await.is(200), closed);
    assert_eq!(world.get("/v1/lives/42").await.is(200)["state"], "closed");

    let reopened = world
        .put("/v1/lives/42", r#"{"streamer_id":"s2"}"#)
        .await
        .is(201);
    assert!(reopened["epoch"].as_u64().unwrap() > epoch, "{reopened}");
}

#[tokio::test]
async fn a_thousand_lives_with_the_longest_ids_are_asked_about_at_once() {
    let world = World::new();
    let many = |n: usize| {
        json!({"live_ids": (0..n).map(|i| format!("{i:064}")).collect::<Vec<_>>()}).to_string()
    };
    let answer = world.post("/v1/lives:query", &many(1_000)).await.is(200);
    assert_eq!(answer["unknown"].as_array().unwrap().len(), 1_000);
    world
        .post("/v1/lives:query", &many(1_001))
        .await
        .is_problem(400, "bad_message");
    world
        .post("/v1/lives:query", &many(2_000))
        .await
        .is_problem(413, "body_too_large");
}

#[tokio::test(start_paused = true)]
async fn open_lives_are_listed_oldest_first() {
    let world = World::new();
    assert_eq!(world.pages("/v1/lives", 2, "live_id").await, [[""; 0]]);
    for live in ["c", "a", "e", "b", "d"] {
        world.opens(live, 1).await;
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert_eq!(
        world.pages("/v1/lives", 2, "live_id").await,
        [vec!["c", "a"], vec!["e", "b"], vec!["d"]]
    );
    assert_eq!(
        world.pages("/v1/lives", 5, "live_id").await,
        [["c", "a", "e", "b", "d"]]
    );
    // The store's list still names it; its record says that it is closed.
    world.delete("/v1/lives/a").await.is(200);
    assert_eq!(
        world.pages("/v1/lives", 2, "live_id").await,
        [vec!["c"], vec!["e", "b"], vec!["d"]]
    );
}

#[tokio::test]
async fn what_the_clients_of_a_live_are_told_can_be_read() {
    let world = World::new();
    world
        .get("/v1/lives/42/info")
        .await
        .is_problem(404, "live_not_found");
    world.opens("42", 1).await;
    let nothing = world.get("/v1/lives/42/info").await.is(200);
    assert_eq!(
        (&nothing["info"], &nothing["info_version"]),
        (&Value::Null, &json!(0))
    );
    let written = world
        .put("/v1/lives/42/info", r#"{"pinned": "Hello"}"#)
        .await
        .is(200);
    assert_eq!(written["info"], json!({"pinned": "Hello"}));
    assert_eq!(world.get("/v1/lives/42/info").await.is(200), written);
    world.delete("/v1/lives/42").await.is(200);
    assert_eq!(
        world.get("/v1/lives/42/info").await.is(200)["info"],
        Value::Null
    );
}

#[tokio::test]
async fn the_title_of_an_open_live_can_be_corrected() {
    let world = World::new();
    let patch = |body: &'static str| {
        let request = Request::patch("/v1/lives/42").header("content-type", "application/json");
        world.sends(request.body(Body::from(body)).unwrap())
    };
    patch(r#"{"title":"A"}"#)
        .await
        .is_problem(404, "live_not_found");
    let opened = world
        .put("/v1/lives/42", r#"{"streamer_id":"s1","title":"Coking"}"#)
        .await
        .is(201);
    let changed = patch(r#"{"title":"Cooking"}"#).await.is(200);
    assert_eq!(
        (&changed["title"], &changed["epoch"]),
        (&json!("Cooking"), &opened["epoch"])
    );
    assert_eq!(world.get("/v1/lives/42").await.is(200)["title"], "Cooking");
    // What is left out stays; null is the default.
    let changed = patch(r#"{"streamer_timeout_s":60}"#).await.is(200);
    assert_eq!(
        (&changed["title"], &changed["streamer_timeout_s"]),
        (&json!("Cooking"), &json!(60))
    );
    assert_eq!(patch("{}").await.is(200), changed);
    let changed = patch(r#"{"title":null,"streamer_timeout_s":null}"#)
        .await
        .is(200);
    assert_eq!(
        (&changed["title"], &changed["streamer_timeout_s"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(
        world.get("/v1/lives/42").await.is(200)["title"],
        Value::Null
    );
    // What the clients are told is another matter.
    let info = async || world.get("/v1/lives/42/info").await.is(200);
    assert_eq!(info().await["info_version"], 0);
    let told = world.put("/v1/lives/42/info", "7").await.is(200);
    patch(r#"{"title":"Baking"}"#).await.is(200);
    assert_eq!((&info().await, &told["info"]), (&told, &json!(7)));
    patch(r#"{"slices":2}"#)
        .await
        .is_problem(400, "unknown_field");
    patch(r#"{"title":7}"#).await.is_problem(400, "bad_message");
    world.delete("/v1/lives/42").await.is(200);
    patch(r#"{"title":"Late"}"#)
        .await
        .is_problem(409, "live_not_open");
    assert_eq!(
        world.get("/v1/lives/42").await.is(200)["summary"]["title"],
        "Baking"
    );
}

#[tokio::test]
async fn opening_an_open_live_again_makes_it_what_the_request_names() {
    let world = World::new();
    let put = async |body: &str| world.put("/v1/lives/42", body).await;
    put(r#"{"streamer_id":"s1","title":"One","streamer_timeout_s":60}"#)
        .await
        .is(201);
    let again = put(r#"{"streamer_id":"s1","title":"Two"}"#).await.is(200);
    assert_eq!(
        (&again["title"], &again["streamer_timeout_s"]),
        (&json!("Two"), &json!(60))
    );
    assert_eq!(
        put(r#"{"streamer_id":"s1"}"#).await.is(200)["title"],
        "Two",
        "a repeated request erases nothing"
    );
    assert_eq!(world.get("/v1/lives/42").await.is(200)["title"], "Two");
}

#[tokio::test]
async fn a_live_that_closes_while_it_is_opened_again_opens_anew() {
    let world = World::new();
    let put = async |body: &str| world.put("/v1/lives/42", body).await;
    let first = put(r#"{"streamer_id":"s1","title":"One"}"#).await.is(201);
    world.store.closes_before_a_change();
    let second = put(r#"{"streamer_id":"s1","title":"Two"}"#).await.is(201);
    assert!(second["epoch"].as_u64() > first["epoch"].as_u64());
    assert_eq!(second["title"], "Two");
}

#[tokio::test]
async fn a_live_says_whether_feeds_leave_it_out() {
    let world = World::new();
    for (live, body, invisible) in [
        ("42", r#"{"streamer_id":"s1","invisible":true}"#, true),
        ("43", r#"{"streamer_id":"s1"}"#, false),
    ] {
        let path = format!("/v1/lives/{live}");
        assert_eq!(world.put(&path, body).await.is(201)["invisible"], invisible);
        assert_eq!(world.get(&path).await.is(200)["invisible"], invisible);
    }
}

#[tokio::test]
async fn every_gateway_knows_the_new_title() {
    let world = World::new();
    world.opens("42", 1).await;
    let elsewhere = World::on(&crate::config::Config::default(), world.store.clone());
    elsewhere
        .put("/v1/lives/42", r#"{"streamer_id":"s1","title":"New"}"#)
        .await
        .is(200);
    let live = crate::base::ids::LiveId::parse("42").unwrap();
    world.app.lives.record_changed(&live).await.unwrap();
    assert_eq!(world.get("/v1/lives/42").await.is(200)["title"], "New");
    // Late word of an older version changes nothing.
    let room = world.app.core.rooms.get(&live).unwrap();
    world.app.core.rooms.note_changes(&room, &room.record);
    assert_eq!(world.get("/v1/lives/42").await.is(200)["title"], "New");
}
