//! The routes of attendance, without sockets.

use crate::edge::http::tests::world::World;

#[tokio::test]
async fn a_live_keeps_what_it_opened_with_of_attendance() {
    let world = World::new();
    for (live, given, kept) in [
        ("a", ",\"attendance\":true", true),
        ("b", ",\"attendance\":false", false),
        ("c", "", false),
    ] {
        let opened = world
            .put(
                &format!("/v1/lives/{live}"),
                &format!(r#"{{"streamer_id":"s1"{given}}}"#),
            )
            .await
            .is(201);
        assert_eq!(opened["attendance"], kept, "{live}");
    }
    for path in ["/v1/lives/b/sessions", "/v1/attendance?live_ids=a,b"] {
        world.get(path).await.is_problem(409, "not_available");
    }
    for path in [
        "/v1/lives/a/sessions?epoch=7",
        "/v1/attendance?live_ids=a@7",
    ] {
        world.get(path).await.is_problem(404, "epoch_not_found");
    }
    for path in ["/v1/lives/x/sessions", "/v1/attendance?live_ids=a,x"] {
        world.get(path).await.is_problem(404, "live_not_found");
    }
    for query in ["", "live_ids=a&streamer_id=s1", "live_ids=a&from=2&to=1"] {
        assert_eq!(
            world.get(&format!("/v1/attendance?{query}")).await.is(200)["count"],
            0,
            "{query}"
        );
    }
    for query in ["streamer_id=s1&days=9", "live_ids=a@"] {
        world
            .get(&format!("/v1/attendance?{query}"))
            .await
            .is_problem(400, "invalid_query");
    }
    let many = vec!["a"; 65].join(",");
    world
        .get(&format!("/v1/attendance?live_ids={many}"))
        .await
        .is_problem(400, "invalid_query");
    world
        .get("/v1/attendance?live_ids=a,")
        .await
        .is_problem(400, "invalid_id");
    world
        .get("/v1/attendance?live_ids=a&cursor=w~1")
        .await
        .is_problem(400, "invalid_cursor");
    world
        .get("/v1/lives/a/sessions?cursor=s~1~2")
        .await
        .is_problem(400, "invalid_cursor");
}
