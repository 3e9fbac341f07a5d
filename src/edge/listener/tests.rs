//! Real sockets against the accept loop.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::connection::{MAX_HEAD, MAX_HEADERS};
use super::pending_connections::PerAddress;
use super::*;
use crate::config::Config;
use crate::edge::client_address::TrustedProxies;
use crate::edge::http::tests::world::World;

/// How long a test waits for what must happen.
const SOON: Duration = Duration::from_secs(10);

struct Port {
    world: World,
    addr: SocketAddr,
    stop: CancellationToken,
    tracker: TaskTracker,
    served: tokio::task::JoinHandle<()>,
}

impl Port {
    async fn open(config: Config) -> Self {
        let (timeout, handshake_timeout) = (config.timeout, config.handshake_timeout);
        let world = World::with(&config);
        let pending = world.app.admission.limits.pending;
        let settings = PortSettings {
            pending,
            per_address: PerAddress::Share,
            handshake_timeout,
            timeout,
            certificate: None,
            proxy_protocol: config.proxy_protocol,
            trusted_proxies: TrustedProxies::new(&config.trusted_proxies),
            metrics: world.app.core.metrics.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
        let router = world.router.clone();
        let served = tokio::spawn(serve(
            settings,
            listener,
            router,
            stop.clone(),
            tracker.clone(),
        ));
        Self {
            world,
            addr,
            stop,
            tracker,
            served,
        }
    }

    async fn connects(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    async fn stops(self) {
        self.stop.cancel();
        tokio::time::timeout(SOON, self.served)
            .await
            .unwrap()
            .unwrap();
        self.tracker.close();
        tokio::time::timeout(SOON, self.tracker.wait())
            .await
            .unwrap();
    }
}

/// Reads until the other side closes.
async fn reads_all(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    tokio::time::timeout(SOON, stream.read_to_string(&mut text))
        .await
        .unwrap()
        .unwrap();
    text
}

#[tokio::test]
async fn an_upgrade_ends_in_a_session() {
    let port = Port::open(Config::default()).await;
    let mut request = format!("ws://{}/ws?user_id=u1&live_id=42", port.addr)
        .into_client_request()
        .unwrap();
    request.headers_mut().insert(
        "sec-websocket-protocol",
        "other, rollcall.v1".parse().unwrap(),
    );
    let (mut socket, response) = client_async(request, port.connects().await).await.unwrap();
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()["sec-websocket-protocol"], "rollcall.v1");
    let metrics = &port.world.app.core.metrics;
    tokio::time::timeout(SOON, async {
        while metrics.sockets.get() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    socket.close(None).await.unwrap();
    port.stops().await;
}

#[tokio::test]
async fn a_refused_upgrade_is_an_answer_with_a_body() {
    let port = Port::open(Config::default()).await;
    let refused = client_async(format!("ws://{}/ws", port.addr), port.connects().await).await;
    let Err(Error::Http(response)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(response.status(), 401);
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    port.stops().await;
}

#[tokio::test]
async fn a_connection_serves_many_requests() {
    let port = Port::open(Config::default()).await;
    let mut stream = port.connects().await;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let answers = reads_all(&mut stream).await;
    let lines: Vec<_> = answers
        .lines()
        .filter(|line| line.contains("HTTP/1.1 "))
        .collect();
    assert_eq!(lines.len(), 3, "{answers}");
    port.stops().await;
}

#[tokio::test]
async fn a_refused_request_ends_its_connection() {
    let port = Port::open(Config::default()).await;
    for (path, status) in [
        ("/nothing", 404),
        ("/ws", 426),
        ("/v1/lives/%7B%7D", 400),
        ("/v1/lives/none", 404),
    ] {
        let mut stream = port.connects().await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        // The second request finds the connection closed.
        stream
            .write_all(request.repeat(2).as_bytes())
            .await
            .unwrap();
        let answers = reads_all(&mut stream).await;
        assert!(
            answers.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answers}"
        );
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{answers}");
        let head = answers.to_ascii_lowercase();
        assert!(
            head.lines()
                .any(|line| line.starts_with("connection: ") && line.contains("close")),
            "{answers}"
        );
    }
    port.stops().await;
}

#[tokio::test]
async fn while_slots_are_scarce_every_answer_ends_its_connection() {
    let port = Port::open(Config {
        max_handshakes: 8,
        ..Config::default()
    })
    .await;
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(port.connects().await);
    }
    let mut stream = port.connects().await;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let answer = reads_all(&mut stream).await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("connection: close"),
        "{answer}"
    );
    port.stops().await;
}

#[tokio::test]
async fn connections_that_are_kept_busy_keep_nobody_out() {
    let port = Port::open(Config {
        max_handshakes: 16,
        ..Config::default()
    })
    .await;
    let addr = port.addr;
    let mut busy = tokio::task::JoinSet::new();
    for _ in 0..64 {
        busy.spawn(async move {
            loop {
                let Ok(mut stream) = TcpStream::connect(addr).await else {
                    continue;
                };
                let mut answer = [0; 1_024];
                while stream
                    .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                    .await
                    .is_ok()
                {
                    match stream.read(&mut answer).await {
                        Ok(1..) => tokio::time::sleep(Duration::from_millis(200)).await,
                        _ => break,
                    }
                }
            }
        });
    }
    for _ in 0..10 {
        let mut honest = port.connects().await;
        honest
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut status = [0; 12];
        let answered =
            tokio::time::timeout(Duration::from_secs(2), honest.read_exact(&mut status)).await;
        answered.expect("answered in time").expect("answered");
        assert_eq!(&status, b"HTTP/1.1 200");
    }
    busy.shutdown().await;
    port.stops().await;
}

#[tokio::test]
async fn a_client_that_does_not_finish_a_request_is_disconnected() {
    let port = Port::open(Config {
        handshake_timeout: Duration::from_millis(100),
        ..Config::default()
    })
    .await;
    let (mut silent, mut slow) = (port.connects().await, port.connects().await);
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
        .await
        .unwrap();
    reads_all(&mut silent).await;
    reads_all(&mut slow).await;
    port.stops().await;
}

#[tokio::test]
async fn a_client_that_holds_back_a_body_keeps_nobody_out() {
    let port = Port::open(Config {
        max_handshakes: 1,
        ..Config::default()
    })
    .await;
    let mut slow = port.connects().await;
    let head =
        b"PUT /v1/lives/42 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                 content-length: 30\r\n\r\n{";
    slow.write_all(head).await.unwrap();
    let mut next = port.connects().await;
    next.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    assert!(reads_all(&mut next).await.starts_with("HTTP/1.1 200"));
    port.stops().await;
}

#[tokio::test]
async fn a_body_that_is_too_long_is_refused_before_it_is_asked_for() {
    let port = Port::open(Config::default()).await;
    let head = |length: usize| {
        format!(
            "PUT /v1/lives/42 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n"
        )
    };
    let mut large = port.connects().await;
    large.write_all(head(10 << 20).as_bytes()).await.unwrap();
    let answer = reads_all(&mut large).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
    let mut small = port.connects().await;
    small.write_all(head(22).as_bytes()).await.unwrap();
    let mut answer = [0; 25];
    tokio::time::timeout(SOON, small.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&answer),
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    small
        .write_all(b"{\"streamer_id\": \"s1\"}\n")
        .await
        .unwrap();
    let answer = reads_all(&mut small).await;
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    port.stops().await;
}

#[tokio::test]
async fn heads_that_are_too_large_are_refused() {
    let port = Port::open(Config::default()).await;
    let many = "x: y\r\n".repeat(MAX_HEADERS + 1);
    let long = format!("x: {}\r\n", "y".repeat(MAX_HEAD));
    for headers in [many, long] {
        let mut stream = port.connects().await;
        let _ = stream
            .write_all(format!("GET /healthz HTTP/1.1\r\n{headers}\r\n").as_bytes())
            .await;
        let mut answer = vec![0; 12];
        tokio::time::timeout(SOON, stream.read_exact(&mut answer))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), "HTTP/1.1 431");
    }
    port.stops().await;
}

#[tokio::test]
async fn idle_connections_close_at_stop() {
    let port = Port::open(Config::default()).await;
    let mut stream = port.connects().await;
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut first = [0; 15];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    port.stops().await;
    reads_all(&mut stream).await;
}

#[test]
fn failing_accepts_are_logged_once_a_second() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut failures = Failures::default();
        let error = io::Error::from_raw_os_error(24);
        failures.note(&error);
        assert_eq!(failures.unlogged, 0);
        failures.note(&error);
        failures.note(&error);
        assert_eq!(failures.unlogged, 2);
        tokio::time::advance(LOG_EVERY).await;
        failures.note(&error);
        assert_eq!(failures.unlogged, 0);
    });
}
