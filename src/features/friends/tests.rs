//! The routes of friends, without sockets.

use serde_json::json;

use crate::config::Config;
use crate::edge::http::tests::world::World;

#[tokio::test]
async fn friends_are_paged_from_the_latest_on() {
    let world = World::new();
    world
        .saw(&[("f1", 5), ("f2", 100), ("f3", 400), ("f4", 700)])
        .await;
    for friend in ["f1", "f2", "f3", "f4", "f5"] {
        world
            .put(&format!("/v1/users/u1/following/{friend}"), "")
            .await
            .is(200);
    }
    world.put("/v1/users/f2/following/u1", "").await.is(200);
    let path = "/v1/users/u1/friends/online";
    assert_eq!(
        world.pages(path, 2, "user_id").await,
        [vec!["f1", "f2"], vec!["f3"]]
    );
    let page = world
        .get(&format!("{path}?window_s=1000&limit=10"))
        .await
        .is(200);
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["partial"]),
        (4, &json!(false))
    );
    let page = world.get(&format!("{path}?of=mutual")).await.is(200);
    assert_eq!(
        (
            page["items"].as_array().unwrap().len(),
            &page["items"][0]["user_id"]
        ),
        (1, &json!("f2"))
    );
    world
        .get(&format!("{path}?window_s=9007199254740992"))
        .await
        .is_problem(400, "invalid_query");
    world
        .get(&format!("{path}?of=all"))
        .await
        .is_problem(400, "invalid_query");
    world
        .get(&format!("{path}?cursor=f~1"))
        .await
        .is_problem(400, "invalid_cursor");
}

#[tokio::test]
async fn a_gateway_that_does_not_track_users_knows_no_friends() {
    let world = World::with(&Config {
        track_online: false,
        ..Config::default()
    });
    let friends = world.get("/v1/users/u1/friends/online").await;
    friends.is_problem(409, "not_available");
}
