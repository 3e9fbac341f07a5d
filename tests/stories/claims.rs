//! A token limits its socket to some lives, and may say itself whom its user follows.

use rollcall::config::{Config, FanSource};
use serde_json::{Value, json};

use crate::support::stores::{on_memory, on_redis};
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::viewer::Viewer;
use crate::support::world::World;

fn fans_by_token(config: &mut Config) {
    with_tokens(config);
    config.fan_source = FanSource::Token;
}

/// A back end at a socket that opened live 42 of the streamer `s1`.
async fn opener(world: &World) -> Viewer {
    let mut service = world
        .bearer(json!({"sub": "back-end", "role": "service"}))
        .await;
    service
        .ask(json!({"type": "open", "live_id": "42", "streamer_id": "s1"}))
        .await;
    service
}

async fn joins(world: &World, claims: Value) -> Viewer {
    let mut viewer = world.bearer(claims).await;
    viewer.join("42").await;
    viewer
}

/// Heartbeats answer at once what the token says.
async fn is_fan(viewer: &mut Viewer, fan: Value) {
    let ack = viewer.heartbeat_json().await;
    assert_eq!(ack["fan"], fan, "{ack}");
}

on_memory! {
    tuned(with_tokens)
    async fn a_token_for_some_lives_is_good_for_no_other(world) {
        opener(&world).await;
        let mut service = world.bearer(json!({"sub": "b", "role": "service", "lives": ["42", "44"]})).await;
        // Nobody has opened live 43, and the gateway does not look.
        for request in ["join", "watch", "open", "close"] {
            let request = json!({"type": request, "live_id": "43", "streamer_id": "s1"});
            service.is_refused(request, "forbidden").await;
        }
        service.is_refused(json!({"type": "join", "live_id": "44"}), "live_not_open").await;
        service.join("42").await;
        let narrower = mint(&json!({"sub": "b", "role": "service", "lives": ["44"], "exp": in_seconds(60)}));
        service.ask(json!({"type": "refresh", "token": narrower})).await;
        service.is_refused(json!({"type": "watch", "live_id": "42"}), "forbidden").await;
        service.heartbeat().await;
    }
}

on_redis! {
    tuned(fans_by_token)
    async fn a_token_that_lists_the_streamer_makes_a_fan_on_every_gateway(world) {
        let elsewhere = world.another_gateway().await;
        opener(&world).await;
        let mut here = joins(&world, json!({"sub": "u1", "fan_of": ["s0", "s1"]})).await;
        is_fan(&mut here, json!(true)).await;
        let mut there = joins(&elsewhere, json!({"sub": "u2", "fan_of": ["s1"]})).await;
        is_fan(&mut there, json!(true)).await;
        let mut stranger = joins(&elsewhere, json!({"sub": "u3", "fan_of": ["s0"]})).await;
        let mut silent = joins(&world, json!({"sub": "u4"})).await;
        // The store's graph is not asked.
        world.redis().ask(&["ZADD", "followers:s1", "1", "u3", "1", "u4"]).await;
        world.fans_become("42", &["u1", "u2"]).await;
        is_fan(&mut stranger, json!(false)).await;
        is_fan(&mut silent, json!(null)).await;
        there.close().await;
        world.fans_become("42", &["u1"]).await;
        world.fans_stay("42", &["u1"], world.config.flush * 4).await;
    }
}

on_redis! {
    tuned(fans_by_token)
    async fn one_token_of_a_user_with_several_sockets_is_enough(world) {
        opener(&world).await;
        let mut phone = joins(&world, json!({"sub": "u1", "fan_of": []})).await;
        is_fan(&mut phone, json!(false)).await;
        let mut laptop = joins(&world, json!({"sub": "u1", "fan_of": ["s1"]})).await;
        world.fans_become("42", &["u1"]).await;
        is_fan(&mut phone, json!(true)).await;
        is_fan(&mut laptop, json!(true)).await;
        laptop.close().await;
        world.fans_become("42", &[]).await;
        is_fan(&mut phone, json!(false)).await;
        for (fan_of, fans) in [(json!(["s1"]), vec!["u1"]), (json!([]), vec![])] {
            let token = mint(&json!({"sub": "u1", "fan_of": fan_of, "exp": in_seconds(60)}));
            phone.ask(json!({"type": "refresh", "token": token})).await;
            is_fan(&mut phone, json!(!fans.is_empty())).await;
            world.fans_become("42", &fans).await;
        }
    }
}

on_redis! {
    tuned(with_tokens)
    async fn another_fan_source_ignores_what_tokens_say_of_fans(world) {
        opener(&world).await;
        world.redis().ask(&["ZADD", "followers:s1", "1", "u2"]).await;
        let _says_so = joins(&world, json!({"sub": "u1", "fan_of": ["s1"]})).await;
        let _is_one = joins(&world, json!({"sub": "u2", "fan_of": []})).await;
        world.fans_become("42", &["u2"]).await;
        world.fans_stay("42", &["u2"], world.config.flush * 4).await;
    }
}
