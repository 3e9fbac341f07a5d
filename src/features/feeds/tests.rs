//! The routes of feeds, without sockets.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;

use crate::edge::http::tests::world::World;

#[tokio::test(start_paused = true)]
async fn the_open_lives_of_a_streamer_are_listed_newest_first() {
    let world = World::new();
    let path = "/v1/streamers/s1/lives/open";
    assert_eq!(world.pages(path, 2, "live_id").await, [[""; 0]]);
    for live in ["a", "b", "c"] {
        world.opens(live, 1).await;
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    world
        .put("/v1/lives/d", r#"{"streamer_id":"s2"}"#)
        .await
        .is(201);
    assert_eq!(
        world.pages(path, 2, "live_id").await,
        [vec!["c", "b"], vec!["a"]]
    );
    world.delete("/v1/lives/b").await.is(200);
    assert_eq!(world.pages(path, 10, "live_id").await, [["c", "a"]]);
    world
        .get(&format!("{path}?cursor=d~1"))
        .await
        .is_problem(400, "invalid_cursor");
}

#[tokio::test]
async fn feeds_show_the_title_that_was_corrected() {
    let world = World::new();
    world
        .put("/v1/lives/42", r#"{"streamer_id":"s1","title":"Coking"}"#)
        .await
        .is(201);
    let request = Request::patch("/v1/lives/42").header("content-type", "application/json");
    let correction = Body::from(r#"{"title":"Cooking"}"#);
    world.sends(request.body(correction).unwrap()).await.is(200);
    for path in ["/v1/streamers/s1/lives/open", "/v1/users/s1/profile"] {
        assert!(
            world.get(path).await.text.contains(r#""title":"Cooking""#),
            "{path}"
        );
    }
}
