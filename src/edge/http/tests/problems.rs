//! Every refusal is a problem document.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::routing::get;

use super::world::{World, answer};
use crate::edge::http::routes::with_middleware;

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_told_apart() {
    let world = World::new();
    for path in [
        "/nothing",
        "/v1",
        "/v1/lives/",
        "/v1/lives/42/",
        "/v1/lives/42/nothing",
        "//",
    ] {
        world.get(path).await.is_problem(404, "not_found");
    }
    let wrong = world.put("/v1/lives", "{}").await;
    wrong.is_problem(405, "method_not_allowed");
    assert_eq!(wrong.header("allow"), "GET,HEAD");
    let wrong = world
        .sends(Request::post("/v1/lives/42").body(Body::empty()).unwrap())
        .await;
    wrong.is_problem(405, "method_not_allowed");
    let mut allowed: Vec<_> = wrong.header("allow").split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["DELETE", "GET", "HEAD", "PATCH", "PUT"]);
    world
        .delete("/healthz")
        .await
        .is_problem(405, "method_not_allowed");
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let world = World::new();
    for bad in [
        "",
        "{",
        "[]",
        r#"["s1",1]"#,
        "null",
        "{}",
        r#"{"streamer_id":1}"#,
        r#"{"streamer_id":"s1","slices":"8"}"#,
        r#"{"streamer_id":"s1","slices":1.5}"#,
        r#"{"streamer_id":"s1","slices":0}"#,
        r#"{"streamer_id":"s1","slices":257}"#,
        r#"{"streamer_id":"s1","slices":1e300}"#,
        r#"{"streamer_id":"s1","slices":18446744073709551616}"#,
        r#"{"streamer_id":"s1","slices":-1}"#,
        r#"{"streamer_id":"s1"} x"#,
    ] {
        world
            .put("/v1/lives/42", bad)
            .await
            .is_problem(400, "bad_message");
    }
    let untyped = Request::put("/v1/lives/42")
        .body(Body::from(r#"{"streamer_id":"s1"}"#))
        .unwrap();
    world
        .sends(untyped)
        .await
        .is_problem(415, "unsupported_media_type");
    let huge = format!(r#"{{"streamer_id":"s1","x":"{}"}}"#, "x".repeat(64 << 10));
    world
        .put("/v1/lives/42", &huge)
        .await
        .is_problem(413, "body_too_large");
    world
        .get("/v1/lives/42")
        .await
        .is_problem(404, "live_not_found");
}

#[tokio::test]
async fn a_number_may_be_spelled_as_json_allows() {
    let world = World::new();
    for (n, spelled) in ["8", "8.0", "0.8e1"].into_iter().enumerate() {
        let body = format!(r#"{{"streamer_id":"s1","slices":{spelled}}}"#);
        assert_eq!(
            world.put(&format!("/v1/lives/{n}"), &body).await.is(201)["slices"],
            8,
            "{spelled}"
        );
    }
    assert!(
        world
            .put("/v1/lives/0/bans/u1", r#"{"ban_s":6e2}"#)
            .await
            .is(200)["ban_ends_at"]
            .is_u64()
    );
    let remove = |body: &'static str| {
        let request =
            Request::delete("/v1/lives/0/viewers/u1").header("content-type", "application/json");
        world.sends(request.body(Body::from(body)).unwrap())
    };
    assert!(remove(r#"{"ban_s":6e2}"#).await.is(200)["ban_ends_at"].is_u64());
    for nothing in ["", "null", " null ", r#"{"ban_s":null}"#] {
        remove(nothing).await.is(200);
    }
    remove("nul").await.is_problem(400, "bad_message");
    world
        .get("/v1/gateway/slices?live_id=")
        .await
        .is_problem(400, "invalid_id");
    for bad in ["", "0", "257", "-1", "x", "1.5"] {
        world
            .get(&format!("/v1/gateway/slices?slice={bad}"))
            .await
            .is_problem(400, "invalid_query");
    }
}

#[tokio::test]
async fn malformed_ids_are_refused_everywhere() {
    let world = World::new();
    let long = "x".repeat(65);
    for bad in [
        "%7B42%7D",
        "a%20b",
        "42_slice1",
        "a%2Fb",
        "%00",
        "%FF",
        "42*",
        "a:b",
        &long,
    ] {
        world
            .get(&format!("/v1/lives/{bad}"))
            .await
            .is_problem(400, "invalid_id");
        world
            .delete(&format!("/v1/lives/{bad}"))
            .await
            .is_problem(400, "invalid_id");
        world
            .put(&format!("/v1/lives/{bad}"), r#"{"streamer_id":"s1"}"#)
            .await
            .is_problem(400, "invalid_id");
        world
            .get(&format!("/v1/lives/{bad}/fans"))
            .await
            .is_problem(400, "invalid_id");
        world
            .get(&format!("/v1/lives/{bad}/fans/u1"))
            .await
            .is_problem(400, "invalid_id");
    }
    for bad in ["%7Bu%7D", "a%0Ab", "%C3%A4", &long] {
        world
            .get(&format!("/v1/lives/42/fans/{bad}"))
            .await
            .is_problem(400, "invalid_id");
        world
            .get(&format!("/v1/users/{bad}/following"))
            .await
            .is_problem(400, "invalid_id");
        world
            .get(&format!("/v1/users/{bad}/followers"))
            .await
            .is_problem(400, "invalid_id");
        world
            .put(&format!("/v1/users/u1/following/{bad}"), "")
            .await
            .is_problem(400, "invalid_id");
        world
            .delete(&format!("/v1/users/{bad}/following/s1"))
            .await
            .is_problem(400, "invalid_id");
    }
    world
        .put("/v1/lives/42", r#"{"streamer_id":"{s1}"}"#)
        .await
        .is_problem(400, "invalid_id");
}

#[tokio::test]
async fn limits_and_cursors_are_checked() {
    let world = World::new();
    world.opens("42", 1).await;
    for listing in [
        "/v1/lives",
        "/v1/lives/42/fans",
        "/v1/users/u1/following",
        "/v1/users/u1/followers",
    ] {
        for bad in ["0", "1001", "-1", "ten", "1.5", "99999999999999999999999"] {
            world
                .get(&format!("{listing}?limit={bad}"))
                .await
                .is_problem(400, "invalid_limit");
        }
        // The last but one is of no listing, the last has a byte that is not base64url.
        for bad in ["x", "0", "MTIz", "bi8xLzE", "eC8xLzI", "bi8x%2B"] {
            world
                .get(&format!("{listing}?cursor={bad}"))
                .await
                .is_problem(400, "invalid_cursor");
        }
        world
            .get(&format!("{listing}?limit=1&limit=2"))
            .await
            .is_problem(400, "invalid_query");
        for good in ["", "?limit=1", "?limit=1000", "?cursor=&limit="] {
            world.get(&format!("{listing}{good}")).await.is(200);
        }
        for unknown in ["?else=1", "?limt=1", "?Limit=1"] {
            world
                .get(&format!("{listing}{unknown}"))
                .await
                .is_problem(400, "unknown_field");
        }
    }
}

#[tokio::test]
async fn a_cursor_is_refused_by_another_listing() {
    let world = World::new();
    for streamer in ["s1", "s2"] {
        world
            .put(&format!("/v1/users/u1/following/{streamer}"), "")
            .await
            .is(200);
    }
    let page = world.get("/v1/users/u1/following?limit=1").await.is(200);
    let cursor = page["cursor"].as_str().unwrap();
    world
        .get(&format!("/v1/users/u1/following?cursor={cursor}"))
        .await
        .is(200);
    world
        .get(&format!("/v1/users/u1/followers?cursor={cursor}"))
        .await
        .is_problem(400, "invalid_cursor");
    world
        .get(&format!("/v1/lives?cursor={cursor}"))
        .await
        .is_problem(400, "invalid_cursor");
    let cut = &cursor[..cursor.len() - 2];
    let garbled = format!("/v1/lives/42/fans?cursor={cut}");
    world.get(&garbled).await.is_problem(400, "invalid_cursor");
}

#[tokio::test]
async fn an_unavailable_store_is_reported_without_its_secrets() {
    let world = World::new();
    world.opens("42", 1).await;
    world.store.breaks();
    let answers = [
        world.put("/v1/lives/43", r#"{"streamer_id":"s1"}"#).await,
        world.delete("/v1/lives/42").await,
        // This gateway holds no room of it, so the store must say.
        world.get("/v1/lives/43").await,
        world.get("/v1/lives").await,
        world.get("/v1/lives/42/fans").await,
        world.get("/v1/lives/42/fans/u1").await,
        world.put("/v1/users/u1/following/s1", "").await,
        world.delete("/v1/users/u1/following/s1").await,
        world.get("/v1/users/u1/following").await,
        world.get("/v1/users/u1/followers").await,
    ];
    for answer in answers {
        answer.is_problem(503, "store_unavailable");
        assert_eq!(answer.header("retry-after"), "1");
        assert!(!answer.text.contains("redis.internal"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_handler_that_panics_answers_500() {
    let world = World::new();
    async fn broken() -> &'static str {
        panic!("on purpose")
    }
    let router = with_middleware(
        Router::new().route("/broken", get(broken)),
        world.app.clone(),
    );
    answer(
        &router,
        Request::get("/broken").body(Body::empty()).unwrap(),
    )
    .await
    .is_problem(500, "internal");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_cut_off() {
    let world = World::new();
    let never = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
    let request = Request::put("/v1/lives/42").header("content-type", "application/json");
    let asked = world.sends(request.body(Body::from_stream(never)).unwrap());
    let answer = tokio::time::timeout(Duration::from_secs(60), asked)
        .await
        .unwrap();
    answer.is_problem(408, "request_timeout");
}

#[tokio::test]
async fn a_change_outlives_the_client_that_asked_for_it() {
    let (tell, told) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let change = crate::edge::http::requests::run_to_completion(async move {
        gone.await.unwrap();
        tell.send("done").unwrap();
    });
    let hung_up = tokio::time::timeout(Duration::from_millis(1), change).await;
    assert!(hung_up.is_err());
    go.send(()).unwrap();
    assert_eq!(told.await, Ok("done"));
}
