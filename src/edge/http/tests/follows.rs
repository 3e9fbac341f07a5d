//! The follow graph over HTTP.

use std::time::Duration;

use super::world::World;
use crate::base::clock::moment;
use crate::base::event_kind::EventKind;
use crate::base::gcra::Rate;
use crate::base::ids::LiveId;
use crate::config::Config;
use crate::store::{EntryId, Events};
use crate::testing::conn;

#[tokio::test(start_paused = true)]
async fn following_is_seen_from_both_ends_newest_first() {
    let world = World::new();
    for streamer in ["s1", "s2", "s3", "mail%40example.org:x"] {
        let state = world
            .put(&format!("/v1/users/u1/following/{streamer}"), "")
            .await
            .is(200);
        assert_eq!(
            (&state["follows"], &state["changed"]),
            (&true.into(), &true.into())
        );
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    world.put("/v1/users/u2/following/s1", "").await.is(200);
    assert_eq!(
        world.put("/v1/users/u1/following/s1", "").await.is(200)["changed"],
        false
    );

    let following = world.pages("/v1/users/u1/following", 3, "user_id").await;
    assert_eq!(
        following,
        [vec!["mail@example.org:x", "s3", "s2"], vec!["s1"]]
    );
    assert_eq!(
        world.pages("/v1/users/s1/followers", 1, "user_id").await,
        [["u2"], ["u1"]]
    );
    let page = world.get("/v1/users/s3/followers").await.is(200);
    assert!(page["items"][0]["followed_at"].is_u64() && page["cursor"].is_null());

    let state = world.delete("/v1/users/u1/following/s1").await.is(200);
    assert_eq!(
        (&state["follows"], &state["changed"]),
        (&false.into(), &true.into())
    );
    assert_eq!(
        world.delete("/v1/users/u1/following/s1").await.is(200)["changed"],
        false
    );
    assert_eq!(
        world.pages("/v1/users/s1/followers", 10, "user_id").await,
        [["u2"]]
    );
}

#[tokio::test]
async fn one_follow_can_be_read_and_nobody_follows_themselves() {
    let world = World::new();
    let path = "/v1/users/u1/following/s1";
    assert_eq!(world.get(path).await.is(200)["follows"], false);
    world.put(path, "").await.is(200);
    assert_eq!(world.get(path).await.is(200)["follows"], true);
    world
        .put("/v1/users/u1/following/u1", "")
        .await
        .is_problem(409, "self_follow");
    // The platform may have written such a follow by itself.
    world.delete("/v1/users/u1/following/u1").await.is(200);
}

#[tokio::test]
async fn a_follow_that_the_store_may_have_taken_is_told() {
    let world = World::new();
    world.opens("42", 1).await;
    let room = world
        .app
        .core
        .rooms
        .get(&LiveId::parse("42").unwrap())
        .unwrap();
    room.join(&conn("u1"), Rate::per_second(0), moment(0), 0)
        .unwrap();
    assert_eq!(room.seats.take_unchecked(0).len(), 1);
    world.store.breaks();
    world
        .put("/v1/users/u1/following/s1", "")
        .await
        .is_problem(503, "store_unavailable");
    assert_eq!(
        room.seats.take_unchecked(0).len(),
        1,
        "it is asked again whether the user is a fan"
    );
    world
        .delete("/v1/users/u1/following/s1")
        .await
        .is_problem(503, "store_unavailable");
    assert_eq!(room.seats.take_unchecked(0).len(), 1);
}

#[tokio::test]
async fn a_change_whose_answer_was_lost_is_an_event_too() {
    let config = Config {
        follow_events: true,
        audit_events: true,
        ..Config::default()
    };
    let world = World::with(&config);
    let path = "/v1/users/u1/following/s1";
    world.store.fails_once("follow", 0);
    world
        .put(path, "")
        .await
        .is_problem(503, "store_unavailable");
    world.store.fails_once("unfollow", 0);
    let refused = world.delete(path).await;
    refused.is_problem(503, "store_unavailable");
    let events = world.app.audit.as_ref().expect("events");
    events.write().await;
    let mut told = Vec::new();
    let found = world.store.events_after(EntryId::default(), u64::MAX).await;
    for entry in found.unwrap() {
        told.push(entry.event.unwrap().kind);
    }
    assert_eq!(told, [EventKind::UserFollowed, EventKind::UserUnfollowed]);
}
