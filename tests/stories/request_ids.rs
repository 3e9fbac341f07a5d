//! Every HTTP answer names its request, so that a line in the log and the complaint of a client can
//! be brought together. That every answer has an id, and every refusal the same one in its body, is
//! held by every story that calls the API.

use reqwest::Method;
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

use crate::support::socket::Socket;
use crate::support::stores::on_memory;

on_memory! {
    async fn an_answer_has_the_id_that_the_client_gave_its_request(world) {
        let backend = world.backend();
        let id = "6f1c3c9e-94a5-4f0e-9ad5-a7b3c2f1e001";
        for (method, path, status) in [
            (Method::GET, "/v1/lives", 200),
            (Method::GET, "/healthz", 200),
            (Method::GET, "/", 200),
            (Method::HEAD, "/nothing", 404),
            (Method::GET, "/nothing", 404),
            (Method::DELETE, "/v1/lives", 405),
            (Method::GET, "/v1/lives?limit=0", 400),
            (Method::GET, "/ws", 426),
        ] {
            let answer = backend.send_named(method, path, None, Some(id)).await.is(status);
            assert_eq!(answer.request_id, id, "{answer:?}");
        }
        let refused = backend.send_named(Method::GET, "/nothing", None, Some(id)).await;
        assert_eq!(refused.body["request_id"], id);
    }
}

on_memory! {
    async fn an_id_that_is_missing_or_not_well_formed_is_replaced(world) {
        let backend = world.backend();
        let mut seen = std::collections::HashSet::new();
        let long = "x".repeat(65);
        for id in [None, None, Some(""), Some("a b"), Some("{\"a\":1}"), Some(&*long)] {
            let answer = backend.send_named(Method::GET, "/v1/lives", None, id).await.is(200);
            assert!(Some(&*answer.request_id) != id && answer.request_id.len() == 32, "{answer:?}");
            assert!(seen.insert(answer.request_id), "the same id twice");
        }
    }
}

on_memory! {
    async fn a_handshake_has_one_too_whether_it_is_accepted_or_refused(world) {
        let headers = [("x-request-id", "my-handshake")];
        let (_socket, accepted) = Socket::connect(world.addr, "/ws?user_id=u1", &headers).await.unwrap();
        assert_eq!(accepted.headers()["x-request-id"], "my-handshake");
        let Err(Error::Http(refused)) = Socket::connect(world.addr, "/ws?user_id=", &headers).await else {
            panic!("a socket without a user");
        };
        assert_eq!(refused.status().as_u16(), 401);
        assert_eq!(refused.headers()["x-request-id"], "my-handshake");
        let body: serde_json::Value = serde_json::from_slice(refused.body().as_deref().unwrap()).unwrap();
        assert_eq!(body["request_id"], json!("my-handshake"));
    }
}
