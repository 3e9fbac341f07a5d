//! The spans that a gateway sends to an OpenTelemetry collector. Only a build with the feature has
//! them: `cargo test --features otlp --test otlp`.

// Here, and not by a target in the manifest: cargo refuses a manifest that names a file which the
// image's build lacks.
#![cfg(feature = "otlp")]
#![allow(missing_docs, unreachable_pub, dead_code, clippy::unwrap_used)]

#[path = "support/program.rs"]
mod program;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "support/socket.rs"]
mod socket;
#[path = "support/wait.rs"]
mod wait;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use reqwest::{Client, Method};
use rollcall::config::Config;
use serde_json::json;
use tokio::net::TcpListener;

use crate::program::Program;
use crate::socket::{Heard, Socket};
use crate::wait::{PATIENCE, until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// What a collector was sent, in protobuf: it has texts as they are, and ids as bytes.
#[derive(Clone, Default)]
struct Posted(Arc<Mutex<Vec<Bytes>>>);

impl Posted {
    fn has(&self, bytes: &[u8]) -> bool {
        let posted = self.0.lock().unwrap();
        posted
            .iter()
            .any(|body| body.windows(bytes.len()).any(|window| window == bytes))
    }

    async fn comes_to(&self, what: &str) {
        until("a span is sent", PATIENCE * 2, async || {
            let has_come = self.has(what.as_bytes());
            if has_come { Ok(()) } else { Err(what) }
        })
        .await;
    }
}

/// A collector that takes everything.
async fn collector() -> (SocketAddr, Posted) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, posted) = (listener.local_addr().unwrap(), Posted::default());
    let router = Router::new()
        .route("/v1/traces", post(take))
        .with_state(posted.clone());
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let service = TowerToHyperService::new(router.clone());
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(socket), service));
        }
    });
    (addr, posted)
}

async fn take(State(posted): State<Posted>, headers: HeaderMap, body: Bytes) {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    posted.0.lock().unwrap().push(body);
}

async fn gateway(collector: SocketAddr, one_in: &str) -> Program {
    let config = Config {
        drain: Duration::ZERO,
        flush: Duration::from_millis(50),
        ..Config::default()
    };
    let endpoint = format!("http://{collector}");
    let env = [
        ("ROLLCALL_OTLP_ENDPOINT", &*endpoint),
        ("ROLLCALL_OTLP_ONE_IN", one_in),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ];
    Program::start_under(&config, &env).await
}

/// Sends a request to a gateway, with a trace of its own or without.
async fn ask(gateway: &Program, method: Method, path: &str, headers: &[&str]) {
    let url = format!("http://{}{path}", gateway.addr);
    let mut request = Client::new().request(method, url);
    for traceparent in headers {
        request = request.header("traceparent", *traceparent);
    }
    if path == "/v1/lives/42" {
        request = request.json(&json!({"streamer_id": "s1"}));
    }
    request.send().await.unwrap().error_for_status().unwrap();
}

fn bytes(hex: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(hex.as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_requests_joins_and_flushes_arrive_and_a_trace_is_continued() {
    let (addr, posted) = collector().await;
    let gateway = gateway(addr, "1").await;
    ask(&gateway, Method::PUT, "/v1/lives/42", &[TRACEPARENT]).await;
    let path = "/ws?user_id=u1&live_id=42";
    let (mut socket, _) = Socket::connect(gateway.addr, path, &[]).await.unwrap();
    while let Some(Heard::Text(text)) = socket.next().await {
        if text.contains("\"joined\"") {
            break;
        }
    }
    for what in [
        "rollcall",
        "service.instance.id",
        "gw-",
        "PUT /v1/lives/{live_id}",
        "GET /ws",
        "socket",
        "socket_id",
        "flush",
    ] {
        posted.comes_to(what).await;
    }
    assert!(posted.has(&bytes(TRACE)), "the trace is continued");
    let parent = bytes("00f067aa0ba902b7");
    assert!(posted.has(&parent), "its span is the parent");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_in_many_is_sent_unless_the_client_asks_for_it() {
    let (addr, posted) = collector().await;
    let gateway = gateway(addr, "1000000000").await;
    for _ in 0..20 {
        ask(&gateway, Method::GET, "/v1/lives", &[]).await;
    }
    let asked_for = "/v1/gateway/slices";
    ask(&gateway, Method::GET, asked_for, &[TRACEPARENT]).await;
    posted.comes_to("GET /v1/gateway/slices").await;
    assert!(!posted.has(b"GET /v1/lives"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_spans_are_sent_when_the_gateway_ends_and_an_absent_collector_holds_nothing_up() {
    let (addr, posted) = collector().await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nobody = nobody.local_addr().unwrap();
    for collector in [addr, nobody] {
        let mut gateway = gateway(collector, "1").await;
        ask(&gateway, Method::GET, "/v1/online/count", &[]).await;
        gateway.terminate();
        assert!(gateway.exit(PATIENCE * 2).await.success());
    }
    posted.comes_to("GET /v1/online/count").await;
}
