//! How the viewers of a live spread: over all gateways, without an address, and with the names of the
//! gateways that said nothing.

use serde_json::{Value, json};

use crate::support::stores::{on_both_stores, on_redis};
use crate::support::wait::{SLACK, same, until};
use crate::support::world::World;

async fn shape(world: &World) -> Value {
    let answer = world.backend().get("/v1/lives/42/shape").await;
    answer.is(200).body
}

/// Waits until so many viewers are in the shape.
async fn shape_of(world: &World, viewers: u64) -> Value {
    until("the shape has all viewers", SLACK, || async {
        same(shape(world).await["viewers"].clone(), json!(viewers))
    })
    .await;
    shape(world).await
}

on_redis! {
    async fn the_shape_covers_all_gateways_and_a_network_has_one_name(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let _here = world.viewer_in("u1", "42").await;
        let _there = other.viewer_in("u2", "42").await;
        let begun = other.backend().post("/v1/presence?user_id=~g1", json!({"live_id": "42"})).await;
        begun.is(201);
        let seen = shape_of(&world, 3).await;
        assert_eq!(seen["guests"], 1, "{seen}");
        assert_eq!(seen["ways"], json!({"websocket": 2, "http": 1, "datagram": 0}));
        assert_eq!((&seen["networks"][0]["viewers"], &seen["networks_total"]), (&json!(3), &json!(1)));
        assert_eq!((&seen["joined_by_minute"][0], &seen["id_ages_unknown"]), (&json!(3), &json!(3)), "{seen}");
        assert_eq!(seen["gateways"].as_array().unwrap().len(), 2);
        assert_eq!(seen["gateways_silent"], json!([]));
        let from_there = shape_of(&other, 3).await;
        assert_eq!(from_there["networks"], seen["networks"]);
        assert!(!seen.to_string().contains("127."), "{seen}");
    }
}

on_redis! {
    async fn a_gateway_that_is_not_heard_is_named(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let _here = world.viewer_in("u1", "42").await;
        let _there = other.viewer_in("u2", "42").await;
        shape_of(&world, 2).await;
        world.redis().ask(&["ACL", "SETUSER", "default", "resetchannels"]).await;
        world.redis().ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        let seen = shape(&world).await;
        assert_eq!((&seen["viewers"], seen["gateways_silent"].as_array().unwrap().len()), (&json!(1), 1), "{seen}");
    }
}

on_both_stores! {
    async fn a_live_in_which_nobody_is_has_an_empty_shape(world) {
        assert_eq!(world.backend().get("/v1/lives/42/shape").await.problem(404), "live_not_found");
        world.open("42").await;
        assert_eq!(shape(&world).await["viewers"], 0);
        for wrong in ["limit=0", "limit=1001", "limit=x", "prefix=1"] {
            let refused = world.backend().get(&format!("/v1/lives/42/shape?{wrong}")).await;
            assert_eq!(refused.status, 400, "{wrong}");
        }
        world.backend().close("42").await;
        assert_eq!(shape(&world).await["viewers"], 0);
    }
}
