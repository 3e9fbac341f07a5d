//! Clients that ask before they connect.

use axum::body::Body;
use axum::http::Request;

use crate::config::Config;
use crate::edge::admission::queue::MAX_RETRY;
use crate::edge::client_address::ClientAddress;
use crate::edge::http::tests::world::World;

fn ask(query: &str) -> axum::http::request::Builder {
    Request::get(format!("/ws/admission{query}"))
}

#[tokio::test]
async fn a_client_with_good_credentials_may_come() {
    let world = World::new();
    let answer = world.get("/ws/admission?user_id=u1&live_id=42").await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
}

#[tokio::test]
async fn a_client_learns_what_the_upgrade_would_be_refused_for() {
    let world = World::new();
    world
        .get("/ws/admission")
        .await
        .is_problem(401, "invalid_id");
    world
        .get("/ws/admission?user_id=u1&role=admin")
        .await
        .is_problem(401, "invalid_role");
    world
        .get("/ws/admission?user_id=u1&count=maybe")
        .await
        .is_problem(400, "invalid_query");
    let foreign = ask("?user_id=u1")
        .header("origin", "https://evil.example")
        .body(Body::empty())
        .unwrap();
    world
        .sends(foreign)
        .await
        .is_problem(403, "forbidden_origin");
    world.app.sessions.drain();
    world
        .get("/ws/admission?user_id=u1")
        .await
        .is_problem(503, "draining");
}

#[tokio::test]
async fn a_crowd_learns_when_to_come() {
    let world = World::with(&Config {
        handshake_rate: 1,
        ..Config::default()
    });
    assert_eq!(world.get("/ws/admission?user_id=u1").await.status, 204);
    let refused = world.get("/ws/admission?user_id=u2").await;
    refused.is_problem(503, "crowded");
    assert!((1..=MAX_RETRY).contains(&refused.header("retry-after").parse().unwrap()));
    assert_eq!(
        world.get("/ws/admission?user_id=u1").await.status,
        204,
        "the place is kept"
    );
}

#[tokio::test(start_paused = true)]
async fn a_full_gateway_says_so_and_no_place_is_held() {
    let world = World::with(&Config {
        max_sockets: Some(1),
        ..Config::default()
    });
    for _ in 0..3 {
        assert_eq!(world.get("/ws/admission?user_id=u1").await.status, 204);
    }
    let held = world.app.admission.place_now().unwrap();
    let refused = world.get("/ws/admission?user_id=u2").await;
    refused.is_problem(503, "full");
    refused.header("retry-after");
    drop(held);
    assert_eq!(world.get("/ws/admission?user_id=u2").await.status, 204);
}

#[tokio::test]
async fn an_address_with_too_many_sockets_is_told_so() {
    let world = World::with(&Config {
        sockets_per_ip: 1,
        ..Config::default()
    });
    let address = ClientAddress::Peer("192.0.2.7".parse().unwrap());
    let ask = || {
        ask("?user_id=u1")
            .extension(address)
            .body(Body::empty())
            .unwrap()
    };
    for _ in 0..2 {
        assert_eq!(
            world.sends(ask()).await.status,
            204,
            "asking takes no right to a socket"
        );
    }
    let held = world.app.admission.addresses.admit(address).unwrap();
    let refused = world.sends(ask()).await;
    refused.is_problem(429, "too_many_sockets");
    refused.header("retry-after");
    drop(held);
    assert_eq!(world.sends(ask()).await.status, 204);
}
