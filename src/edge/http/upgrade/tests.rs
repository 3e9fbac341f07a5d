//! Upgrades that are refused, asked without a socket; upgrades that succeed are in the listener's
//! tests.

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;

use super::*;
use crate::config::Config;
use crate::edge::client_address::ClientAddress;
use crate::edge::http::tests::world::World;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn handshake(path: &str) -> Builder {
    Request::get(path)
        .header("connection", "keep-alive, Upgrade")
        .header("upgrade", "WebSocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", KEY)
}

fn without(request: Builder, header: &str) -> Request<Body> {
    let mut request = request.body(Body::empty()).unwrap();
    request.headers_mut().remove(header);
    request
}

fn refused(world: &World, why: &'static str) -> u64 {
    world
        .app
        .core
        .metrics
        .upgrades_refused
        .get_or_create(&crate::base::metrics::Why { why })
        .get()
}

#[tokio::test]
async fn a_request_without_a_handshake_is_refused() {
    let world = World::new();
    let good = || handshake("/ws?user_id=u1");
    for request in [
        without(good(), "upgrade"),
        without(good(), "connection"),
        without(good().method("HEAD"), ""),
    ] {
        let answer = world.sends(request).await;
        assert_eq!(answer.status, 426, "{answer:?}");
        assert_eq!(answer.header("upgrade"), "websocket");
    }
    assert_eq!(refused(&world, "not_an_upgrade"), 3);

    let mut old = without(good(), "");
    old.headers_mut()
        .insert("sec-websocket-version", HeaderValue::from_static("8"));
    for request in [old, without(good(), "sec-websocket-version")] {
        let answer = world.sends(request).await;
        answer.is_problem(426, "upgrade_required");
        assert_eq!(answer.header("sec-websocket-version"), "13");
    }
    assert_eq!(refused(&world, "version"), 2);

    for bad in [
        "",
        "short",
        "AAAA",
        "dGhlIHNhbXBsZSBub25jZQ",
        "!!!!!!!!!!!!!!!!!!!!!!==",
    ] {
        let mut request = without(good(), "");
        request
            .headers_mut()
            .insert("sec-websocket-key", HeaderValue::from_static(bad));
        world.sends(request).await.is_problem(400, "bad_handshake");
    }
    world
        .sends(without(good(), "sec-websocket-key"))
        .await
        .is_problem(400, "bad_handshake");
    let two_keys = without(
        good().header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        "",
    );
    world.sends(two_keys).await.is_problem(400, "bad_handshake");
    let answer = world
        .sends(without(good().header("sec-websocket-version", "8"), ""))
        .await;
    answer.is_problem(426, "upgrade_required");
    assert_eq!(answer.header("sec-websocket-version"), "13");
    world
        .sends(without(good().method("POST"), ""))
        .await
        .is_problem(405, "method_not_allowed");
}

#[tokio::test]
async fn a_client_that_does_not_say_who_it_is_is_refused() {
    let world = World::new();
    for (query, code) in [
        ("", "invalid_id"),
        ("?user_id=", "invalid_id"),
        ("?user_id=%7Bu%7D", "invalid_id"),
        ("?user_id=a+b", "invalid_id"),
        ("?user_id=u1&role=admin", "invalid_role"),
    ] {
        let answer = world
            .sends(without(handshake(&format!("/ws{query}")), ""))
            .await;
        answer.is_problem(401, code);
        assert!(answer.header("www-authenticate").starts_with("Bearer"));
    }
    assert_eq!(refused(&world, "unauthorized"), 5);
    world
        .sends(without(handshake("/ws?user_id=u1&count=maybe"), ""))
        .await
        .is_problem(400, "invalid_query");
    let twice = handshake("/ws?user_id=u1&live_id=1&live_id=2");
    world
        .sends(without(twice, ""))
        .await
        .is_problem(400, "invalid_query");
}

#[tokio::test]
async fn a_draining_gateway_sends_clients_elsewhere() {
    let world = World::new();
    world.app.sessions.drain();
    let answer = world.sends(without(handshake("/ws?user_id=u1"), "")).await;
    answer.is_problem(503, "draining");
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(refused(&world, "draining"), 1);
}

#[tokio::test]
async fn a_connection_that_cannot_change_its_protocol_is_refused() {
    let world = World::new();
    world
        .sends(without(handshake("/ws?user_id=u1"), ""))
        .await
        .is_problem(426, "upgrade_required");
    assert_eq!(refused(&world, "not_upgradable"), 1);
}

#[test]
fn the_answer_is_the_one_of_rfc_6455() {
    let mut asked = HeaderMap::new();
    asked.append(
        "sec-websocket-protocol",
        HeaderValue::from_static("chat, superchat"),
    );
    let key = HeaderValue::from_static(KEY);
    let response = switching_protocols(&key, &asked);
    assert_eq!(
        response.headers()["sec-websocket-accept"],
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    assert!(!response.headers().contains_key("sec-websocket-protocol"));
    asked.append(
        "sec-websocket-protocol",
        HeaderValue::from_static("rollcall.v1"),
    );
    assert_eq!(
        switching_protocols(&key, &asked).headers()["sec-websocket-protocol"],
        "rollcall.v1"
    );
    let mut in_capitals = HeaderMap::new();
    in_capitals.append(
        "sec-websocket-protocol",
        HeaderValue::from_static("Rollcall.V1"),
    );
    assert!(
        !switching_protocols(&key, &in_capitals)
            .headers()
            .contains_key("sec-websocket-protocol")
    );
}

#[tokio::test]
async fn the_words_of_a_handshake_may_be_in_any_case_and_on_several_lines() {
    let world = World::new();
    let request = Request::get("/ws?user_id=u1")
        .header("connection", "keep-alive")
        .header("connection", "UPGRADE , close")
        .header("upgrade", "h2c")
        .header("upgrade", "WebSocket")
        .header("sec-websocket-protocol", "chat")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", KEY);
    world
        .sends(without(request, ""))
        .await
        .is_problem(426, "upgrade_required");
    assert_eq!(
        refused(&world, "not_upgradable"),
        1,
        "all but the connection was right"
    );
}

#[tokio::test]
async fn a_page_inside_an_app_may_connect_if_its_origin_is_named() {
    let named = ["capacitor://localhost", "app://.", "file://", "null"].map(str::to_owned);
    let world = World::with(&Config {
        origins: named.to_vec(),
        ..Config::default()
    });
    let from = |origin: &str| without(handshake("/ws?user_id=u1").header("origin", origin), "");
    for welcome in [
        "capacitor://localhost",
        "CAPACITOR://localhost",
        "app://.",
        "file://",
        "null",
    ] {
        world
            .sends(from(welcome))
            .await
            .is_problem(426, "upgrade_required");
    }
    assert_eq!(refused(&world, "not_upgradable"), 5);
    for foreign in [
        "ionic://localhost",
        "capacitor://localhost:80",
        "capacitor://evil",
        "file://localhost",
        "app://x",
    ] {
        world
            .sends(from(foreign))
            .await
            .is_problem(403, "forbidden_origin");
    }
    let world = World::new();
    for not_named in ["capacitor://localhost", "null", "file://"] {
        world
            .sends(from(not_named))
            .await
            .is_problem(403, "forbidden_origin");
    }
}

#[tokio::test]
async fn a_misspelt_field_of_the_query_is_refused_and_a_strange_one_is_not() {
    let world = World::new();
    for (query, meant) in [
        ("liveId=42", "live_id"),
        ("invisble=true", "invisible"),
        ("cuont=false", "count"),
    ] {
        for path in ["/ws", "/ws/admission"] {
            let answer = world
                .sends(without(
                    handshake(&format!("{path}?user_id=u1&{query}")),
                    "",
                ))
                .await;
            answer.is_problem(400, "unknown_field");
            assert!(answer.text.contains(meant), "{answer:?}");
        }
    }
    world
        .sends(without(handshake("/ws?user_id=u1&build=7"), ""))
        .await
        .is_problem(426, "upgrade_required");
    assert_eq!(
        world.get("/ws/admission?user_id=u1&build=7").await.status,
        204
    );
}

#[tokio::test]
async fn a_page_of_a_foreign_origin_is_refused() {
    let world = World::with(&Config {
        origins: vec!["https://app.example".to_owned()],
        ..Config::default()
    });
    let from = |origin: &str| without(handshake("/ws?user_id=u1").header("origin", origin), "");
    for foreign in [
        "https://evil.example",
        "null",
        "http://app.example",
        "http://localhost:3000",
    ] {
        world
            .sends(from(foreign))
            .await
            .is_problem(403, "forbidden_origin");
    }
    assert_eq!(refused(&world, "forbidden_origin"), 4);
    // Nobody but the missing connection is in the way of the others.
    for welcome in [
        "https://app.example",
        "http://localhost",
        "https://localhost",
    ] {
        world
            .sends(from(welcome))
            .await
            .is_problem(426, "upgrade_required");
    }
    assert_eq!(refused(&world, "not_upgradable"), 3);
}

#[tokio::test]
async fn an_address_with_too_many_sockets_is_refused() {
    let world = World::with(&Config {
        sockets_per_ip: 1,
        ..Config::default()
    });
    let address = ClientAddress::Peer("192.0.2.7".parse().unwrap());
    let _held = world.app.admission.addresses.admit(address).unwrap();
    let request = handshake("/ws?user_id=u1").extension(address);
    let answer = world.sends(without(request, "")).await;
    answer.is_problem(429, "too_many_sockets");
    assert!((15..=30).contains(&answer.header("retry-after").parse().unwrap()));
    assert_eq!(refused(&world, "too_many_sockets"), 1);
}
