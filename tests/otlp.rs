//! The spans that a gateway sends to an OpenTelemetry collector. Only a build with the feature has
//! them: `cargo test --features otlp --test otlp`.

// Here, and not by a target in the manifest: cargo refuses a manifest that names a file which the
// image's build lacks.
#![cfg(feature = "otlp")]
#![allow(missing_docs, clippy::unwrap_used)]
#![allow(
    clippy::disallowed_methods,
    reason = "the gateway is another process, and here is no runtime"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// A request to a collector. The body is protobuf: it has texts as they are, and ids as bytes.
struct Post {
    line: String,
    body: Vec<u8>,
}

#[derive(Clone, Default)]
struct Posted(Arc<Mutex<Vec<Post>>>);

impl Posted {
    fn has(&self, bytes: &[u8]) -> bool {
        self.0
            .lock()
            .unwrap()
            .iter()
            .any(|post| post.body.windows(bytes.len()).any(|window| window == bytes))
    }

    fn waits_for(&self, what: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.has(what.as_bytes()) {
            assert!(Instant::now() < deadline, "{what} was not sent");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A collector that takes everything.
fn collector() -> (SocketAddr, Posted) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, posted) = (listener.local_addr().unwrap(), Posted::default());
    let sink = posted.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, sink) = (stream.unwrap(), sink.clone());
            std::thread::spawn(move || take_all(stream, &sink));
        }
    });
    (addr, posted)
}

fn take_all(stream: TcpStream, sink: &Posted) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_ascii_lowercase());
        }
        let length = head
            .iter()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
            .unwrap();
        let mut body = vec![0; length];
        stream.read_exact(&mut body).unwrap();
        assert!(
            head.contains(&"content-type: application/x-protobuf".to_owned()),
            "{head:?}"
        );
        sink.0.lock().unwrap().push(Post {
            line: head[0].clone(),
            body,
        });
        stream
            .get_mut()
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .unwrap();
    }
}

struct Gateway {
    child: Child,
    addr: String,
}

impl Gateway {
    fn start(collector: SocketAddr, one_in: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_rollcall"))
            .args([
                "--auth",
                "off",
                "--listen",
                "127.0.0.1:0",
                "--drain",
                "0",
                "--flush",
                "50ms",
            ])
            .args([
                "--otlp-endpoint",
                &format!("http://{collector}"),
                "--otlp-one-in",
                one_in,
            ])
            .env("OTEL_BSP_SCHEDULE_DELAY", "100")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let addr =
            lines.find_map(|line| Some(line.strip_prefix("listening on http://")?.to_owned()));
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            addr: addr.expect("a line that says where it listens"),
        }
    }

    /// Sends a request, and reads up to the end of its answer.
    fn asks(&self, request: &str, headers: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.addr).unwrap();
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}"
        );
        write!(
            stream,
            "{head}\r\ncontent-type: application/json\r\n{headers}\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Opens a WebSocket that joins a live at once; the stream, once the client was told that it
    /// joined.
    fn joins(&self, user: &str, live: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.addr).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13";
        let key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
        write!(
            stream,
            "GET /ws?user_id={user}&live_id={live} HTTP/1.1\r\nhost: localhost\r\n{upgrade}\r\n{key}\r\n\r\n"
        )
        .unwrap();
        let (mut heard, mut chunk) = (Vec::new(), [0; 4_096]);
        while !String::from_utf8_lossy(&heard).contains("\"joined\"") {
            let read = stream.read(&mut chunk).unwrap();
            assert!(read > 0, "closed after {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&chunk[..read]);
        }
        stream
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn bytes(hex: &str) -> Vec<u8> {
    hex.as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn spans_of_requests_joins_and_flushes_arrive_and_a_trace_is_continued() {
    let (addr, posted) = collector();
    let gateway = Gateway::start(addr, "1");
    let parent = format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
    let opened = gateway.asks("PUT /v1/lives/42", &parent, r#"{"streamer_id":"s1"}"#);
    assert!(opened.starts_with("HTTP/1.1 201"), "{opened}");
    let _socket = gateway.joins("u1", "42");
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
        posted.waits_for(what);
    }
    assert!(
        posted.has(&bytes(TRACE)),
        "the trace of the request is continued"
    );
    assert!(
        posted.has(&bytes("00f067aa0ba902b7")),
        "its span is the parent"
    );
    let posts = posted.0.lock().unwrap();
    assert!(
        posts
            .iter()
            .all(|post| post.line == "post /v1/traces http/1.1"),
        "{:?}",
        posts[0].line
    );
}

#[test]
fn one_trace_in_many_is_sent_unless_the_client_asks_for_it() {
    let (addr, posted) = collector();
    let gateway = Gateway::start(addr, "1000000000");
    for _ in 0..20 {
        gateway.asks("GET /v1/lives", "", "");
    }
    gateway.asks(
        "GET /v1/gateway/slices",
        &format!("traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n"),
        "",
    );
    posted.waits_for("GET /v1/gateway/slices");
    assert!(!posted.has(b"GET /v1/lives"));
}

#[test]
fn the_last_spans_are_sent_when_the_gateway_ends_and_an_absent_collector_holds_nothing_up() {
    let (addr, posted) = collector();
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    for collector in [addr, nobody] {
        let mut gateway = Gateway::start(collector, "1");
        let answer = gateway.asks("GET /v1/online/count", "", "");
        assert!(answer.contains("x-request-id"), "{answer}");
        Command::new("kill")
            .args(["-TERM", &gateway.child.id().to_string()])
            .status()
            .unwrap();
        let deadline = Instant::now() + PATIENCE;
        while gateway.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "the program does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
    }
    posted.waits_for("GET /v1/online/count");
}
