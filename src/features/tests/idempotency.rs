//! Requests that make something, sent again.

use crate::features::erasure::eraser::Eraser;
use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Request};

use crate::base::ids::{GatewayId, UserId};
use crate::config::Config;
use crate::edge::http::tests::world::{Answer, World};
use crate::features::erasure::store::Erasures;
use crate::features::profiles::store::Profiles;

const ANN: &str = r#"{"login":"ann","name":"Ann"}"#;
const BOB: &str = r#"{"login":"bob","name":"Bob"}"#;

impl World {
    async fn post_with(&self, key: &str, path: &str, body: &str) -> Answer {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header(
                "idempotency-key",
                HeaderValue::from_bytes(key.as_bytes()).unwrap(),
            );
        self.sends(request.body(Body::from(body.to_owned())).unwrap())
            .await
    }

    async fn statuses(&self, user: &str) -> usize {
        let page = self.get(&format!("/v1/users/{user}/profile")).await.is(200);
        page["items"].as_array().unwrap().len()
    }
}

fn id_of(answer: &Answer) -> String {
    answer.is(201)["user_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_repeated_request_makes_one_thing_and_has_one_answer() {
    let world = World::new();
    let first = world.post_with("a", "/v1/users", ANN).await;
    let user = id_of(&first);
    assert_eq!(first.header("location"), format!("/v1/users/{user}"));
    assert!(first.headers.get("idempotent-replayed").is_none());
    // The answer stays the same, whatever became of the user, and whichever gateway is asked.
    world.put(&format!("/v1/users/{user}"), BOB).await.is(200);
    let elsewhere = World::on(&Config::default(), world.store.clone());
    for gateway in [&world, &elsewhere] {
        let spelled = r#"{ "name": "Ann", "login": "ann" }"#;
        let again = gateway.post_with("a", "/v1/users", spelled).await;
        assert_eq!(again.status, 201);
        assert_eq!(again.text, first.text);
        assert_eq!(again.header("location"), first.header("location"));
        assert_eq!(again.header("idempotent-replayed"), "true");
    }
    let path = format!("/v1/users/{user}/statuses");
    let hi = r#"{"text":"hi","data":{"n":1}}"#;
    let status = world.post_with("a", &path, hi).await.is(201);
    assert_eq!(world.post_with("a", &path, hi).await.is(201), status);
    assert_eq!(world.statuses(&user).await, 1);
    let other = world.post_with("b", &path, hi).await.is(201);
    assert_ne!(other["status_id"], status["status_id"]);
    assert_eq!(world.statuses(&user).await, 2);
}

#[tokio::test]
async fn a_key_stands_for_one_request() {
    let world = World::new();
    world.post_with("a", "/v1/users", ANN).await.is(201);
    world
        .post_with("a", "/v1/users", BOB)
        .await
        .is_problem(409, "idempotency_key_reused");
    // A refusal is not kept: the same request may succeed later.
    let taken = r#"{"login":"ann","name":"Another"}"#;
    world
        .post_with("b", "/v1/users", taken)
        .await
        .is_problem(409, "login_taken");
    world
        .post_with("b", "/v1/users", BOB)
        .await
        .is_problem(409, "idempotency_key_reused");
    let ann = id_of(&world.post_with("a", "/v1/users", ANN).await);
    world
        .put(
            &format!("/v1/users/{ann}"),
            r#"{"login":"ann2","name":"A"}"#,
        )
        .await
        .is(200);
    world.post_with("b", "/v1/users", taken).await.is(201);
    for wrong in ["", "a b", "\u{e4}", &"x".repeat(256)] {
        world
            .post_with(wrong, "/v1/users", ANN)
            .await
            .is_problem(400, "invalid_idempotency_key");
    }
}

#[tokio::test]
async fn a_request_whose_answer_was_not_kept_makes_nothing_twice() {
    let world = World::new();
    let user = id_of(&world.post("/v1/users", ANN).await);
    let path = format!("/v1/users/{user}/statuses");
    let hi = r#"{"text":"hi"}"#;
    for (path, body) in [(path.as_str(), hi), ("/v1/users", BOB)] {
        world.store.fails_once("keep_answer", 0);
        world
            .post_with("k", path, body)
            .await
            .is_problem(503, "store_unavailable");
        let again = world.post_with("k", path, body).await;
        assert_eq!(again.status, 201, "{again:?}");
        assert!(again.headers.get("idempotent-replayed").is_none());
        assert_eq!(world.post_with("k", path, body).await.text, again.text);
    }
    assert_eq!(world.statuses(&user).await, 1);
    let bob = id_of(&world.post_with("k", "/v1/users", BOB).await);
    let known = world.get(&format!("/v1/users/{bob}")).await.is(200);
    assert_eq!(known["login"], "bob");
}

#[tokio::test]
async fn without_a_key_two_equal_requests_make_two_things() {
    let world = World::new();
    let user = id_of(&world.post("/v1/users", ANN).await);
    let path = format!("/v1/users/{user}/statuses");
    for _ in 0..2 {
        let made = world.post(&path, r#"{"text":"hi"}"#).await;
        let status = made.is(201)["status_id"].as_str().unwrap().to_owned();
        assert_eq!(made.header("location"), format!("{path}/{status}"));
    }
    assert_eq!(world.statuses(&user).await, 2);
}

#[tokio::test]
async fn a_path_is_the_same_however_it_is_spelt() {
    let world = World::new();
    world.put("/v1/users/a@b", ANN).await.is(201);
    let hi = r#"{"text":"hi"}"#;
    for path in ["/v1/users/a@b/statuses", "/v1/users/a%40b/statuses"] {
        world.post_with("k", path, hi).await.is(201);
    }
    assert_eq!(world.statuses("a@b").await, 1);
    world.put("/v1/users/a", BOB).await.is(201);
    world
        .post_with("k", "/v1/users/a/statuses", hi)
        .await
        .is(201);
    assert_eq!(
        world.statuses("a").await,
        1,
        "another user's path is another"
    );
}

#[tokio::test]
async fn no_repeated_request_brings_back_who_was_erased() {
    let world = World::new();
    let user = id_of(&world.post_with("k", "/v1/users", ANN).await);
    let path = format!("/v1/users/{user}");
    let statuses = format!("{path}/statuses");
    let hi = r#"{"text":"hi"}"#;
    world.post_with("k", &statuses, hi).await.is(201);
    // Only the claim to this one is kept.
    world.store.fails_once("keep_answer", 0);
    world
        .post_with("k2", &statuses, hi)
        .await
        .is_problem(503, "store_unavailable");
    world.delete(&path).await.is(202);
    let erased = UserId::parse(&user).unwrap();
    world.store.erase_some(&erased, "").await.unwrap();
    let worker = GatewayId::random();
    let job = world.store.take_erasure(&worker).await.unwrap().unwrap();
    world.store.finish_erasure(&worker, &job).await.unwrap();
    // An erasure that was asked for in this millisecond is not over yet.
    while world.app.core.erasing.contains(&erased) {
        world.app.of::<Arc<Eraser>>().hear().await.unwrap();
    }
    for _ in 0..2 {
        let again = world.post_with("k", "/v1/users", ANN).await;
        again.is_problem(410, "erased");
    }
    assert!(world.store.profile(&erased).await.unwrap().is_none());
    // The platform may bring the user back by itself, and what the user did stays erased.
    world.put(&path, ANN).await.is(201);
    for key in ["k", "k2"] {
        let again = world.post_with(key, &statuses, hi).await;
        again.is_problem(410, "erased");
    }
    assert_eq!(world.statuses(&user).await, 0);
    let bob = id_of(&world.post_with("k2", "/v1/users", BOB).await);
    assert_ne!(bob, user);
}

#[tokio::test]
async fn an_id_is_forgotten_with_its_key() {
    let mut made = HashSet::new();
    for _ in 0..2 {
        let world = World::new();
        made.insert(id_of(&world.post_with("k", "/v1/users", ANN).await));
    }
    assert_eq!(made.len(), 2, "nothing but the store knows the id of a key");
}
