//! How many requests a caller may make.

use std::net::IpAddr;

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use super::authorization::{guarded, request, token};
use crate::config::Config;
use crate::edge::client_address::ClientAddress;
use crate::edge::http::tests::world::{Answer, World, answer};

const RATE: u32 = 1;

fn from(address: &str, mut request: Request<Body>) -> Request<Body> {
    request
        .extensions_mut()
        .insert(ClientAddress::Peer(address.parse::<IpAddr>().unwrap()));
    request
}

/// Asks from an address, with credentials or without.
async fn ask(world: &World, address: &str, route: &str, credentials: Option<&str>) -> Answer {
    answer(&world.router, from(address, request(route, credentials))).await
}

fn is_limited(answer: &Answer) {
    answer.is_problem(429, "rate_limited");
    assert_eq!(answer.header("retry-after"), "1");
    assert!(answer.headers.get("connection").is_none(), "{answer:?}");
}

fn limited(world: &World, why: &str) -> u64 {
    let text = world.app.core.metrics.render().unwrap();
    let line = format!("rollcall_http_limited_total{{why=\"{why}\"}} ");
    text.lines()
        .find_map(|text| text.strip_prefix(&line)?.parse().ok())
        .unwrap_or(0)
}

#[tokio::test]
async fn a_key_has_a_budget_wherever_it_is_used() {
    let world = guarded(RATE).await;
    for address in ["192.0.2.1", "127.0.0.1"] {
        assert_eq!(
            ask(&world, address, "GET /v1/lives", Some("read"))
                .await
                .status,
            200
        );
    }
    is_limited(&ask(&world, "192.0.2.2", "GET /v1/lives", Some("read")).await);
    // Another key has its own, although it lacks the scope.
    ask(&world, "192.0.2.2", "GET /v1/lives", Some("moderate"))
        .await
        .is_problem(403, "forbidden");
    assert_eq!((limited(&world, "key"), limited(&world, "address")), (1, 0));
}

#[tokio::test]
async fn a_user_has_a_budget_whatever_the_token() {
    let world = guarded(RATE).await;
    let tokens = [1, 2, 3].map(|n| token(json!({"sub": "back-end", "role": "service", "n": n})));
    for token in &tokens[..2] {
        assert_eq!(
            ask(&world, "127.0.0.1", "GET /v1/lives", Some(token))
                .await
                .status,
            200
        );
    }
    is_limited(&ask(&world, "127.0.0.1", "GET /v1/lives", Some(&tokens[2])).await);
    assert_eq!(limited(&world, "user"), 1);
    let other = token(json!({"sub": "other", "role": "service"}));
    assert_eq!(
        ask(&world, "127.0.0.1", "GET /v1/lives", Some(&other))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn guesses_are_limited_by_address() {
    let world = guarded(RATE).await;
    for guess in ["k1", "a.b.c"] {
        ask(&world, "192.0.2.1", "GET /v1/lives", Some(guess))
            .await
            .is_problem(401, "unauthorized");
    }
    for credentials in [None, Some("k2")] {
        is_limited(&ask(&world, "192.0.2.1", "GET /v1/lives", credentials).await);
    }
    is_limited(&ask(&world, "::ffff:192.0.2.1", "GET /openapi.json", None).await);
    assert_eq!(limited(&world, "address"), 3);
    // Back ends beside the guesser, by key and by token, and other addresses are not disturbed.
    // Probes are not counted.
    let good = |n: u32| token(json!({"sub": format!("back-end{n}"), "role": "service"}));
    for (address, credentials) in [
        ("192.0.2.1", "read".to_owned()),
        ("192.0.2.1", good(1)),
        ("192.0.2.1", good(2)),
        ("192.0.2.2", good(3)),
    ] {
        let answer = ask(&world, address, "GET /v1/lives", Some(&credentials)).await;
        assert_eq!(answer.status, 200, "{address} {credentials}");
    }
    for probe in ["GET /healthz", "GET /readyz"] {
        assert_eq!(ask(&world, "192.0.2.1", probe, None).await.status, 200);
    }
}

/// Asks for a socket, or whether one would be accepted.
async fn knocks(world: &World, address: &str, path: &str, token: &str) -> Answer {
    let mut request = from(address, request(&format!("GET {path}"), Some(token)));
    for (name, value) in [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    answer(&world.router, request).await
}

#[tokio::test]
async fn bad_tokens_for_a_socket_are_limited_by_address_and_good_ones_are_not() {
    for path in ["/ws", "/ws/admission"] {
        let world = guarded(RATE).await;
        let good = |n: u32| token(json!({"sub": format!("u{n}")}));
        // In these tests no connection can become a WebSocket.
        let let_in = if path == "/ws" { 426 } else { 204 };
        for n in 0..5 {
            assert_eq!(
                knocks(&world, "192.0.2.1", path, &good(n)).await.status,
                let_in,
                "{path}"
            );
        }
        for guess in ["a.b.c", "k1"] {
            knocks(&world, "192.0.2.1", path, guess)
                .await
                .is_problem(401, "unauthorized");
        }
        is_limited(&knocks(&world, "192.0.2.1", path, "a.b.d").await);
        assert_eq!(limited(&world, "address"), 1);
        for address in ["192.0.2.1", "192.0.2.2"] {
            let answer = knocks(&world, address, path, &good(9)).await;
            assert_eq!(answer.status, let_in, "{address}");
        }
        for _ in 0..5 {
            knocks(&world, "127.0.0.1", path, "a.b.c")
                .await
                .is_problem(401, "unauthorized");
        }
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        assert_eq!(
            knocks(&world, "192.0.2.1", path, &good(9)).await.status,
            let_in,
            "the budget is filled again"
        );
    }
}

#[tokio::test]
async fn senseless_ids_of_sessions_cost_nobody_else_at_their_address_anything() {
    let world = guarded(RATE).await;
    let beat = |id: &str| {
        let path = format!("/v1/presence/{id}");
        from(
            "192.0.2.1",
            Request::post(path).body(Body::empty()).unwrap(),
        )
    };
    let join = |user: &str| {
        let token = token(json!({"sub": user}));
        let join = Request::post("/v1/presence")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(Body::from(r#"{"live_id":"42"}"#));
        from("192.0.2.1", join.unwrap())
    };
    let mut ids = Vec::new();
    for user in ["u1", "u2"] {
        let begun = answer(&world.router, join(user)).await.is(201);
        ids.push(begun["session_id"].as_str().unwrap().to_owned());
    }
    for _ in 0..2 {
        answer(&world.router, beat("a.b.c"))
            .await
            .is_problem(404, "session_unknown");
    }
    for _ in 0..20 {
        is_limited(&answer(&world.router, beat("a.b.c")).await);
    }
    for id in &ids {
        answer(&world.router, beat(id)).await.is(200);
    }
    answer(&world.router, join("u3")).await.is(201);
    // Who has a good id pays for it.
    is_limited(&answer(&world.router, beat(&ids[0])).await);
    assert_eq!(
        (limited(&world, "address"), limited(&world, "user")),
        (20, 1)
    );
}

#[tokio::test]
async fn addresses_of_one_ipv6_network_share_a_budget() {
    let world = guarded(RATE).await;
    for address in ["2001:db8::1", "2001:db8::2:1"] {
        assert_eq!(ask(&world, address, "GET /", None).await.status, 200);
    }
    is_limited(&ask(&world, "2001:db8::ffff:3", "GET /", None).await);
    assert_eq!(
        ask(&world, "2001:db8:0:1::1", "GET /", None).await.status,
        200
    );
}

#[tokio::test]
async fn loopback_addresses_are_exempt() {
    let (on, off) = (
        guarded(RATE).await,
        World::with(&Config {
            http_rate: RATE,
            ..Config::default()
        }),
    );
    for address in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        for _ in 0..5 {
            ask(&on, address, "GET /v1/lives", Some("guess"))
                .await
                .is_problem(401, "unauthorized");
            assert_eq!(ask(&off, address, "GET /v1/lives", None).await.status, 200);
        }
    }
    // A proxy on this machine is not, if it does not say whom it serves.
    let through_proxy = || {
        let mut request = request("GET /v1/lives", None);
        request
            .extensions_mut()
            .insert(ClientAddress::Forwarded(IpAddr::from([127, 0, 0, 1])));
        answer(&off.router, request)
    };
    for _ in 0..2 {
        assert_eq!(through_proxy().await.status, 200);
    }
    is_limited(&through_proxy().await);
    // With `--auth off` too, other addresses are not: a proxy on this machine may name them.
    for _ in 0..2 {
        assert_eq!(
            ask(&off, "192.0.2.1", "GET /v1/lives", None).await.status,
            200
        );
    }
    is_limited(&ask(&off, "192.0.2.1", "GET /v1/lives", None).await);
}

#[tokio::test]
async fn without_a_rate_there_is_no_limit() {
    let world = guarded(0).await;
    for _ in 0..50 {
        assert_eq!(
            ask(&world, "192.0.2.1", "GET /v1/lives", Some("read"))
                .await
                .status,
            200
        );
        assert_eq!(ask(&world, "192.0.2.1", "GET /", None).await.status, 200);
    }
}
