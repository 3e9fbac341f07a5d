//! The routes of profiles, without sockets.

use serde_json::json;

use crate::config::Config;
use crate::edge::http::tests::world::World;

#[tokio::test]
async fn a_user_is_shown_with_the_number_of_the_followed() {
    let world = World::new();
    world.put("/v1/users/u1/following/s1", "").await.is(200);
    assert_eq!(world.get("/v1/users/u1").await.is(200)["following"], 1);
}

#[tokio::test]
async fn a_gateway_that_does_not_track_users_shows_no_status_of_theirs() {
    let world = World::with(&Config {
        track_online: false,
        ..Config::default()
    });
    let user = world.get("/v1/users/u1").await.is(200);
    assert_eq!(
        (&user["online"], &user["last_seen"], &user["live_id"]),
        (&json!(null), &json!(null), &json!(null))
    );
}
