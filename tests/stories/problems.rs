//! What the HTTP API refuses, and how: problem documents for everything that goes wrong.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::stores::on_memory;
use crate::support::wait::PATIENCE;

on_memory! {
    async fn unknown_routes_are_404_problems(world) {
        for path in ["/v1", "/v1/", "/v1/nothing", "/v1/lives/42/nothing", "/nothing", "/v2/lives"] {
            world.backend().get(path).await.problem(404);
        }
    }
}

on_memory! {
    async fn wrong_methods_are_405_problems(world) {
        for (method, path) in [
            (Method::POST, "/v1/lives/42"),
            (Method::PATCH, "/v1/lives/42/fans"),
            (Method::DELETE, "/v1/lives"),
            (Method::POST, "/v1/lives/42/fans"),
            (Method::POST, "/v1/users/u1/following/s1"),
            (Method::POST, "/healthz"),
        ] {
            world.backend().send(method, path, None).await.problem(405);
        }
    }
}

on_memory! {
    async fn bodies_that_make_no_sense_are_400_problems(world) {
        for body in [
            "",
            "{",
            "null",
            "[]",
            "\"s1\"",
            "{}",
            "{\"streamer_id\": 7}",
            "{\"streamer_id\": null}",
            "{\"streamer_id\": \"s1\"",
            "{\"streamer_id\": \"s1\"} x",
        ] {
            let answer = world.backend().send(Method::PUT, "/v1/lives/42", Some(body)).await;
            assert!(!answer.problem(400).is_empty(), "{body}");
        }
        let none = world.backend().send(Method::PUT, "/v1/lives/42", None).await;
        assert!(matches!(none.status, 400 | 415), "{none:?}");
        none.problem(none.status);
        world.backend().get("/v1/lives/42").await.problem(404);
    }
}

on_memory! {
    async fn ids_outside_the_rules_are_invalid(world) {
        let long = "x".repeat(65);
        for id in ["%7B42%7D", "4%202", "42%0A", "42%00", "*", "42:1", "42_slice1", "%C3%A4", "%FF", long.as_str()] {
            let path = format!("/v1/lives/{id}");
            let backend = world.backend();
            for answer in [
                backend.put(&path, json!({"streamer_id": "s1"})).await,
                backend.get(&path).await,
                backend.delete(&path).await,
                backend.get(&format!("{path}/fans")).await,
            ] {
                assert_eq!(answer.problem(400), "invalid_id", "{id}");
            }
        }
        for streamer in ["", "{s}", "s 1", "s\n"] {
            let answer = world.backend().put("/v1/lives/42", json!({"streamer_id": streamer})).await;
            assert_eq!(answer.problem(400), "invalid_id", "{streamer:?}");
        }
        world.open("42").await;
        assert_eq!(world.backend().get("/v1/lives/42/fans/%7Bu%7D").await.problem(400), "invalid_id");
    }
}

on_memory! {
    async fn a_body_without_end_is_refused(world) {
        let huge = format!("{{\"streamer_id\":\"s1\",\"pad\":\"{}\"}}", "x".repeat(100_000));
        let answer = world.backend().send(Method::PUT, "/v1/lives/42", Some(&huge)).await;
        assert!(matches!(answer.status, 400 | 413), "{}", answer.status);
        answer.problem(answer.status);
    }
}

on_memory! {
    async fn a_client_that_asks_before_it_sends_too_much_is_told_not_to(world) {
        let mut connection = TcpStream::connect(world.addr).await.unwrap();
        let head = "PUT /v1/lives/42 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                    content-length: 10000000\r\nexpect: 100-continue\r\n\r\n";
        connection.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        timeout(PATIENCE, connection.read_exact(&mut answer)).await.expect("an answer").unwrap();
        assert_eq!(std::str::from_utf8(&answer), Ok("HTTP/1.1 413"));
    }
}
